//! `host version`: versions of the program and of the parts on which its results depend.

use std::path::PathBuf;

use gymkhana_registry::{Digest, contract};
use serde::Serialize;

use crate::args::VersionArgs;
use crate::libtorch;
use crate::printer::Printer;

/// Commit of the sources, if the build named it.
const COMMIT: Option<&str> = option_env!("GYMKHANA_COMMIT");

/// Versions of all parts.
#[derive(Debug, Serialize)]
struct PartVersions {
    host: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    contract: semver::Version,
    /// Digest of the contract's WIT files.
    contract_digest: Digest,
    libtorch: String,
    wasmtime: &'static str,
}

impl PartVersions {
    fn of_this_program(commit: Option<&'static str>) -> Self {
        let (folder, _) = libtorch::folder(std::env::var_os("LIBTORCH").map(PathBuf::from));
        Self {
            host: env!("CARGO_PKG_VERSION"),
            commit,
            contract: contract::VERSION,
            contract_digest: contract::digest(),
            libtorch: libtorch::version(&folder),
            wasmtime: env!("GYMKHANA_WASMTIME_VERSION"),
        }
    }

    /// Lines of the output, one for each part.
    fn lines(&self) -> Vec<String> {
        let row = |name: &str, version: &str| format!("{name:<8}  {version}");
        let mut lines = vec![row("host", self.host)];
        lines.extend(self.commit.map(|commit| row("commit", commit)));
        lines.push(row("contract", &format!("{} ({:#})", self.contract, self.contract_digest)));
        lines.push(row("libtorch", &self.libtorch));
        lines.push(row("wasmtime", self.wasmtime));
        lines
    }
}

/// Runs the command.
pub fn version(args: &VersionArgs, printer: &Printer) {
    let versions = PartVersions::of_this_program(COMMIT.filter(|commit| !commit.is_empty()));
    if args.json {
        printer.json(serde_json::json!(versions));
    } else {
        versions.lines().iter().for_each(|line| printer.result(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_a_line_of_its_own_and_is_left_out_if_unknown() {
        let names = |commit| {
            let lines = PartVersions::of_this_program(commit).lines();
            lines.iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(names(Some("1a2b3c")), ["host", "commit", "contract", "libtorch", "wasmtime"]);
        assert_eq!(names(None), ["host", "contract", "libtorch", "wasmtime"]);
    }
}
