//! Programs and free space that commands need of the machine.

use std::fmt::{self, Display};
use std::process::{Command, Stdio};

/// Programs and modules that the machine must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Linux on x86-64.
    Platform,
    /// A C++ compiler: libtorch's binding contains C++.
    Compiler,
    /// Git: the checks list the files that it tracks.
    Git,
    /// Python 3.
    Python,
    /// Python's `pip`: libtorch and other tools are Python packages.
    Pip,
    /// Python's `venv` with `ensurepip`: tools are installed in environments of their own.
    Venv,
}

/// Answers whether a need is met.
pub trait Has {
    /// Whether the machine has it.
    fn has(&self, need: Need) -> bool;

    /// Name of the system's program that installs packages, if it is a known one.
    fn installer(&self) -> Option<Installer>;
}

/// A system's program that installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// Debian and Ubuntu.
    Apt,
    /// Fedora and its relatives.
    Dnf,
}

/// This machine.
#[derive(Debug)]
pub struct Machine;

impl Has for Machine {
    fn has(&self, need: Need) -> bool {
        match need {
            Need::Platform => std::env::consts::OS == "linux" && std::env::consts::ARCH == "x86_64",
            Need::Compiler => std::env::var_os("CXX").is_some() || succeeds("c++", &["--version"]),
            Need::Git => succeeds("git", &["--version"]),
            Need::Python => succeeds("python3", &["--version"]),
            Need::Pip => succeeds("python3", &["-m", "pip", "--version"]),
            Need::Venv => succeeds("python3", &["-c", "import venv, ensurepip"]),
        }
    }

    fn installer(&self) -> Option<Installer> {
        let known = [("apt-get", Installer::Apt), ("dnf", Installer::Dnf)];
        known.into_iter().find(|(program, _)| succeeds(program, &["--version"])).map(|(_, installer)| installer)
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Need {
    /// Sentence part for a message.
    const fn missing(self) -> &'static str {
        match self {
            Self::Platform => "Linux on x86-64",
            Self::Compiler => "a C++ compiler (`c++`)",
            Self::Git => "git",
            Self::Python => "Python 3 (`python3`)",
            Self::Pip => "Python's `pip`",
            Self::Venv => "Python's `venv`",
        }
    }

    /// Package that has it.
    const fn package(self, installer: Installer) -> &'static str {
        match (self, installer) {
            (Self::Compiler, Installer::Apt) => "g++",
            (Self::Compiler, Installer::Dnf) => "gcc-c++",
            (Self::Git, _) => "git",
            (Self::Python, _) => "python3",
            (Self::Pip, _) => "python3-pip",
            (Self::Venv, Installer::Apt) => "python3-venv",
            // Fedora's Python has it.
            (Self::Venv, Installer::Dnf) => "python3",
            (Self::Platform, _) => "",
        }
    }
}

/// What is missing, and the one command that installs it.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    command: String,
    needs: Vec<Need>,
    installer: Option<Installer>,
}

impl Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, needs, installer } = self;
        if needs.contains(&Need::Platform) {
            return write!(
                f,
                "`cargo xtask {command}` cannot run: Gymkhana needs Linux on x86-64\nhint: use such a machine or container"
            );
        }
        let names: Vec<_> = needs.iter().map(|need| need.missing()).collect();
        write!(f, "`cargo xtask {command}` cannot run: this machine lacks {}\nhint: ", names.join(", "))?;
        let packages = |installer| {
            let mut packages: Vec<_> = needs.iter().map(|need| need.package(installer)).collect();
            packages.dedup();
            packages.join(" ")
        };
        match installer {
            Some(Installer::Apt) => {
                write!(f, "run `apt-get install --yes --no-install-recommends {}`", packages(Installer::Apt))?;
            }
            Some(Installer::Dnf) => write!(f, "run `dnf install --assumeyes {}`", packages(Installer::Dnf))?,
            None => return f.write_str("install them with the system's package manager"),
        }
        f.write_str(" as root, then repeat the command")
    }
}

