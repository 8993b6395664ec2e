//! `wheel`: the wheel of the Python package, and its tests in a folder without the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::python_package::{PACKAGE, REQUIREMENTS};
use crate::step::{execute, step};
use crate::tools::{ensure_python, ensure_python_as_listed};
use crate::workspace::Workspace;

/// Locked requirements of the build.
const MATURIN: &str = include_str!("../../requirements/wheel.txt");

/// Trainers and frameworks that the adapters are tested with. Their declared dependencies exclude each other: the list is
/// installed as it is.
const ADAPTERS: &str = include_str!("../../requirements/adapters.txt");

/// Oldest system that a portable wheel runs on, by its C library.
const PLATFORM: &str = "manylinux_2_28";

/// Largest size of the wheel in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Builds the wheel and prints its size. Returns its path. It runs on systems as old as this machine or, if it is
/// `portable`, as old as [`PLATFORM`].
pub fn build(workspace: &Workspace, portable: bool) -> anyhow::Result<PathBuf> {
    let python = ensure_python(&workspace.root, "wheel", MATURIN)?;
    let out = workspace.target.join("wheels");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove `{}`", out.display()))?;
    }
    step("wheel", || {
        let mut command = Command::new(&python);
        command.args(["-m", "maturin", "build", "--profile", "wheel", "--locked"]);
        if portable {
            // Zig links against the symbols of the old C library, whatever this machine has.
            command.args(["--zig", "--compatibility", PLATFORM]);
        }
        command.args(["--manifest-path", "host/python/Cargo.toml", "--out"]).arg(&out);
        execute(command.current_dir(&workspace.root))
    })?;
    let wheel = only_wheel(&out)?;
    let bytes = fs::metadata(&wheel)?.len();
    eprintln!("    {}: {:.1} MB", wheel.display(), bytes as f64 / 1e6);
    if bytes > MAX_BYTES {
        bail!("the wheel has {bytes} bytes; the limit is {MAX_BYTES}");
    }
    Ok(wheel)
}

fn only_wheel(folder: &Path) -> anyhow::Result<PathBuf> {
    let files = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    let mut wheels = files.filter_map(|file| Some(file.ok()?.path())).filter(|path| has_extension(path, "whl"));
    wheels.next().with_context(|| format!("`{}` has no wheel", folder.display()))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Builds the wheel and tests it: in a new environment in another folder, then beside the frameworks of its adapters.
pub fn test(workspace: &Workspace) -> anyhow::Result<()> {
    let wheel = build(workspace, false)?;
    let home = std::env::temp_dir().join(format!("gymkhana-wheel-{}", std::process::id()));
    let done = test_alone(workspace, &wheel, &home);
    // What stays in the folder of temporary files does no harm.
    let _ = fs::remove_dir_all(&home);
    done?;
    test_adapters(workspace, &wheel)
}

fn test_alone(workspace: &Workspace, wheel: &Path, home: &Path) -> anyhow::Result<()> {
    let (python, lock) = (home.join("venv/bin/python"), home.join("requirements.txt"));
    fs::create_dir_all(home)?;
    fs::write(&lock, REQUIREMENTS)?;
    step("wheel: install", || {
        execute(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
        pip(&python, &["--require-hashes", "--only-binary=:all:", "--requirement"], &lock)?;
        pip(&python, &["--no-index", "--no-deps"], wheel)
    })?;
    execute(Command::new("cp").arg("-r").arg(workspace.root.join(PACKAGE).join("tests")).arg(home))?;
    step("wheel: tests", || run_tests(workspace, &python, "tests", home))
}

/// The adapters' tests, which also run the pages of `docs/how-to/python`.
fn test_adapters(workspace: &Workspace, wheel: &Path) -> anyhow::Result<()> {
    let python = step("adapters: frameworks", || ensure_python_as_listed(&workspace.root, "adapters", ADAPTERS))?;
    pip(&python, &["--no-index", "--no-deps", "--force-reinstall"], wheel)?;
    step("adapters: tests", || run_tests(workspace, &python, "tests/adapters", &workspace.root.join(PACKAGE)))
}

fn pip(python: &Path, arguments: &[&str], what: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(arguments).arg(what);
    execute(&mut command)
}

fn run_tests(workspace: &Workspace, python: &Path, tests: &str, folder: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", tests]).current_dir(folder);
    command.env("GYMKHANA_PLUGINS", workspace.target.join("plugins"));
    execute(command.env("GYMKHANA_HOST", workspace.target.join("release/host")))
}
