//! `test`: all checks that a change must pass.

use std::time::Instant;

use crate::checks::{arrows, cycles, deny, features, layout, locks, prose};
use crate::measure::{bench, gpu_pack, study};
use crate::publish::package;
use crate::reference::{self, Reference};
use crate::setup::run_cargo;
use crate::step::{both, print_summary, step};
use crate::workspace::Workspace;
use crate::{docs, foreign, fuzz, python_package, setup};

/// Time of all fuzz targets together, in seconds: enough to find that one does not start or a seed fails.
const FUZZ_SECONDS: u64 = 40;

/// cargo's words for all tests.
const TESTS: [&str; 3] = ["test", "--release", "--workspace"];

/// Sets up and runs all checks. With `reference`, also those against reference implementations in Python; if it names
/// one, that one alone. Prints a summary, also after a failure.
pub fn run(workspace: &Workspace, reference: Option<Option<Reference>>) -> anyhow::Result<()> {
    let start = Instant::now();
    let done = match reference {
        None => run_all(workspace),
        Some(None) => run_all(workspace).and_then(|()| reference::run(workspace, Reference::Programs)),
        Some(Some(one)) => setup::run(workspace).and_then(|()| reference::run(workspace, one)),
    };
    print_summary(start);
    done
}

/// Cheap checks come first. Chains whose steps wait or use one core run beside others; cargo compiles in one of them at a
/// time.
fn run_all(workspace: &Workspace) -> anyhow::Result<()> {
    step("format", || run_cargo(workspace, &["fmt", "--all", "--check"]))?;
    arrows::run(workspace, false)?;
    cycles::run(workspace)?;
    layout::run(workspace)?;
    locks::run(workspace)?;
    features::run(workspace)?;
    prose::run(workspace)?;
    both(|| setup::build(workspace), || foreign::build(workspace).and_then(|()| foreign::test(workspace)))?;
    both(|| lint_and_compile(workspace), || check_parts(workspace))?;
    both(|| step("tests", || run_cargo(workspace, &TESTS)), || run_the_rest(workspace))
}

/// Lints, and compiles what the later steps run.
fn lint_and_compile(workspace: &Workspace) -> anyhow::Result<()> {
    // The optional feature costs seconds here, but its tests would be a second build of the host.
    let lints = ["clippy", "--release", "--workspace", "--all-targets", "--features", "gymkhana-cli/otel"];
    step("lints", || run_cargo(workspace, &[&lints[..], &["--", "-D", "warnings"]].concat()))?;
    step("tests: build", || run_cargo(workspace, &[&TESTS[..], &["--no-run"]].concat()))?;
    fuzz::build(workspace)?;
    python_package::build(workspace)
}

fn check_parts(workspace: &Workspace) -> anyhow::Result<()> {
    setup::registry::run(workspace)?;
    deny::run(workspace)?;
    docs::run_built(workspace)
}

fn run_the_rest(workspace: &Workspace) -> anyhow::Result<()> {
    fuzz::run_built(workspace, FUZZ_SECONDS)?;
    python_package::test(workspace)?;
    study::run_smoke(workspace, None)?;
    bench::run_built(workspace, &[], true)?;
    gpu_pack::rehearse(workspace)?;
    package::run(workspace)
}
