//! `test`: all checks that a change must pass.

use std::time::{Duration, Instant};

use crate::checks::{arrows, cycles, deny, features, layout, locks, prose};
use crate::measure::{bench, gpu_pack, study};
use crate::publish::package;
use crate::reference::{self, Reference};
use crate::setup::run_cargo;
use crate::step::{both, print_summary, skip, step};
use crate::workspace::Workspace;
use crate::{docs, foreign, fuzz, python_package, setup};

/// Time of all fuzz targets together, in seconds: enough to find that one does not start or a seed fails.
const FUZZ_SECONDS: u64 = 40;

/// cargo's words for all tests.
const TESTS: [&str; 3] = ["test", "--release", "--workspace"];

/// Time after which checks of the last group are left out. On a slow machine the essential checks end in time without them.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimit {
    start: Instant,
    limit: Option<Duration>,
}

impl TimeLimit {
    /// A limit that counts from now on; `None` for no limit.
    pub fn new(minutes: Option<u64>) -> Self {
        Self { start: Instant::now(), limit: minutes.map(|minutes| Duration::from_secs(60 * minutes)) }
    }

    /// Whether a check may start. Reports one that may not as skipped.
    fn allows(self, what: &str) -> bool {
        let allowed = self.limit.is_none_or(|limit| self.start.elapsed() < limit);
        if !allowed {
            skip(what, "the time limit has passed");
        }
        allowed
    }

    /// Runs a check if it may start.
    fn within(self, what: &str, check: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.allows(what) { check() } else { Ok(()) }
    }
}

/// Sets up and runs all checks. With `reference`, also those against reference implementations in Python; if it names
/// one, that one alone. Prints a summary, also after a failure.
pub fn run(workspace: &Workspace, reference: Option<Option<Reference>>, limit: TimeLimit) -> anyhow::Result<()> {
    let done = match reference {
        None => run_all(workspace, limit),
        Some(None) => run_all(workspace, limit).and_then(|()| reference::run(workspace, Reference::Programs)),
        Some(Some(one)) => setup::run(workspace).and_then(|()| reference::run(workspace, one)),
    };
    print_summary(limit.start);
    done
}

/// Cheap checks come first. Chains whose steps wait or use one core run beside others; cargo compiles in one of them at a
/// time.
fn run_all(workspace: &Workspace, limit: TimeLimit) -> anyhow::Result<()> {
    step("format", || run_cargo(workspace, &["fmt", "--all", "--check"]))?;
    arrows::run(workspace, false)?;
    cycles::run(workspace)?;
    layout::run(workspace)?;
    locks::run(workspace)?;
    features::run(workspace)?;
    prose::run(workspace)?;
    both(|| setup::build(workspace), || foreign::build(workspace).and_then(|()| foreign::test(workspace)))?;
    both(|| lint_and_compile(workspace), || check_parts(workspace))?;
    // Fuzzing is the only check that is built before it starts.
    let fuzzes = limit.allows("fuzz");
    if fuzzes {
        fuzz::build(workspace)?;
    }
    both(|| step("tests", || run_cargo(workspace, &TESTS)), || run_the_rest(workspace, fuzzes, limit))
}

/// Lints, and compiles what the later steps run.
fn lint_and_compile(workspace: &Workspace) -> anyhow::Result<()> {
    // The optional feature costs seconds here, but its tests would be a second build of the host.
    let lints = ["clippy", "--release", "--workspace", "--all-targets", "--features", "gymkhana-cli/otel"];
    step("lints", || run_cargo(workspace, &[&lints[..], &["--", "-D", "warnings"]].concat()))?;
    step("tests: build", || run_cargo(workspace, &[&TESTS[..], &["--no-run"]].concat()))?;
    python_package::build(workspace)
}

fn check_parts(workspace: &Workspace) -> anyhow::Result<()> {
    setup::registry::run(workspace)?;
    deny::run(workspace)?;
    docs::run_built(workspace)
}

fn run_the_rest(workspace: &Workspace, fuzzes: bool, limit: TimeLimit) -> anyhow::Result<()> {
    if fuzzes {
        fuzz::run_built(workspace, FUZZ_SECONDS)?;
    }
    python_package::test(workspace)?;
    limit.within("packages", || package::run(workspace))?;
    limit.within("studies", || study::run_smoke(workspace, None))?;
    limit.within("benches", || bench::run_built(workspace, &[], true))?;
    limit.within("GPU pack", || gpu_pack::rehearse(workspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_start_until_the_limit() {
        let mut ran = 0;
        for (minutes, expected) in [(None, 1), (Some(1), 2), (Some(0), 2)] {
            TimeLimit::new(minutes)
                .within("a check of a test", || {
                    ran += 1;
                    Ok(())
                })
                .expect("no check fails");
            assert_eq!(ran, expected, "{minutes:?}");
        }
    }
}
