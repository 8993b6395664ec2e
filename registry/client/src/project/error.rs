//! Errors of a project's files, and of resolving its plugins.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use gymkhana_registry::{Capability, LockEntry, LockError, PluginName};
use gymkhana_waits::Silent;
use semver::Version;

use crate::{OpenError, OwnerError, PROJECT_FILE, RegistryClientError};

/// The files of a project cannot be used, or a plugin cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The working directory cannot be read.
    #[error("the working directory cannot be read\nhint: change into an existing one")]
    WorkingFolder(#[source] io::Error),
    /// There is no project.
    #[error("no {PROJECT_FILE} here or above\nhint: create one with `host add PLUGIN`")]
    None,
    /// A file of the project belongs to another user.
    #[error("cannot use `{path}`")]
    Owner {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: OwnerError,
    },
    /// Another command did not release the project's files.
    #[error("{0}\nhint: end the other command that changes this project")]
    Locked(Silent),
    /// The project file cannot be read, or is malformed.
    #[error("project file `{path}` cannot be used\nhint: correct it")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A requirement is malformed.
    #[error("`{versions}` of `{name}` in `{path}` is not a version requirement\nhint: write for example `^1`")]
    Versions {
        /// The requirement.
        versions: String,
        /// Plugin.
        name: Box<PluginName>,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: semver::Error,
    },
    /// Several plugins of the project have a short name.
    #[error(
        "`{name}` is ambiguous in `{path}`: it may be `{}` or `{}`\nhint: write it with its namespace",
        candidates[0], candidates[1]
    )]
    Ambiguous {
        /// Short name.
        name: String,
        /// The project file.
        path: PathBuf,
        /// Two plugins of this short name.
        candidates: Box<[PluginName; 2]>,
    },
    /// The project does not require the plugin.
    #[error("`{path}` has no plugin `{name}`\nhint: its plugins are {}", listed(known))]
    Unknown {
        /// Name, in full or short.
        name: String,
        /// The project file.
        path: PathBuf,
        /// Plugins of the project.
        known: Vec<PluginName>,
    },
    /// The project file cannot be written.
    #[error("project file `{path}` cannot be written\nhint: free space")]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Another command's changes cannot be excluded.
    #[error("cannot lock the project with `{path}`\nhint: check its permissions")]
    Exclusive {
        /// The file that is locked.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The lock cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A version requests capabilities without consent.
    #[error(
        "`{name}` {version} requests {} without consent\nhint: allow it with `host add {name}@{version} {}`, or use \
         another version",
        listed(open),
        allowing(open)
    )]
    NoConsent {
        /// Plugin.
        name: PluginName,
        /// Its version.
        version: Version,
        /// Capabilities without consent.
        open: Vec<Capability>,
    },
    /// The client of the registries cannot be set up.
    #[error(transparent)]
    Open(#[from] Box<OpenError>),
    /// A plugin cannot be resolved or downloaded.
    #[error(transparent)]
    Registry(#[from] Box<RegistryClientError>),
}

impl ProjectError {
    /// Missing consent to capabilities of a pinned version.
    #[must_use]
    pub fn no_consent(pinned: &LockEntry, open: Vec<Capability>) -> Self {
        Self::NoConsent { name: pinned.name.clone(), version: pinned.version.clone(), open }
    }
}

impl From<OpenError> for ProjectError {
    fn from(error: OpenError) -> Self {
        Self::Open(Box::new(error))
    }
}

impl From<RegistryClientError> for ProjectError {
    fn from(error: RegistryClientError) -> Self {
        Self::Registry(Box::new(error))
    }
}

fn listed(items: &[impl ToString]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(|item| format!("`{}`", item.to_string())).collect::<Vec<_>>().join(", ")
}

fn allowing(open: &[Capability]) -> String {
    open.iter().map(|capability| format!("--allow {capability}")).collect::<Vec<_>>().join(" ")
}
