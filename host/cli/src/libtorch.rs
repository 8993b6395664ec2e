//! libtorch of `gymkhana-train`: its folder and its version.

use std::path::{Path, PathBuf};

#[path = "../../trainer/libtorch_version.rs"]
mod libtorch_version;

use libtorch_version::libtorch_version;

/// Required version.
pub const REQUIRED: &str = env!("GYMKHANA_LIBTORCH_VERSION");

/// Folder at build time; empty in a build without the trainer.
const BUILT_WITH: &str = env!("GYMKHANA_LIBTORCH");

/// Folder of libtorch, and its name in messages: the user's own of LIBTORCH, else that of the build.
pub fn folder(users_own: Option<PathBuf>) -> (PathBuf, &'static str) {
    match users_own {
        Some(folder) => (folder, "LIBTORCH"),
        None => (PathBuf::from(BUILT_WITH), "the build's libtorch"),
    }
}

/// Version of the libtorch in a folder, such as `2.11.0+cpu`; empty if there is none.
pub fn version(folder: &Path) -> String {
    libtorch_version(folder).unwrap_or_default()
}

/// Returns whether this program can use a version.
pub fn is_required(version: &str) -> bool {
    version.split('+').next() == Some(REQUIRED)
}
