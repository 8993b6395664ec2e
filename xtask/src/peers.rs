//! Tests against programs of others: what they write and read must be what we read and write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::step::{Missing, cargo, execute, output_of, step};
use crate::workspace::Workspace;

/// What the Python programs need, pinned.
const REQUIREMENTS: [&str; 3] = [
    "tests/peers/requirements.txt",
    "host/store/tests/peers_requirements.txt",
    "host/cli/tests/peers_requirements.txt",
];

/// The Python programs of `tests/peers`, all called by this one.
const PROGRAM: &str = "tests/peers/run.py";

/// Runs the programs of `tests/peers` and the Rust tests named `peers`, with a Python that has what they need.
pub fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let python = step("peers' Python", || ensure_python(&workspace.root, "peers", &requirements(&workspace.root)?))?;
    step("peers: programs", || {
        execute(Command::new(&python).args([PROGRAM, "--repo", "."]).current_dir(&workspace.root))
    })?;
    step("peers: tests", || {
        execute(
            cargo()
                .args(["test", "--release", "--workspace", "--test", "peers", "--", "--ignored"])
                .env("GYMKHANA_PEERS_PYTHON", &python)
                .current_dir(&workspace.root),
        )
    })
}

/// The text of all files of requirements.
fn requirements(root: &Path) -> anyhow::Result<String> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("`{file}` cannot be read"));
    REQUIREMENTS.into_iter().map(read).collect()
}

/// A virtual environment of this name with the requirements, made again when they change.
pub fn ensure_python(root: &Path, name: &str, wanted: &str) -> anyhow::Result<PathBuf> {
    let home = root.join(".tools").join(name);
    let python = home.join("bin").join("python");
    let stamp = home.join("stamp");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    if output_of(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_none() {
        let how = "Python's `venv` is needed for programs in Python; install it, on Debian or Ubuntu with \
                   `apt-get install python3-venv`";
        return Err(Missing(how.into()).into());
    }
    execute(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
    let list = home.join("requirements.txt");
    fs::write(&list, wanted)?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--disable-pip-version-check", "--requirement"]).arg(&list);
    execute(&mut install)?;
    fs::write(&stamp, wanted)?;
    Ok(python)
}
