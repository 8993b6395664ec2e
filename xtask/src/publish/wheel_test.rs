//! Tests of the wheel: in a folder without the repository, then beside the programs and frameworks that load it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::package::build_sdk;
use super::wheel::{build, only_wheel};
use crate::python_package::{PACKAGE, REQUIREMENTS};
use crate::step::{execute, step};
use crate::tools::ensure_python_as_listed;
use crate::workspace::Workspace;

/// Trainers and frameworks that the adapters are tested with. Their declared dependencies exclude each other: the list is
/// installed as it is.
pub const ADAPTERS: &str = include_str!("../../requirements/adapters.txt");

/// What the tests need besides the package, relative to the repository.
const COPIED: [&str; 3] = ["host/python/tests", "host/python/pyproject.toml", "host/cli/templates"];

/// Variable that makes skipped tests failures.
const NO_SKIPS: &str = "GYMKHANA_NO_SKIPS";

/// Builds the wheel and tests it: in a new environment in another folder, then beside pytest-xdist, Jupyter, Ray and the
/// frameworks of its adapters.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let wheel = build(workspace, false, None)?;
    let sdk = step("wheel: SDK", || build_sdk_wheel(workspace))?;
    let home = std::env::temp_dir().join(format!("gymkhana-wheel-{}", std::process::id()));
    let done = test_alone(workspace, [&wheel, &sdk], &home);
    // What stays in the folder of temporary files does no harm.
    let _ = fs::remove_dir_all(&home);
    done?;
    test_beside_frameworks(workspace, [&wheel, &sdk])
}

/// The wheel of the SDK, whose classes stand in for plugins.
fn build_sdk_wheel(workspace: &Workspace) -> anyhow::Result<std::path::PathBuf> {
    let out = workspace.target.join("wheels-sdk");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove `{}`", out.display()))?;
    }
    build_sdk(workspace, &["--wheel"], &out)?;
    only_wheel(&out)
}

/// Tests of frameworks that are not installed, and those of the repository's pages, are skipped.
fn test_alone(workspace: &Workspace, wheels: [&Path; 2], home: &Path) -> anyhow::Result<()> {
    let (python, lock) = (home.join("venv/bin/python"), home.join("requirements.txt"));
    fs::create_dir_all(home)?;
    fs::write(&lock, REQUIREMENTS)?;
    step("wheel: install", || {
        execute(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
        pip(&python, &["--require-hashes", "--only-binary=:all:", "--requirement"], &[&lock])?;
        pip(&python, &["--no-index", "--no-deps"], &wheels)
    })?;
    let copied = COPIED.map(|path| workspace.root.join(path));
    execute(Command::new("cp").arg("-r").args(copied).arg(home))?;
    step("wheel: tests", || execute(&mut tests(workspace, &python, home)))
}

/// All tests, of which none may be skipped. They also run the pages of `docs/how-to/python`.
fn test_beside_frameworks(workspace: &Workspace, wheels: [&Path; 2]) -> anyhow::Result<()> {
    let python = step("adapters: frameworks", || ensure_python_as_listed(&workspace.root, "adapters", ADAPTERS))?;
    pip(&python, &["--no-index", "--no-deps", "--force-reinstall"], &wheels)?;
    step("adapters: tests", || execute(tests(workspace, &python, &workspace.root.join(PACKAGE)).env(NO_SKIPS, "1")))
}

fn pip(python: &Path, arguments: &[&str], what: &[&Path]) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(arguments).args(what);
    execute(&mut command)
}

/// The tests of a folder.
fn tests(workspace: &Workspace, python: &Path, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests"]).current_dir(folder);
    command.env("GYMKHANA_PLUGINS", workspace.target.join("plugins"));
    command.env("GYMKHANA_HOST", workspace.target.join("release/host"));
    command
}
