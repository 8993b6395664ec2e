//! `wheel`: the wheel of the Python package, and its tests in a folder without the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::python_package::{PACKAGE, REQUIREMENTS};
use crate::step::{execute, step};
use crate::tools::ensure_python;
use crate::workspace::Workspace;

/// Locked requirements of the build.
const MATURIN: &str = include_str!("../../requirements/wheel.txt");

/// Oldest system that a portable wheel runs on, by its C library.
const PLATFORM: &str = "manylinux_2_28";

/// Largest size of the wheel in bytes.
const MAX_BYTES: u64 = 24 << 20;

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
        command.args(["-m", "maturin", "build", "--release", "--strip", "--locked"]);
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

/// Builds the wheel, installs it into a new environment in another folder, and runs the tests of the package there.
pub fn test(workspace: &Workspace) -> anyhow::Result<()> {
    let wheel = build(workspace, false)?;
    let home = std::env::temp_dir().join(format!("gymkhana-wheel-{}", std::process::id()));
    let done = test_in(workspace, &wheel, &home);
    // What stays in the folder of temporary files does no harm.
    let _ = fs::remove_dir_all(&home);
    done
}

fn test_in(workspace: &Workspace, wheel: &Path, home: &Path) -> anyhow::Result<()> {
    let (python, lock) = (home.join("venv/bin/python"), home.join("requirements.txt"));
    fs::create_dir_all(home)?;
    fs::write(&lock, REQUIREMENTS)?;
    step("wheel: install", || {
        execute(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
        let pip = |arguments: &[&str], what: &Path| {
            let mut command = Command::new(&python);
            command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(arguments).arg(what);
            execute(&mut command)
        };
        pip(&["--require-hashes", "--only-binary=:all:", "--requirement"], &lock)?;
        pip(&["--no-index", "--no-deps"], wheel)
    })?;
    execute(Command::new("cp").arg("-r").arg(workspace.root.join(PACKAGE).join("tests")).arg(home))?;
    step("wheel: tests", || {
        let mut command = Command::new(&python);
        command.args(["-m", "pytest", "-q", "tests"]).current_dir(home);
        execute(command.env("GYMKHANA_PLUGINS", workspace.target.join("plugins")))
    })
}
