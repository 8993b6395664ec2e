//! `package`: lints, types and builds of the publishable packages. Nothing is uploaded.

use std::path::Path;
use std::process::Command;

use crate::foreign;
use crate::step::{cargo, execute, step};
use crate::tools::{NPM, NPM_LOCK, ensure_npm, ensure_python, node};
use crate::workspace::Workspace;

/// Locked requirements of the Python checks.
const PYTHON: &str = include_str!("../../requirements/package.txt");

/// Checks and packs the Rust, Python and JavaScript packages.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
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

fn package_python(workspace: &Workspace, out: &Path) -> anyhow::Result<()> {
    let python = ensure_python(&workspace.root, "package", PYTHON)?;
    let sdk = workspace.root.join("sdk/python");
    let module = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", name]).args(arguments).current_dir(&sdk);
        command
    };
    execute(&mut module("ruff", &["check", "."]))?;
    execute(&mut module("mypy", &["src"]))?;
    // Without isolation: the pinned packages build it, and nothing is downloaded again.
    execute(module("build", &["--no-isolation", "--outdir"]).arg(out).arg("."))
}

fn package_js(workspace: &Workspace) -> anyhow::Result<()> {
    let python = foreign::ensure_python_with_node(workspace)?;
    let home = ensure_npm(&workspace.root, &python, NPM, &workspace.root.join(NPM_LOCK))?;
    let sdk = workspace.root.join("sdk/js");
    let tsc = home.join("node_modules/typescript/bin/tsc");
    execute(node(&python, "node")?.arg(tsc).args(["--project", "."]).current_dir(&sdk))?;
    let out = workspace.target.join("package/js");
    std::fs::create_dir_all(&out)?;
    execute(node(&python, "npm")?.args(["pack", "--pack-destination"]).arg(out).current_dir(&sdk))
}
