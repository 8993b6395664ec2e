//! `host verify`: signatures of pinned plugins.

use std::path::Path;

use gymkhana_registry::LOCK_FILE;

use gymkhana_registry_client::{lock_in, root_or_here};

use super::RegistrySession;
use crate::args::registry::FetchArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::printer::Printer;

/// Runs `host verify`.
pub fn verify(dir: Option<&Path>, fetch: FetchArgs, printer: &Printer) -> CliResult<()> {
    let folder = dir.map_or_else(root_or_here, |dir| Ok(dir.to_owned())).user_error()?;
    let lock = lock_in(&folder).user_error()?;
    let lock = lock.ok_or_else(|| {
        CliError::user(format!(
            "`{}` has no {LOCK_FILE}\nhint: name the folder of a project or a run",
            folder.display()
        ))
    })?;
    let session = RegistrySession::new(fetch.offline)?;
    for entry in lock.entries() {
        let signer = session.wait(printer, session.client().verify(entry))?;
        let signer = signer.map_or("no key: its registry is unsigned".to_owned(), |key| key.to_string());
        printer.result(format!(
            "{} {} {:.16}… signed by {signer}",
            entry.name,
            entry.version,
            entry.digest.to_string()
        ));
    }
    Ok(())
}
