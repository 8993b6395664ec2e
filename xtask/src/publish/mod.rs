//! Publishing: the version of a release, and the packages of the SDKs.
//!
//! Packages are linted, typed and built; nothing is uploaded.

pub mod dist;
pub mod release;
pub mod wheel;
pub mod wheel_test;

use std::path::Path;
use std::process::Command;

use crate::foreign;
use crate::python_package::PACKAGE;
use crate::step::{cargo, execute, step};
use crate::tools::{NPM, NPM_LOCK, ensure_npm, ensure_python, node};
use crate::workspace::Workspace;

/// Locked requirements of the Python checks.
const PYTHON: &str = include_str!("../../requirements/package.txt");

/// `package`: checks and packs the Rust, Python and JavaScript packages.
pub fn package(workspace: &Workspace) -> anyhow::Result<()> {
    step("package: Rust", || package_rust(workspace))?;
    step("package: Python", || package_python(workspace, &workspace.target.join("package/python")))?;
    step("package: JavaScript", || package_js(workspace))
}

/// `cargo publish --dry-run` of all crates that may be published, together, so that they find each other.
fn package_rust(workspace: &Workspace) -> anyhow::Result<()> {
    let mut command = cargo();
    // The working tree may have changes while it is tested; a release is made from a clean one.
    command.args(["publish", "--dry-run", "--allow-dirty"]).current_dir(&workspace.root);
    let publishable = workspace.packages.iter().filter(|package| package.publish);
    let names: Vec<&str> = publishable.map(|package| package.name.as_str()).collect();
    anyhow::ensure!(!names.is_empty(), "no crate is publishable\nhint: set `publish = true` in its manifest");
    names.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    execute(&mut command)
}

/// Folder of the Python SDK.
const SDK: &str = "sdk/python";

fn package_python(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let python = ensure_python(&workspace.root, "package", PYTHON)?;
    let module = |name: &str, arguments: &[&str], folder: &str| {
        let mut command = Command::new(&python);
        command.args(["-m", name]).args(arguments).current_dir(workspace.root.join(folder));
        execute(&mut command)
    };
    module("ruff", &["check", "."], SDK)?;
    module("ruff", &["check", "."], PACKAGE)?;
    module("mypy", &["src"], SDK)?;
    build_sdk(workspace, &[], out)
}

/// Builds the Python SDK into a folder.
///
/// It is not isolated: the pinned packages build it, and nothing is downloaded again.
pub fn build_sdk(workspace: &Workspace, options: &[&str], out: &Path) -> anyhow::Result<()> {
    let python = ensure_python(&workspace.root, "package", PYTHON)?;
    let mut command = Command::new(&python);
    command.args(["-m", "build", "--no-isolation"]).args(options).arg("--outdir").arg(out).arg(".");
    execute(command.current_dir(workspace.root.join(SDK)))
}

fn package_js(workspace: &Workspace) -> anyhow::Result<()> {
    let python = foreign::ensure_python_with_node(workspace)?;
    let home = ensure_npm(&workspace.root, &python, NPM, &workspace.root.join(NPM_LOCK))?;
    let sdk = workspace.root.join("sdk/js");
    let tsc = home.join("node_modules/typescript/bin/tsc");
    execute(node(&python, "node")?.arg(tsc).args(["--project", "."]).current_dir(&sdk))?;
    pack_js(workspace, &workspace.target.join("package/js"))
}

/// Packs the JavaScript SDK into a folder.
pub fn pack_js(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let python = foreign::ensure_python_with_node(workspace)?;
    std::fs::create_dir_all(out)?;
    let mut command = node(&python, "npm")?;
    execute(command.args(["pack", "--pack-destination"]).arg(out).current_dir(workspace.root.join("sdk/js")))
}

/// `bindings`: generates the committed bindings of the Rust SDK, and their digests, by `sdk/bindings/generator`.
pub fn bindings(workspace: &Workspace) -> anyhow::Result<()> {
    step("bindings", || {
        let mut command = cargo();
        command
            .args(["run", "--quiet", "--release", "--locked", "--manifest-path"])
            .arg("sdk/bindings/generator/Cargo.toml");
        execute(command.env("CARGO_TARGET_DIR", workspace.target.join("bindings")).current_dir(&workspace.root))
    })
}
