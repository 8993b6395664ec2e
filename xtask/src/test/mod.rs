//! `test`: all tests of the workspace, or those that a change of some crates needs.

pub mod affected;

pub mod programs;
mod report;
mod runner;
mod unchanged;

use std::time::Instant;

use anyhow::Context as _;

use crate::inputs::digest_of_files;
use crate::reference::{self, Reference};
use crate::setup::{run_cargo, servers};
use crate::step::{both, print_summary, step};
use crate::workspace::Workspace;
use crate::{foreign, python_package, setup};
use unchanged::Passed;

/// What to test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Crates that changed, by the names of ARCHITECTURE.md; all if there are none.
    pub crates: Vec<String>,
    /// Programs that passed and have not changed run again.
    pub again: bool,
    /// Comparisons with other programs: all of the default ones, or one alone.
    pub reference: Option<Option<Reference>>,
    /// Length of a comparison that goes on for a time.
    pub minutes: Option<u64>,
}

/// Sets up and runs the tests. Prints a summary, also after a failure.
pub fn run(workspace: &Workspace, request: &Request) -> anyhow::Result<()> {
    let start = Instant::now();
    let done = match &request.reference {
        None => tests(workspace, request),
        Some(None) => tests(workspace, request).and_then(|()| reference::run(workspace, Reference::Programs, None)),
        Some(Some(one)) => setup::run(workspace).and_then(|()| reference::run(workspace, *one, request.minutes)),
    };
    print_summary(start);
    done
}

/// The tests, without the summary.
pub fn tests(workspace: &Workspace, request: &Request) -> anyhow::Result<()> {
    let packages = affected::packages(workspace, &request.crates)?;
    if packages.is_empty() {
        return all(workspace, request.again);
    }
    step("plugins and host", || setup::build(workspace))?;
    servers::ensure(&workspace.root)?;
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    run_programs(workspace, &names, request.again)
}

/// All tests. One chain compiles while the other waits or computes on one core; cargo compiles in one of them at a time.
fn all(workspace: &Workspace, again: bool) -> anyhow::Result<()> {
    both(
        || setup::build(workspace),
        || {
            step("servers", || servers::ensure(&workspace.root))?;
            foreign::build(workspace)?;
            foreign::test(workspace)
        },
    )?;
    let build = || step("tests: build", || programs::build(workspace, &[]).map(drop));
    both(build, || setup::registry::run_for_tests(workspace))?;
    // Every part runs, so that the summary names everything that fails.
    let rust = run_programs(workspace, &[], again);
    let interleavings = step("interleavings", || run_interleavings(workspace));
    let documented = step("tests in documentation", || run_documented(workspace));
    let python = python_package::test(workspace);
    rust.and(interleavings).and(documented).and(python)
}

/// Builds and runs the test programs of these packages, or all.
fn run_programs(workspace: &Workspace, packages: &[&str], again: bool) -> anyhow::Result<()> {
    let programs = programs::build(workspace, packages)?;
    let passed = if again {
        Passed::none()
    } else {
        Passed::in_file(workspace.target.join("passed-tests.json"), inputs(workspace)?)
    };
    step("tests", || runner::run(programs, &workspace.target.join("test-logs"), &passed))
}

/// Searches queues and locks for deadlocks. The model checker has a lock of its own, since it asks for features that would
/// compile the programs again.
fn run_interleavings(workspace: &Workspace) -> anyhow::Result<()> {
    let target = workspace.target.join("interleavings").display().to_string();
    let manifest = ["--manifest-path", "tests/interleavings/Cargo.toml", "--target-dir", &target];
    run_cargo(workspace, &[&["test", "--release", "--locked"], &manifest[..]].concat())
}

/// Digest of what test programs read besides themselves: components, the host's programs, and all files of the repository
/// that cargo does not compile.
fn inputs(workspace: &Workspace) -> anyhow::Result<String> {
    let mut files = workspace.files(&["."])?;
    files.retain(|file| file.extension().is_none_or(|extension| extension != "rs"));
    let components = workspace.target.join("plugins");
    let listed = std::fs::read_dir(&components).with_context(|| format!("cannot read `{}`", components.display()))?;
    for entry in listed {
        files.push(entry?.path());
    }
    files.extend(setup::PROGRAMS.map(|program| workspace.target.join("release").join(program)));
    files.sort();
    digest_of_files(&workspace.root, &files)
}

/// Examples in the documentation of the crates that have some.
fn run_documented(workspace: &Workspace) -> anyhow::Result<()> {
    let packages = ["gymkhana-sdk", "gymkhana-sdk-bindings", "gymkhana-config"];
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    run_cargo(workspace, &["test", "--release", "--doc"].into_iter().chain(packages).collect::<Vec<_>>())
}
