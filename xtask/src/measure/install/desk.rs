//! A user's new folder, in an environment without Rust and compilers, and the two installations into it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::publish::dist;
use crate::step::{execute, output_of};

/// Programs on the path: those of a small system that the two installations need.
const PROGRAMS: [&str; 20] = [
    "cat",
    "chmod",
    "cp",
    "dirname",
    "env",
    "gzip",
    "ln",
    "mkdir",
    "mktemp",
    "mv",
    "python3",
    "readlink",
    "rm",
    "sh",
    "sha256sum",
    "tail",
    "tar",
    "tr",
    "uname",
    "uniq",
];

/// Compilers, of which none may be found.
const COMPILERS: [&str; 6] = ["c++", "cargo", "cc", "clang", "gcc", "rustc"];

/// What was installed.
pub struct Installed {
    /// All installed files.
    pub folder: PathBuf,
    /// The program.
    pub host: PathBuf,
}

/// A user's new folder with a short path.
pub struct Desk {
    pub home: PathBuf,
    /// Files of the release.
    pub dist: PathBuf,
    path: String,
}

impl Desk {
    /// An empty folder with the programs of a small system.
    pub fn new(home: &Path, dist: PathBuf) -> anyhow::Result<Self> {
        let programs = home.join("programs");
        fs::create_dir_all(&programs).with_context(|| format!("cannot create `{}`", programs.display()))?;
        let script = "import sys; print(sys._base_executable or sys.executable)";
        for name in PROGRAMS {
            // A Python of pyenv is a script of bash.
            let found = if name == "python3" {
                output_of(Command::new(name).args(["-c", script]))
            } else {
                output_of(Command::new("sh").args(["-c", "command -v \"$1\"", "sh", name]))
            };
            symlink(found.with_context(|| format!("this system lacks `{name}`"))?, programs.join(name))?;
        }
        let path = format!("{}:{}", home.join(".local/bin").display(), programs.display());
        let desk = Self { home: home.to_owned(), dist, path };
        for name in COMPILERS {
            let mut command = desk.command("sh");
            ensure!(output_of(command.args(["-c", "command -v \"$1\"", "sh", name])).is_none(), "`{name}` is found");
        }
        Ok(desk)
    }

    /// A program with nothing of this process's environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.path).env("HOME", &self.home).env("LANG", "C.UTF-8");
        command.current_dir(&self.home);
        command
    }

    /// Installs the wheels.
    pub fn install_packages(&self) -> anyhow::Result<Installed> {
        let environment = self.home.join("environment");
        execute(self.command("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = self.command("environment/bin/python");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links"]);
        execute(pip.arg(&self.dist).arg("gymkhana-rl-train"))?;
        let mut torch = self.command("environment/bin/python");
        let has_torch = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
        ensure!(!torch.args(["-c", has_torch]).status()?.success(), "`torch` is installed");
        Ok(Installed { folder: environment.join("lib"), host: environment.join("bin/host") })
    }

    /// Unpacks the archive by its installer.
    pub fn install_archive(&self) -> anyhow::Result<Installed> {
        let archive = self.dist.join(format!("gymkhana-{}-{}.tar.gz", dist::VERSION, dist::SYSTEM));
        execute(self.command("sh").arg(self.dist.join("install.sh")).arg("--archive").arg(archive))?;
        let folder = self.home.join(".local/share/gymkhana");
        Ok(Installed { folder, host: self.home.join(".local/bin/host") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_no_compiler_and_no_variable_of_this_process() {
        let home = tempfile::tempdir().expect("a folder");
        let desk = Desk::new(&home.path().join("user"), home.path().to_owned()).expect("prepared");
        let shown = output_of(desk.command("sh").args(["-c", "command -v cc cargo; env"])).expect("it runs");
        let names: Vec<&str> = shown.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        for name in ["LIBTORCH", "LD_LIBRARY_PATH", "OMP_WAIT_POLICY", "CARGO"] {
            assert!(!names.contains(&name), "{name} in {shown}");
        }
        assert!(names.contains(&"HOME") && !shown.contains("/cargo\n"), "{shown}");
        assert!(output_of(desk.command("python3").args(["-c", "import venv, ensurepip"])).is_some());
    }
}
