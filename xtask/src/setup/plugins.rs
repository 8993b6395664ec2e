//! Builds the plugins and the tests' guests to components, in `target/plugins/`.

use std::fs;

use anyhow::Context;

use super::compiler;
use crate::step::{cargo, execute, step};
use crate::workspace::Workspace;

/// Builds every plugin package to a component named after the package.
pub fn build(workspace: &Workspace) -> anyhow::Result<()> {
    compiler::ensure(&workspace.root)?;
    build_some(workspace, &workspace.plugin_packages())
}

/// As [`build`], for packages that contain no C.
pub fn build_some(workspace: &Workspace, packages: &[&str]) -> anyhow::Result<()> {
    step("plugins", || {
        let mut command = cargo();
        command.args(["build", "--release", "--target", "wasm32-wasip2"]).current_dir(&workspace.root);
        packages.iter().for_each(|package| {
            command.args(["--package", package]);
        });
        execute(&mut command)?;
        fs::create_dir_all(workspace.target.join("plugins"))?;
        packages.iter().try_for_each(|package| copy(workspace, package))
    })
}

/// Copies a component if it changed. A rename makes the replacement atomic for concurrent readers.
fn copy(workspace: &Workspace, package: &str) -> anyhow::Result<()> {
    let name = format!("{}.wasm", package.replace('-', "_"));
    let built = workspace.target.join("wasm32-wasip2").join("release").join(name);
    let bytes =
        fs::read(&built).with_context(|| format!("package `{package}` did not produce `{}`", built.display()))?;
    let component = workspace.component(package);
    if fs::read(&component).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let temporary = component.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, &component)?;
    Ok(())
}
