//! Where the repository's things are.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::step::cargo;

/// The repository, as cargo sees it.
#[derive(Debug)]
pub struct Workspace {
    /// Its root folder.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// Name and folder of each package, the folder relative to the root.
    packages: Vec<(String, PathBuf)>,
}

impl Workspace {
    /// Finds the repository that this program was built in.
    pub fn find() -> anyhow::Result<Self> {
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root = Path::new(&package).parent().context("xtask has no folder above it")?.to_owned();
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(&root)
            .output()
            .context("cargo does not start")?;
        anyhow::ensure!(
            output.status.success(),
            "`cargo metadata` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        Self::from_metadata(root, &metadata).context("`cargo metadata` says something new")
    }

    fn from_metadata(root: PathBuf, metadata: &Value) -> Option<Self> {
        let mut packages = Vec::new();
        for package in metadata["packages"].as_array()? {
            let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
            let folder = folder.strip_prefix(metadata["workspace_root"].as_str()?).ok()?.to_owned();
            packages.push((package["name"].as_str()?.to_owned(), folder));
        }
        packages.sort();
        Some(Self { root, target: PathBuf::from(metadata["target_directory"].as_str()?), packages })
    }

    /// The names of the packages that become plugins: the first-party ones, without what they share, and the guests of
    /// the tests.
    pub fn plugin_packages(&self) -> Vec<&str> {
        let is_shared = |folder: &Path| folder.starts_with("plugins/shared");
        let is_plugin =
            |folder: &Path| folder.starts_with("plugins") && !is_shared(folder) || folder.starts_with("tests/guests");
        self.packages.iter().filter(|(_, folder)| is_plugin(folder)).map(|(name, _)| name.as_str()).collect()
    }

    /// Where the component of this plugin package is put.
    pub fn component(&self, package: &str) -> PathBuf {
        self.target.join("plugins").join(format!("{package}.wasm"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_told_from_other_packages() {
        let metadata = serde_json::json!({
            "workspace_root": "/r",
            "target_directory": "/r/target",
            "packages": [
                {"name": "guest-echo", "manifest_path": "/r/tests/guests/echo/Cargo.toml"},
                {"name": "gymkhana-tests", "manifest_path": "/r/tests/Cargo.toml"},
                {"name": "calculator", "manifest_path": "/r/plugins/tools/calculator/Cargo.toml"},
                {"name": "gymkhana-sdk", "manifest_path": "/r/sdk/rust/Cargo.toml"},
                {"name": "gymkhana-sqlite", "manifest_path": "/r/plugins/shared/sqlite/Cargo.toml"},
            ],
        });
        let workspace = Workspace::from_metadata("/r".into(), &metadata).expect("understood");
        assert_eq!(workspace.plugin_packages(), ["calculator", "guest-echo"]);
        assert_eq!(workspace.component("calculator"), Path::new("/r/target/plugins/calculator.wasm"));
    }
}
