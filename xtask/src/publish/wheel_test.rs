//! Tests of the wheel: in a folder without the repository, then beside the programs and frameworks that load it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::build_sdk;
use super::wheel::{build, only_wheel};
use crate::python_package::{PACKAGE, REQUIREMENTS};
use crate::step::{execute, step};
use crate::tools::{ensure_python, ensure_python_as_listed};
use crate::workspace::Workspace;

/// Trainers and frameworks that the adapters are tested with. Their declared dependencies exclude each other: the list is
/// installed as it is.
pub const ADAPTERS: &str = include_str!("../../requirements/adapters.txt");

/// Services that receive metrics, whose requirements exclude versions of that list.
const SERVICES: &str = include_str!("../../requirements/services.txt");

/// Tests of the services.
const SERVICES_TESTS: &str = "tests/services";

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
    test_beside_services(workspace, [&wheel, &sdk])?;
    test_beside_frameworks(workspace, [&wheel, &sdk])
}

/// The tests that pass a run's metrics on.
fn test_beside_services(workspace: &Workspace, wheels: [&Path; 2]) -> anyhow::Result<()> {
    let python = step("services: clients", || ensure_python(&workspace.root, "services", SERVICES))?;
    pip(&python, &["--no-index", "--no-deps", "--force-reinstall"], &wheels)?;
    let folder = workspace.root.join(PACKAGE);
    step("services: tests", || execute(tests(workspace, &python, &folder, SERVICES_TESTS).env(NO_SKIPS, "1")))
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
    step("wheel: tests", || execute(&mut tests(workspace, &python, home, "tests")))
}

/// All tests, of which none may be skipped. They also run the pages of `docs/how-to/python`.
fn test_beside_frameworks(workspace: &Workspace, wheels: [&Path; 2]) -> anyhow::Result<()> {
    let python = step("adapters: frameworks", || ensure_python_as_listed(&workspace.root, "adapters", ADAPTERS))?;
    pip(&python, &["--no-index", "--no-deps", "--force-reinstall"], &wheels)?;
    step("adapters: tests", || {
        let mut command = tests(workspace, &python, &workspace.root.join(PACKAGE), "tests");
        execute(command.args(["--ignore", SERVICES_TESTS]).env(NO_SKIPS, "1"))
    })
}

fn pip(python: &Path, arguments: &[&str], what: &[&Path]) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(arguments).args(what);
    execute(&mut command)
}

/// These tests of the package in a folder.
fn tests(workspace: &Workspace, python: &Path, folder: &Path, which: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", which]).current_dir(folder);
    command.env("GYMKHANA_PLUGINS", workspace.target.join("plugins"));
    command.env("GYMKHANA_HOST", workspace.target.join("release/host"));
    command
}
