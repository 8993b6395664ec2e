//! Paths of the components that the tests load.

use std::path::{Path, PathBuf};

/// The repository's root.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Path of the component of a first-party plugin or a guest, such as `calculator` or `guest-echo`.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn component(name: &str) -> PathBuf {
    let path = root().join("target/plugins").join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is missing: run `cargo xtask plugins`", path.display());
    path
}
