//! Pinned tools in `.tools/`: Python environments, Node.js and programs that cargo installs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::step::{UserError, cargo, execute, output_of};

/// A program that cargo installs.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// Its crate and its program.
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
                .args(*arguments)
                .current_dir(root),
        )?;
    }
    Ok(program)
}

/// Python of the virtual environment `.tools/NAME` with these requirements; created again when they change.
pub fn ensure_python(root: &Path, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let home = root.join(".tools").join(name);
    let python = home.join("bin").join("python");
    let stamp = home.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == requirements) {
        return Ok(python);
    }
    if output_of(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_none() {
        let message = "cannot create a Python environment: the module `venv` is missing\nhint: on Debian or Ubuntu run \
                       `apt-get install python3-venv`";
        return Err(UserError(message.to_owned()).into());
    }
    execute(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
    let list = home.join("requirements.txt");
    fs::write(&list, requirements)?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "--requirement"]).arg(&list);
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

/// Programs of npm packages, installed into `.tools/NAME`; `packages` are `PACKAGE@VERSION`.
pub fn ensure_npm(root: &Path, python: &Path, name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let home = root.join(".tools").join(name);
    let (stamp, wanted) = (home.join("stamp"), packages.join("\n"));
    if !fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        fs::create_dir_all(&home)?;
        fs::write(home.join("package.json"), "{\"private\": true}\n")?;
        let install = ["install", "--no-save", "--no-audit", "--no-fund", "--save-exact"];
        execute(node(python, "npm")?.args(install).args(packages).current_dir(&home))?;
        fs::write(&stamp, wanted)?;
    }
    Ok(home.join("node_modules"))
}
