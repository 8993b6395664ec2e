//! Where a plugin comes from: a name in a registry, a file, or bytes.

use std::path::{Path, PathBuf};

use gymkhana_orchestration::Classify;
use gymkhana_orchestration::plugins::check_file;
use gymkhana_registry::{Digest, LOCK_FILE, Lock, LockEntry, Requirement, read_plugin_file};
use gymkhana_registry_client::{PROJECT_FILE, RegistryClient, TrustedOwners, Unpinned, project_folder};

use crate::errors::Fault;
use crate::runtime::Host;

/// A plugin argument.
pub enum Source {
    /// A name with versions.
    Name(Requirement),
    /// A file.
    File(PathBuf),
    /// A component.
    Bytes(Vec<u8>),
}

/// A component with its origin.
pub struct Fetched {
    /// Name of the component in errors.
    pub origin: String,
    /// The component.
    pub bytes: Vec<u8>,
    /// Name and version in a registry.
    pub pinned: Option<String>,
}

impl Source {
    /// A text: a name such as `calculator@^1`, else a path. As on the command line, a file in the working directory
    /// cannot replace a name: paths end in `.wasm` or start with `.` or `/`.
    pub fn of_text(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::File(PathBuf::from(text)), Self::Name)
    }

    /// Reads or downloads the component.
    ///
    /// # Errors
    /// If it cannot be found or verified.
    pub fn fetch(self, host: &Host) -> Result<Fetched, Fault> {
        match self {
            Self::Bytes(bytes) => Ok(Fetched { origin: format!("bytes {}", Digest::of(&bytes)), bytes, pinned: None }),
            Self::File(path) => {
                let (origin, bytes) = (path.display().to_string(), read_plugin_file(&path).user_error()?);
                // With the words of the command line.
                check_file(&origin, &bytes)?;
                Ok(Fetched { origin, bytes, pinned: None })
            }
            Self::Name(wanted) => named(&wanted, host),
        }
    }
}

/// Resolves and downloads a plugin: the version that the project's lock pins, or the newest that matches.
fn named(wanted: &Requirement, host: &Host) -> Result<Fetched, Fault> {
    let here = std::env::current_dir().user_context("the working directory cannot be read")?;
    let project = project_folder(&here);
    if let Some(folder) = &project {
        check_owner(&folder.join(PROJECT_FILE))?;
    }
    let folder = project.unwrap_or(here);
    let lock_file = folder.join(LOCK_FILE);
    let lock = if lock_file.is_file() {
        check_owner(&lock_file)?;
        Some(Lock::read(&lock_file).user_error()?)
    } else {
        None
    };
    let client = RegistryClient::of_user(&folder, false).user_error()?;
    let fetched = host.block_on(async {
        let entries = client.resolve(std::slice::from_ref(wanted), lock.as_ref(), Unpinned::Resolve).await?;
        let components = client.components(&entries).await?;
        Ok::<_, gymkhana_registry_client::RegistryClientError>(entries.into_iter().zip(components).next())
    });
    client.take_notices().into_iter().for_each(|notice| host.warn(notice));
    let none = || Fault::Internal(format!("`{wanted}` was resolved to nothing"));
    let (LockEntry { name, version, .. }, bytes) = fetched.user_error()?.ok_or_else(none)?;
    Ok(Fetched { origin: format!("{name} {version}"), bytes, pinned: Some(format!("{name}@={version}")) })
}

fn check_owner(file: &Path) -> Result<(), Fault> {
    let checked = TrustedOwners::of_process().check(file);
    Ok(checked.user_context(format!("cannot use `{}`", file.display()))?)
}
