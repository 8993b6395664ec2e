//! Python with `venv`, and the compiler of plugins in Python.

use std::path::{Path, PathBuf};

use gymkhana_finding::Finding;

use super::programs::{first_line, major_minor};
use crate::plugin::build::tools::{PYTHON_MISSING, PYTHON_SETUP};

const CHECK: &str = "python";

/// Oldest version that the SDK supports.
const OLDEST: (u32, u32) = (3, 11);

/// Description of the SDK, which pins its compiler.
const SDK: &str = include_str!("../../../../sdk/python/pyproject.toml");

/// State of Python.
pub struct PythonState {
    /// Output of `python3 --version`; `None` without Python.
    pub version: Option<String>,
    /// Environments can be created.
    pub has_venv: bool,
    /// Version of the installed componentize-py.
    pub compiler: Option<String>,
}

/// Asks the environment `.venv` of a folder, else the system's Python.
pub fn probe(folder: &Path) -> PythonState {
    let own = folder.join(".venv/bin/python");
    let program = if own.exists() { own } else { PathBuf::from("python3") };
    let python = |arguments: &[&str]| first_line(&program, arguments);
    PythonState {
        version: python(&["--version"]),
        has_venv: python(&["-c", "import ensurepip, venv"]).is_some(),
        compiler: python(&["-c", "import importlib.metadata as m; print(m.version('componentize-py'))"]),
    }
}

/// Version of componentize-py that the SDK needs.
fn needed_compiler() -> &'static str {
    let pinned = SDK.split_once("\"componentize-py==").map_or("", |(_, rest)| rest);
    pinned.split('"').next().unwrap_or_default()
}

/// Checks that plugins in Python can be built.
pub fn check(facts: &PythonState) -> Finding {
    let Some(version) = &facts.version else { return Finding::warn(CHECK, PYTHON_MISSING) };
    let needed = needed_compiler();
    if major_minor(version).is_none_or(|found| found < OLDEST) {
        let (major, minor) = OLDEST;
        let message = format!("{version} is too old for the SDK\nhint: install Python {major}.{minor} or newer");
        return Finding::warn(CHECK, message);
    }
    if !facts.has_venv {
        let hint = "on Debian or Ubuntu run `apt-get install python3-venv`";
        return Finding::warn(CHECK, format!("{version} without venv\nhint: {hint}"));
    }
    match &facts.compiler {
        None => Finding::ok(CHECK, format!("{version} with venv; a plugin's folder installs componentize-py {needed}")),
        Some(found) if found == needed => Finding::ok(CHECK, format!("{version} with venv, componentize-py {found}")),
        Some(found) => Finding::warn(
            CHECK,
            format!(
                "componentize-py {found} is installed, but the SDK needs {needed}\nhint: run `{PYTHON_SETUP}` in the \
                 plugin's folder"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    fn facts(version: &str, has_venv: bool, compiler: Option<&str>) -> PythonState {
        PythonState { version: Some(version.to_owned()), has_venv, compiler: compiler.map(str::to_owned) }
    }

    #[test]
    fn python_needs_a_version_venv_and_the_sdks_compiler() {
        let needed = needed_compiler();
        assert_eq!(needed.split('.').filter(|number| number.parse::<u32>().is_ok()).count(), 3, "{needed}");
        for (facts, status, part) in [
            (
                PythonState { version: None, has_venv: false, compiler: None },
                FindingStatus::Warn,
                "Python is not installed",
            ),
            (facts("Python 3.10.12", true, None), FindingStatus::Warn, "Python 3.10.12 is too old"),
            (facts("Python 3.11.2", false, None), FindingStatus::Warn, "Python 3.11.2 without venv"),
            (facts("Python 3.11.2", true, None), FindingStatus::Ok, "a plugin's folder installs componentize-py"),
            (facts("Python 3.13.0", true, Some(needed)), FindingStatus::Ok, needed),
            (facts("Python 3.13.0", true, Some("0.1.0")), FindingStatus::Warn, "componentize-py 0.1.0 is installed"),
        ] {
            let finding = check(&facts);
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.text.contains(part), "{finding:?}");
        }
    }
}
