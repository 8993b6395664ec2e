//! `bindings`: generates the committed bindings of the Rust SDK by `sdk/bindings/generator`.

use crate::step::{cargo, execute, step};
use crate::workspace::Workspace;

/// Generates the bindings and their digests.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    step("bindings", || {
        let mut command = cargo();
        command
            .args(["run", "--quiet", "--release", "--locked", "--manifest-path"])
            .arg("sdk/bindings/generator/Cargo.toml");
        execute(command.env("CARGO_TARGET_DIR", workspace.target.join("bindings")).current_dir(&workspace.root))
    })
}
