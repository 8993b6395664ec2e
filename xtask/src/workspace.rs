//! The repository: its folders and its packages, as cargo sees them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::step::{cargo, output_of};

/// The repository.
#[derive(Debug)]
pub struct Workspace {
    /// Root folder.
    pub root: PathBuf,
    /// Folder of cargo's output.
    pub target: PathBuf,
    /// Packages, sorted by name.
    pub packages: Vec<Package>,
}

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Name.
    pub name: String,
    /// Folder, relative to the root.
    pub folder: PathBuf,
    /// Names of its normal dependencies, sorted: neither for tests nor for build scripts.
    pub dependencies: Vec<String>,
    /// Names of all its dependencies, those of tests and build scripts included, sorted.
    pub all_dependencies: Vec<String>,
    /// Whether its manifest allows publishing.
    pub publish: bool,
}

impl Package {
    fn from_metadata(package: &Value, root: &Path) -> Option<Self> {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.strip_prefix(root).ok()?.to_owned();
        let listed = package["dependencies"].as_array()?;
        let names = |is_wanted: fn(&Value) -> bool| {
            let wanted = listed.iter().filter(|dependency| is_wanted(&dependency["kind"]));
            let mut names: Vec<String> =
                wanted.map(|dependency| Some(dependency["name"].as_str()?.to_owned())).collect::<Option<_>>()?;
            names.sort();
            names.dedup();
            Some(names)
        };
        let (dependencies, all_dependencies) = (names(Value::is_null)?, names(|_| true)?);
        // An empty list of registries is `publish = false`.
        let publish = package["publish"].as_array().is_none_or(|registries| !registries.is_empty());
        let name = package["name"].as_str()?.to_owned();
        Some(Self { name, folder, dependencies, all_dependencies, publish })
    }
}

impl Workspace {
    /// Finds the repository that this program was built in.
    pub fn find() -> anyhow::Result<Self> {
        let package = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root = Path::new(&package).parent().context("the folder of xtask has no parent")?.to_owned();
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
        Self::from_metadata(root, &metadata).context("`cargo metadata` has an unknown form")
    }

    fn from_metadata(root: PathBuf, metadata: &Value) -> Option<Self> {
        let folder = Path::new(metadata["workspace_root"].as_str()?);
        let packages = metadata["packages"].as_array()?.iter().map(|package| Package::from_metadata(package, folder));
        let mut packages: Vec<Package> = packages.collect::<Option<_>>()?;
        packages.sort();
        Some(Self { root, target: PathBuf::from(metadata["target_directory"].as_str()?), packages })
    }

    /// Names of the packages that become plugins: the first-party plugins and the guests of the tests.
    pub fn plugin_packages(&self) -> Vec<&str> {
        self.packages.iter().filter(|package| is_plugin(&package.folder)).map(|package| package.name.as_str()).collect()
    }

    /// Path of the component of this plugin package.
    pub fn component(&self, package: &str) -> PathBuf {
        self.target.join("plugins").join(format!("{package}.wasm"))
    }

    /// Files that git tracks or would add, relative to the root, sorted; `patterns` are git's path patterns.
    pub fn files(&self, patterns: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
        let mut command = Command::new("git");
        command.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"]);
        let listed = output_of(command.args(patterns).current_dir(&self.root)).context("`git ls-files` failed")?;
        let mut files: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
        files.retain(|file| self.root.join(file).exists());
        files.sort();
        Ok(files)
    }
}

/// Whether the package in this folder becomes a component.
pub fn is_plugin(folder: &Path) -> bool {
    let is_library = folder.starts_with("plugins/lib");
    (folder.starts_with("plugins") && !is_library) || folder.starts_with("tests/guests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_distinguished_from_other_packages() {
        let package = |name: &str, folder: &str| {
            serde_json::json!({
                "name": name, "manifest_path": format!("/r/{folder}/Cargo.toml"), "publish": [],
                "dependencies": [
                    {"name": "serde", "kind": null}, {"name": "insta", "kind": "dev"}, {"name": "cc", "kind": "build"},
                ],
            })
        };
        let metadata = serde_json::json!({
            "workspace_root": "/r",
            "target_directory": "/r/target",
            "packages": [
                package("guest-echo", "tests/guests/echo"),
                package("gymkhana-tests", "tests"),
                package("calculator", "plugins/tools/calculator"),
                package("gymkhana-sdk", "sdk/rust"),
                package("gymkhana-sqlite", "plugins/lib/sqlite"),
            ],
        });
        let workspace = Workspace::from_metadata("/r".into(), &metadata).expect("understood");
        assert_eq!(workspace.plugin_packages(), ["calculator", "guest-echo"]);
        assert_eq!(workspace.component("calculator"), Path::new("/r/target/plugins/calculator.wasm"));
        assert_eq!(workspace.packages[0].dependencies, ["serde"]);
        assert_eq!(workspace.packages[0].all_dependencies, ["cc", "insta", "serde"]);
        assert!(!workspace.packages[0].publish);
    }
}