/// Commands that build the host with libtorch, beside `demo`.
const BUILDING: [&str; 9] = ["setup", "test", "ci", "bench", "study", "docs", "fuzz", "gpu-pack", "dist"];

/// Whether a command takes long enough that its first step is announced.
pub fn builds(command: &str) -> bool {
    ["demo", "measure", "wheel"].contains(&command) || BUILDING.contains(&command)
}

/// Everything that a command needs.
fn needs(command: &str) -> &'static [Need] {
    match command {
        "demo" => &[Need::Platform, Need::Compiler, Need::Python, Need::Pip],
        // Without libtorch, for other systems too.
        "wheel" => &[Need::Compiler, Need::Git, Need::Python, Need::Pip, Need::Venv],
        "plugins" => &[Need::Platform, Need::Python, Need::Pip, Need::Venv],
        _ if BUILDING.contains(&command) => {
            &[Need::Platform, Need::Compiler, Need::Git, Need::Python, Need::Pip, Need::Venv]
        }
        _ => &[],
    }
}

/// Fails with everything that this command needs and the machine lacks.
pub fn check(command: &str, machine: &impl Has) -> Result<(), Missing> {
    let mut missing: Vec<Need> = needs(command).iter().copied().filter(|need| !machine.has(*need)).collect();
    // Without Python its modules are missing, too: their packages depend on it.
    if missing.contains(&Need::Pip) || missing.contains(&Need::Venv) {
        missing.retain(|need| *need != Need::Python);
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Missing { command: command.to_owned(), needs: missing, installer: machine.installer() })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Without(&'static [Need], Option<Installer>);

    impl Has for Without {
        fn has(&self, need: Need) -> bool {
            !self.0.contains(&need)
        }

        fn installer(&self) -> Option<Installer> {
            self.1
        }
    }

    fn refusal(command: &str, machine: &Without) -> String {
        check(command, machine).expect_err("something is missing").to_string()
    }

    #[test]
    fn all_missing_programs_are_named_with_one_command() {
        let bare = [Need::Compiler, Need::Git, Need::Python, Need::Pip, Need::Venv];
        let bare: &'static [Need] = Box::leak(Box::new(bare));
        assert_eq!(
            refusal("test", &Without(bare, Some(Installer::Apt))),
            "`cargo xtask test` cannot run: this machine lacks a C++ compiler (`c++`), git, Python's `pip`, Python's \
             `venv`\nhint: run `apt-get install --yes --no-install-recommends g++ git python3-pip python3-venv` as root, \
             then repeat the command"
        );
        assert_eq!(
            refusal("demo", &Without(bare, Some(Installer::Dnf))),
            "`cargo xtask demo` cannot run: this machine lacks a C++ compiler (`c++`), Python's `pip`\nhint: run `dnf \
             install --assumeyes gcc-c++ python3-pip` as root, then repeat the command"
        );
        assert!(refusal("ci", &Without(bare, None)).ends_with("hint: install them with the system's package manager"));
    }

    #[test]
    fn another_platform_is_refused_first() {
        let found = refusal("demo", &Without(&[Need::Platform, Need::Compiler], None));
        assert!(found.contains("needs Linux on x86-64\nhint:"), "{found}");
    }

    #[test]
    fn commands_ask_only_for_what_they_need() {
        assert_eq!(check("demo", &Without(&[Need::Git, Need::Venv], None)), Ok(()));
        assert_eq!(check("arrows", &Without(&[Need::Compiler, Need::Pip], None)), Ok(()));
        assert_eq!(check("test", &Without(&[], None)), Ok(()));
        let elsewhere = Without(&[Need::Platform], None);
        assert_eq!(check("wheel", &elsewhere), Ok(()));
        assert!(check("dist", &elsewhere).is_err());
    }
}
