//! What frozen seats play with: weights that lie outside the run's folder, so that a resumed run looks whether they are
//! still those with which it began.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gymkhana_registry::Digest;

use crate::error::{Classify, RunError, RunResult};

/// The digest of each frozen seat's model, by the seat's name.
pub(crate) type Frozen = BTreeMap<String, Digest>;

/// The digest of a model's folder: of the names and the bytes of all that says what the model says.
pub(crate) fn digest(folder: &Path) -> RunResult<Digest> {
    let unread = || format!("the model in `{}` cannot be read; name the folder of a model", folder.display());
    let entries = fs::read_dir(folder).user_context(unread())?;
    let mut names: Vec<String> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.retain(|name| [".json", ".jinja", ".safetensors"].iter().any(|ending| name.ends_with(ending)));
    names.sort_unstable();
    let mut listed = String::new();
    for name in names {
        let bytes = fs::read(folder.join(&name)).user_context(unread())?;
        listed += &format!("{name} {}\n", Digest::of(&bytes));
    }
    Ok(Digest::of(listed.as_bytes()))
}

/// Refuses to go on with another model than the run began with.
pub(crate) fn check(begun: &Frozen, seat: &str, folder: &Path, found: &Digest) -> RunResult<()> {
    match begun.get(seat) {
        Some(digest) if digest != found => Err(RunError::user(format!(
            "the frozen model of seats.{seat} in `{}` was changed after the run began; restore it, or start a new run in \
             another --out",
            folder.display()
        ))),
        _ => Ok(()),
    }
}
