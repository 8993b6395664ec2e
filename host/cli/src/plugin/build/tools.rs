//! Programs that test and build a plugin's folder: cargo, Python, Node.js.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::{fs, io};

use gymkhana_orchestration::code_cache;

use super::{BuildMode, wait_for};
use crate::args::plugin::Language;
use crate::error::{Classify, CliError, CliResult};
use crate::plugin::folder::PluginFolder;

/// Installs Python's SDK and compiler into a plugin's folder.
pub const PYTHON_SETUP: &str = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";

/// Installs those of JavaScript.
pub const JS_SETUP: &str = "npm install";

/// Build program of JavaScript's SDK in a plugin's folder.
const JS_BUILD: &str = "node_modules/@gymkhana/sdk/build.mjs";

/// Message about a missing Rust.
pub const RUST_MISSING: &str =
    "Rust is not installed\nhint: install it with `curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh`";

/// Message about a missing Python.
pub const PYTHON_MISSING: &str =
    "Python is not installed\nhint: on Debian or Ubuntu run `apt-get install python3 python3-venv`";

/// Message about a missing Node.js.
pub const NODE_MISSING: &str = "Node.js is not installed\nhint: on Debian or Ubuntu run `apt-get install nodejs npm`";

/// Status of a program that says whether it is there. It may be installed first, as by rustup.
fn probed(command: &mut Command) -> io::Result<ExitStatus> {
    let say = |_: &str| {};
    let wait = wait_for(command, &say);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    wait.end(&mut child)?.map_err(io::Error::other)
}

/// cargo, run in a folder.
pub fn cargo(dir: &Path) -> CliResult<Command> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    probed(Command::new(&program).arg("--version")).user_context(RUST_MISSING)?;
    let mut command = Command::new(program);
    command.current_dir(dir);
    Ok(command)
}

/// Python or Node.js of a plugin's folder that has the SDK.
pub struct Interpreter<'a> {
    program: PathBuf,
    is_python: bool,
    dir: &'a Path,
}

impl<'a> Interpreter<'a> {
    /// Finds the interpreter of a folder; starts it once.
    ///
    /// # Errors
    /// If it is not installed, or lacks the SDK.
    pub fn find(project: &PluginFolder<'a>) -> CliResult<Self> {
        let dir = project.dir;
        let is_python = project.language == Language::Python;
        if !is_python && !dir.join(JS_BUILD).is_file() {
            let message = format!("`{}` has no `{JS_BUILD}`\nhint: run `{JS_SETUP}` in it", dir.display());
            return Err(CliError::user(message));
        }
        let program = if is_python { python_of(dir)? } else { PathBuf::from("node") };
        let found = Self { program, is_python, dir };
        let (probe, missing) = if is_python {
            (&["-c", "import gymkhana_sdk"][..], PYTHON_MISSING)
        } else {
            (&["--version"][..], NODE_MISSING)
        };
        let probe = probed(found.command().args(probe)).user_context(missing)?;
        if probe.success() || !is_python {
            return Ok(found);
        }
        Err(CliError::user(format!(
            "the Python of `{}` lacks the SDK\nhint: run `{PYTHON_SETUP}` in that folder",
            dir.display()
        )))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.dir);
        command
    }

    /// Runs the folder's own tests.
    pub fn tests(&self) -> Command {
        let mut command = self.command();
        if self.is_python {
            command.args(["-m", "unittest"]);
        } else {
            // Without a terminal, Node.js would print TAP.
            command.args(["--test", "--test-reporter=spec"]);
        }
        command
    }

    /// Builds the folder to a component. A quick build needs a cache folder; without one, it is a whole build.
    ///
    /// # Errors
    /// If `out` is not a path.
    pub fn build(&self, out: &Path, mode: BuildMode) -> CliResult<Command> {
        let mut command = self.command();
        if self.is_python {
            command.args(["-m", "gymkhana_sdk.build"]);
        } else {
            command.arg(JS_BUILD);
        }
        command.arg(".").arg("--out").arg(absolute(out)?);
        if let (BuildMode::Quick, Some(bases)) = (mode, code_cache::bases()) {
            command.arg("--quick").arg(bases);
        }
        Ok(command)
    }
}

/// Python of the folder's environment, else the system's. The path keeps links: Python finds its environment by them.
fn python_of(dir: &Path) -> CliResult<PathBuf> {
    let own = dir.join(".venv/bin/python");
    if !own.exists() {
        return Ok(PathBuf::from("python3"));
    }
    std::path::absolute(&own).user_context(not_a_path(&own))
}

/// Absolute path; resolves links if it exists.
fn absolute(path: &Path) -> CliResult<PathBuf> {
    if let Ok(path) = fs::canonicalize(path) {
        return Ok(path);
    }
    std::path::absolute(path).user_context(not_a_path(path))
}

fn not_a_path(path: &Path) -> String {
    format!("`{}` is not a path", path.display())
}
