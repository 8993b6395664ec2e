//! Pinned tools in `.tools/`: Python environments, Node.js and programs that cargo installs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::pythons;
use crate::step::{UserError, cargo, execute, output_of};

/// Folder in `.tools/` of the packages that check and document the JavaScript SDK.
pub const NPM: &str = "npm";
/// Folder with their lock, in the repository.
pub const NPM_LOCK: &str = "xtask/npm";

/// A program that cargo installs.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Name of the crate and of the program.
    pub name: &'static str,
    /// The pinned version.
    pub version: &'static str,
    /// Further arguments of `cargo install`, such as features.
    pub arguments: &'static [&'static str],
}

/// Path of the tool. It is installed once and without optimisation, because optimising takes longer than all its runs.
pub fn ensure_tool(root: &Path, tool: &Tool) -> anyhow::Result<PathBuf> {
    let Tool { name, version, arguments } = tool;
    let home = root.join(".tools").join(format!("{name}-{version}"));
    let program = home.join("bin").join(name);
    if !program.exists() {
        execute(
            cargo()
                .args(["install", name, "--version", version, "--locked", "--debug", "--root"])
                .arg(&home)
                .args(["--config", "profile.dev.debug=0"])
                // The tools share crates.
                .arg("--target-dir")
                .arg(root.join("target").join("tools"))
                .args(*arguments)
                .current_dir(root),
        )?;
    }
    Ok(program)
}

/// Python of the virtual environment `.tools/NAME` with these locked requirements; created again when they change.
///
/// pip refuses a package without a hash, and packages that would be built on this machine, because their build could
/// install packages that the lock does not name.
pub fn ensure_python(root: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    environment(root, name, requirements, &[])
}

/// As `ensure_python`, for packages whose declared dependencies differ from the listed ones.
pub fn ensure_python_as_listed(root: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    environment(root, name, requirements, &["--no-deps"])
}

/// As `ensure_python_as_listed`, for packages that ask for a newer Python than the modules that are used need.
pub fn ensure_python_of_any_version(root: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    environment(root, name, requirements, &["--no-deps", "--ignore-requires-python"])
}

/// As `ensure_python_as_listed`, with Python 3.12, of the system, pyenv or uv.
pub fn ensure_python_3_12(root: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    environment_of(&pythons::find("3.12")?, root, name, requirements, &["--no-deps"])
}

fn environment(root: &Path, name: &str, requirements: &str, options: &[&str]) -> anyhow::Result<PathBuf> {
    environment_of(Path::new("python3"), root, name, requirements, options)
}

fn environment_of(
    program: &Path,
    root: &Path,
    name: &str,
    requirements: &str,
    options: &[&str],
) -> anyhow::Result<PathBuf> {
    let home = root.join(".tools").join(name);
    let python = home.join("bin").join("python");
    let stamp = home.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == requirements) {
        return Ok(python);
    }
    if output_of(Command::new(program).args(["-c", "import venv, ensurepip"])).is_none() {
        return Err(UserError(format!(
            "cannot create a Python environment: `{0}` or its module `venv` is missing\nhint: on Debian or Ubuntu run \
             `apt-get install python3-venv`",
            program.display()
        ))
        .into());
    }
    execute(Command::new(program).args(["-m", "venv", "--clear"]).arg(&home))?;
    let list = home.join("requirements.txt");
    fs::write(&list, requirements)?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"]);
    install.args(options).arg("--requirement").arg(&list);
    execute(&mut install)?;
    fs::write(&stamp, requirements)?;
    Ok(python)
}

/// A program installed next to a Python, such as `node` or `npm`, with that folder first in `PATH`.
pub fn node(python: &Path, program: &str) -> anyhow::Result<Command> {
    let folder = python.parent().context("the path of Python has no folder")?;
    let mut command = Command::new(folder.join(program));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = [folder.to_owned()].into_iter().chain(std::env::split_paths(&paths));
    command.env("PATH", std::env::join_paths(paths)?);
    Ok(command)
}

/// Folder `.tools/NAME` with the `node_modules` that the `package-lock.json` of the folder `lock` describes; installed
/// again when the lock changes.
///
/// `npm ci` verifies the hash of every package and refuses a package that the lock does not contain. Install scripts
/// are not run.
pub fn ensure_npm(root: &Path, python: &Path, name: &str, lock: &Path) -> anyhow::Result<PathBuf> {
    let home = root.join(".tools").join(name);
    let stamp = home.join("stamp");
    let file = lock.join("package-lock.json");
    let wanted = fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    if !fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        fs::create_dir_all(&home)?;
        for file in ["package.json", "package-lock.json"] {
            fs::copy(lock.join(file), home.join(file)).with_context(|| format!("cannot copy `{file}`"))?;
        }
        let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        execute(node(python, "npm")?.args(install).current_dir(&home))?;
        fs::write(&stamp, wanted)?;
    }
    Ok(home)
}
