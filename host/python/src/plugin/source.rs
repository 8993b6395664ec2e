//! Where a plugin comes from: a name in a registry, a file, or bytes.

use std::path::PathBuf;

use gymkhana_orchestration::Classify;
use gymkhana_orchestration::plugins::file_of;
use gymkhana_registry::{Digest, LockEntry, PluginFile, PluginSource, Requirement, read_plugin_file};
use gymkhana_registry_client::{Pins, PluginResolver};

use crate::errors::FunctionFault;
use crate::runtime::Host;

/// A plugin argument.
pub enum PluginArgument {
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

impl PluginArgument {
    /// A text: a name such as `calculator@^1`, else a path. As on the command line, a file in the working directory
    /// cannot replace a name: paths end in `.wasm` or start with `.` or `/`.
    pub fn of_text(text: &str) -> Self {
        match PluginSource::of(text) {
            PluginSource::Name(name) => Self::Name(name),
            PluginSource::File(path) => Self::File(path),
        }
    }

    /// Reads or downloads the component.
    ///
    /// # Errors
    /// If it cannot be found or verified.
    pub fn fetch(self, host: &Host) -> Result<Fetched, FunctionFault> {
        match self {
            Self::Bytes(bytes) => Ok(Fetched { origin: format!("bytes {}", Digest::of(&bytes)), bytes, pinned: None }),
            Self::File(path) => {
                // With the words of the command line.
                let file = file_of(path.display().to_string(), read_plugin_file(&path).user_error()?)?;
                Ok(Fetched { origin: file.origin, bytes: file.bytes, pinned: None })
            }
            Self::Name(wanted) => named(&wanted, host),
        }
    }
}

/// Resolves and downloads a plugin: the version that the project's lock pins, or the newest that matches.
fn named(wanted: &Requirement, host: &Host) -> Result<Fetched, FunctionFault> {
    let resolver = PluginResolver::here(false).user_error()?;
    let wanted = std::slice::from_ref(wanted);
    let fetched = host.block_on(resolver.fetch(wanted, &Pins::Kept, &|_| {}));
    resolver.client().take_notices().into_iter().for_each(|notice| host.warn(notice));
    let none = || FunctionFault::Internal(format!("`{}` was resolved to nothing", wanted[0]));
    let plugin = fetched.user_error()?.pop().ok_or_else(none)?;
    let PluginFile { origin, entry: LockEntry { name, version, .. }, bytes } = plugin;
    Ok(Fetched { origin, bytes, pinned: Some(format!("{name}@={version}")) })
}
