//! Test programs of the workspace: cargo builds them, and names them with their packages.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::step::cargo;
use crate::workspace::Workspace;

/// A program with tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestProgram {
    /// Its package.
    pub package: String,
    /// Its target: the crate's name for unit tests, otherwise that of the file or folder in `tests/`.
    pub target: String,
    /// The executable.
    pub executable: PathBuf,
    /// The package's folder, in which it runs.
    pub folder: PathBuf,
}

impl TestProgram {
    /// Name in messages, such as `gymkhana-cli runs`.
    pub fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// The command that runs it as cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("CARGO_PKG_NAME", &self.package);
        command
    }
}

/// Builds the test programs of these packages, or of the whole workspace if there are none, and lists them.
pub fn build(workspace: &Workspace, packages: &[&str]) -> anyhow::Result<Vec<TestProgram>> {
    let mut command = cargo();
    command.args(["test", "--release", "--no-run", "--message-format", "json-render-diagnostics"]);
    match packages {
        [] => command.arg("--workspace"),
        _ => command.args(packages.iter().flat_map(|package| ["--package", package])),
    };
    let output =
        command.current_dir(&workspace.root).stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built ({}); see the output above", output.status);
    }
    let mut programs: Vec<TestProgram> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| program(&serde_json::from_str(line).ok()?))
        .collect();
    programs.sort();
    programs.dedup();
    Ok(programs)
}

/// The test program of one of cargo's messages, if it is about one.
fn program(message: &Value) -> Option<TestProgram> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(TestProgram {
        package: package_name(message["package_id"].as_str()?),
        target: message["target"]["name"].as_str()?.to_owned(),
        executable: message["executable"].as_str()?.into(),
        folder,
    })
}

/// Name in a package's id: `path+file:///folder/name#0.1.0` or `path+file:///folder#name@0.1.0`.
fn package_name(id: &str) -> String {
    let (place, version) = id.rsplit_once('#').unwrap_or((id, ""));
    let name = match version.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_messages_name_programs_with_tests() {
        let message = |reason: &str, test: bool| {
            serde_json::json!({
                "reason": reason, "package_id": "path+file:///r/host/cli#gymkhana-cli@0.1.0",
                "manifest_path": "/r/host/cli/Cargo.toml", "target": {"name": "runs", "kind": ["test"]},
                "profile": {"test": test}, "executable": "/r/target/release/deps/runs-0123",
            })
        };
        let found = program(&message("compiler-artifact", true)).expect("a test program");
        assert_eq!(found.name(), "gymkhana-cli runs");
        assert_eq!(found.folder, PathBuf::from("/r/host/cli"));
        assert_eq!(program(&message("compiler-artifact", false)), None);
        assert_eq!(program(&message("build-finished", true)), None);
        assert_eq!(package_name("path+file:///r/plugins/tools/calculator#0.1.0"), "calculator");
    }
}
