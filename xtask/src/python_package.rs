//! Tests of the Python package with the library of the workspace's own build, without a wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::setup::run_cargo;
use crate::step::{execute, output_of, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Folder of the package.
pub const PACKAGE: &str = "host/python";

/// Locked requirements of its tests.
pub const REQUIREMENTS: &str = include_str!("../requirements/python.txt");

/// The native module, and packages whose default features a build of the workspace has: nothing is compiled twice.
const BUILT_TOGETHER: [&str; 5] =
    ["gymkhana-python", "gymkhana-cli", "gymkhana-net", "gymkhana-orchestration", "gymkhana-run"];

/// Assembles the package and runs its tests. Those of frameworks that are not installed are skipped.
pub fn test(workspace: &Workspace) -> anyhow::Result<()> {
    let python = make_environment(workspace, "python", REQUIREMENTS)?;
    step("python package: tests", || {
        let mut command = Command::new(&python);
        command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]);
        command.env("GYMKHANA_PLUGINS", workspace.target.join("plugins"));
        command.env("GYMKHANA_HOST", workspace.target.join("release/host"));
        execute(command.current_dir(workspace.root.join(PACKAGE)))
    })
}

/// Builds the package's library.
pub fn build(workspace: &Workspace) -> anyhow::Result<()> {
    step("python package: build", || {
        let packages = BUILT_TOGETHER.map(|package| ["--package", package]);
        run_cargo(workspace, &[&["build", "--release", "--lib"], packages.as_flattened()].concat())
    })
}

/// A Python of the name with these locked requirements and the package, which is assembled in `target/python`.
pub fn make_environment(workspace: &Workspace, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let python = step("python package: tools", || ensure_python(&workspace.root, name, requirements))?;
    build(workspace)?;
    let folder = workspace.target.join("python");
    assemble(workspace, &folder)?;
    make_importable(&python, &folder)?;
    Ok(python)
}

/// Copies the package's Python files and the built library into a folder.
fn assemble(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    let package = folder.join("gymkhana_rl");
    fs::create_dir_all(&package).with_context(|| format!("cannot create `{}`", package.display()))?;
    let sources = workspace.root.join(PACKAGE).join("python");
    for name in ["gymkhana_rl", "gymkhana_command", "gymkhana_verifiers"] {
        execute(Command::new("cp").arg("-r").arg(sources.join(name)).arg(folder))?;
    }
    let library = workspace.target.join("release/lib_native.so");
    let module = package.join("_native.abi3.so");
    fs::copy(&library, &module).with_context(|| format!("cannot copy `{}`", library.display()))?;
    Ok(())
}

/// Lets this Python import packages of a folder.
fn make_importable(python: &Path, folder: &Path) -> anyhow::Result<()> {
    let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = output_of(Command::new(python).args(["-c", script])).context("Python does not name its packages")?;
    let link = Path::new(packages.trim()).join("gymkhana-rl.pth");
    fs::write(&link, format!("{}\n", folder.display())).with_context(|| format!("cannot write `{}`", link.display()))
}
