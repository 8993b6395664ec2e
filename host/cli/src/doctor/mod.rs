//! `host doctor`: checks of the machine, the tools, the folders and the registries, each with a remedy.
//!
//! A check is a function of its facts, and a probe of the same module reads the facts.

mod cache;
mod disk;
mod files;
mod libtorch;
mod mappings;
mod memory;
mod node;
mod programs;
mod python;
mod registries;
mod rust;

use std::path::{Path, PathBuf};

use gymkhana_finding::{Finding, FindingStatus};
use gymkhana_orchestration::{code_cache, machine};
use gymkhana_sandbox::max_map_count;
use rustix::process::{Resource, getrlimit};

use crate::args::DoctorArgs;
use crate::printer::Printer;

/// Exit code if a check fails.
const FAILED: u8 = 1;

/// Runs the command.
pub fn doctor(args: &DoctorArgs, printer: &Printer) -> u8 {
    report(&findings(args.offline), args.json, printer)
}

/// Prints findings and returns the exit code.
pub fn report(findings: &[Finding], json: bool, printer: &Printer) -> u8 {
    if json {
        printer.json(serde_json::json!(findings));
    } else {
        findings.iter().for_each(|finding| printer.result(finding.lines()));
    }
    exit_code(findings)
}

/// Findings of all checks, those of every command first.
fn findings(offline: bool) -> Vec<Finding> {
    let (here, compiled) = (std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")), code_cache::folder());
    let torch = libtorch::probe();
    let mut findings = vec![
        libtorch::check(&torch),
        libtorch::check_gpu(&torch),
        mappings::check(max_map_count()),
        files::check(getrlimit(Resource::Nofile).current),
        memory::check(machine::memory().as_ref()),
        disk::check(&disk::probe("working folder", &here)),
    ];
    findings.extend(compiled.as_deref().map(|folder| disk::check(&disk::probe("compiled plugins", folder))));
    findings.push(cache::check(&cache::probe(compiled.as_deref())));
    findings.extend(registries::check(&registries::probe(offline)));
    findings.push(rust::check(&rust::probe()));
    findings.push(python::check(&python::probe(Path::new("."))));
    findings.push(node::check(&node::probe()));
    findings
}

fn exit_code(findings: &[Finding]) -> u8 {
    let failed = findings.iter().any(|finding| finding.status == FindingStatus::Fail);
    if failed { FAILED } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failure_changes_the_exit_code() {
        let mut findings = vec![Finding::ok("a", "fine"), Finding::warn("b", "slow\nhint: wait")];
        assert_eq!(exit_code(&findings), 0);
        findings.push(Finding::fail("c", "broken\nhint: mend it"));
        assert_eq!(exit_code(&findings), 1);
    }
}
