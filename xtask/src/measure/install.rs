//! `measure install`: the release as a user installs it, in a new folder and an environment without Rust and compilers:
//! time to the first point of the demo's curve above the baseline and to its end, and installed size.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;

use super::first_run::first_point;
use crate::processor;
use crate::publish::dist;
use crate::step::{execute, output_of};
use crate::workspace::Workspace;

/// What is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// The wheels, by pip
    Packages,
    /// The archive, by its installer
    Archive,
}

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

/// Limit of the time from the start of the installation to the first point above the baseline.
const FIRST_POINT: Duration = Duration::from_secs(300);
/// Limit of the time to the end of the demo.
const END: Duration = Duration::from_secs(420);
/// Limit of the installed size in bytes.
const SIZE: u64 = 700_000_000;

/// Installs, trains and prints the measured values; fails if one is above its limit.
pub fn run(workspace: &Workspace, from: From, dist: Option<&Path>) -> anyhow::Result<()> {
    let home = std::env::temp_dir().join(format!("gymkhana-install-{}", std::process::id()));
    ensure!(!home.exists(), "`{}` exists\nhint: remove it", home.display());
    let dist = dist.map_or_else(|| workspace.target.join("dist"), Path::to_owned);
    let dist = fs::canonicalize(&dist).with_context(|| format!("cannot read `{}`", dist.display()))?;
    let done = Desk::new(&home, dist).and_then(|desk| desk.measure(from));
    // What stays in the folder of temporary files does no harm.
    let _ = fs::remove_dir_all(&home);
    done
}

/// What was installed.
struct Installed {
    /// All installed files.
    folder: PathBuf,
    host: PathBuf,
}

/// A user's new folder with a short path.
struct Desk {
    home: PathBuf,
    dist: PathBuf,
    path: String,
}

impl Desk {
    fn new(home: &Path, dist: PathBuf) -> anyhow::Result<Self> {
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
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.path).env("HOME", &self.home).env("LANG", "C.UTF-8");
        command.current_dir(&self.home);
        command
    }

    fn measure(&self, from: From) -> anyhow::Result<()> {
        let (begin, since) = (SystemTime::now().duration_since(UNIX_EPOCH)?, Instant::now());
        let installed = match from {
            From::Packages => self.install_packages()?,
            From::Archive => self.install_archive()?,
        };
        let (install, size) = (since.elapsed(), size(&installed.folder)?);
        self.train(&installed)?;
        let (end, curve) = (since.elapsed(), first_point(&self.home.join("run"))?.saturating_sub(begin));
        #[allow(clippy::print_stdout, reason = "the values are this command's result")]
        {
            println!("installation: {:.0} s, {:.0} MB", install.as_secs_f64(), size as f64 / 1e6);
            println!("first point of the curve above the baseline: {:.0} s", curve.as_secs_f64());
            let processor = processor::of_children().as_secs_f64();
            println!("end: {:.0} s; {processor:.0} s of processor time", end.as_secs_f64());
        }
        for (what, found, limit) in [("first point", curve, FIRST_POINT), ("end", end, END)] {
            if found > limit {
                bail!("{what}: {} s are above the limit of {} s", found.as_secs(), limit.as_secs());
            }
        }
        ensure!(size <= SIZE, "the installed size of {size} bytes is above the limit of {SIZE}");
        Ok(())
    }

    /// Installs the wheels.
    fn install_packages(&self) -> anyhow::Result<Installed> {
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

    fn install_archive(&self) -> anyhow::Result<Installed> {
        let archive = self.dist.join(format!("gymkhana-{}-{}.tar.gz", dist::VERSION, dist::SYSTEM));
        execute(self.command("sh").arg(self.dist.join("install.sh")).arg("--archive").arg(archive))?;
        let folder = self.home.join(".local/share/gymkhana");
        Ok(Installed { folder, host: self.home.join(".local/bin/host") })
    }

    /// Runs the demo, with the installation's plugins.
    fn train(&self, installed: &Installed) -> anyhow::Result<()> {
        execute(self.command(&installed.host.to_string_lossy()).args(["demo", "--out", "run"]))
    }
}

/// Bytes of the files in a folder; files with several names count once.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let listed = output_of(Command::new("du").args(["--summarize", "--apparent-size", "--bytes"]).arg(folder));
    let bytes = listed.and_then(|line| line.split_whitespace().next()?.parse().ok());
    bytes.with_context(|| format!("`du` cannot measure `{}`", folder.display()))
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

    #[test]
    fn the_size_of_a_folder_counts_links_of_files_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let before = size(folder.path()).expect("measured");
        fs::write(folder.path().join("a"), vec![0; 5000]).expect("written");
        fs::hard_link(folder.path().join("a"), folder.path().join("b")).expect("linked");
        assert_eq!(size(folder.path()).expect("measured") - before, 5000);
        assert!(size(&folder.path().join("absent")).is_err());
    }
}
