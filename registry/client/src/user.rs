//! The registries of a user and a project: their configuration, and the folders of the client.

use std::path::{Path, PathBuf};

use crate::config::CONFIG_FILE;
use crate::{
    ClientFolders, ClientSettings, RegistryClient, RegistryClientError, RegistryConfig, RegistryConfigError,
    TrustedOwners,
};

/// Variable with the folder of what was installed beside the programs.
pub const INSTALLED_VARIABLE: &str = "GYMKHANA_SHARE";

/// Name of the project file.
pub const PROJECT_FILE: &str = "gymkhana.toml";

/// The client of a user's registries cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The environment names no folder of the user.
    #[error("there is no folder for plugins\nhint: set HOME or XDG_CACHE_HOME")]
    NoFolder,
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] RegistryConfigError),
    /// The client cannot be created.
    #[error(transparent)]
    Client(Box<RegistryClientError>),
}

impl From<RegistryClientError> for OpenError {
    fn from(error: RegistryClientError) -> Self {
        Self::Client(Box::new(error))
    }
}

/// Folder of this user, from the environment variable or below HOME.
#[must_use]
pub fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder(variable).or_else(|| Some(folder("HOME")?.join(below_home)))?;
    Some(base.join("gymkhana"))
}

/// Folder of what was installed beside the programs, such as the registry of the first-party plugins: that of
/// `GYMKHANA_SHARE`, else `share/gymkhana` beside the folder of this program. `None` if neither has a configuration of
/// registries, as in a checkout.
#[must_use]
pub fn installed_folder() -> Option<PathBuf> {
    let named = std::env::var_os(INSTALLED_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("share/gymkhana"));
    named.or_else(beside).filter(|folder| folder.join(CONFIG_FILE).is_file())
}

/// Folder of the nearest project file, from a folder upwards. It may belong to another user; see [`TrustedOwners`].
#[must_use]
pub fn project_folder(here: &Path) -> Option<PathBuf> {
    here.ancestors().find(|folder| folder.join(PROJECT_FILE).is_file()).map(Path::to_owned)
}

impl RegistryClient {
    /// Client of the registries that the project in a folder and this user configure. The installation's registry serves
    /// the namespaces that they leave open.
    ///
    /// # Errors
    /// If a configuration cannot be used, or the user has no folder.
    pub fn of_user(project: &Path, offline: bool) -> Result<Self, OpenError> {
        let users = user_folder("XDG_CONFIG_HOME", ".config");
        let mut config = RegistryConfig::find(project, users.as_deref(), &TrustedOwners::of_process())?;
        if let Some(installed) = installed_folder() {
            config.complete(RegistryConfig::read(&installed.join(CONFIG_FILE))?);
        }
        let cache = user_folder("XDG_CACHE_HOME", ".cache").ok_or(OpenError::NoFolder)?.join("plugins");
        let seen = user_folder("XDG_STATE_HOME", ".local/state").ok_or(OpenError::NoFolder)?.join("registries");
        Ok(Self::new(config, ClientSettings::new(ClientFolders { cache, seen }, offline))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_project_is_found_from_below() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b/c");
        std::fs::create_dir_all(&inner).unwrap();
        for folder in [dir.path().to_owned(), dir.path().join("a/b")] {
            std::fs::write(folder.join(PROJECT_FILE), "").unwrap();
        }
        assert_eq!(project_folder(&inner), Some(dir.path().join("a/b")));
        assert_eq!(project_folder(&dir.path().join("a")), Some(dir.path().to_owned()));
    }
}
