//! Digests of frozen models, which lie outside the run's folder: a resumed run verifies that they are unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gymkhana_registry::Digest;

use gymkhana_orchestration::{Classify, RunError, RunResult};

/// Digest of each frozen seat's model, by seat name.
pub(crate) type Frozen = BTreeMap<String, Digest>;

/// Digest over names and contents of the files that define a model's output.
pub(crate) fn digest(folder: &Path) -> RunResult<Digest> {
    let unread = || format!("the model in `{}` cannot be read\nhint: name the folder of a model", folder.display());
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

/// Rejects a frozen model that differs from the one at the start of the run.
pub(crate) fn check(begun: &Frozen, seat: &str, folder: &Path, found: &Digest) -> RunResult<()> {
    match begun.get(seat) {
        Some(digest) if digest != found => Err(RunError::user(format!(
            "the frozen model of seats.{seat} in `{}` changed after the start of the run\nhint: restore it, or start a \
             new run in another --out",
            folder.display()
        ))),
        _ => Ok(()),
    }
}
