//! `test`: all checks that a change must pass.

use std::time::{Duration, Instant};

use crate::checks::{arrows, cycles, deny, features, layout, locks, manifests, prose};
use crate::measure::{bench, gpu_pack, study};
use crate::publish::package;
use crate::reference::{self, Reference};
use crate::setup::registry::Refusal;
use crate::setup::run_cargo;
use crate::step::{both, print_summary, skip, step};
use crate::workspace::Workspace;
use crate::{docs, foreign, fuzz, python_package, setup};

/// Time of all fuzz targets together, in seconds: enough to find that one does not start or a seed fails.
const FUZZ_SECONDS: u64 = 40;

/// cargo's words for all tests.
const TESTS: [&str; 3] = ["test", "--release", "--workspace"];

/// Time after which the checks beside the tests are left out. On a slow machine the tests end in time without them.
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

    /// Runs a check, or reports it as skipped if the time is over.
    fn within(self, what: &str, check: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.limit.is_some_and(|limit| self.start.elapsed() >= limit) {
            skip(what, "the time limit has passed");
            return Ok(());
        }
        check()
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

/// Cheap checks come first, then what everything else needs, then the tests. The other checks run beside the tests, in the
/// order of their weight, so that a time limit leaves out the least important ones. Chains whose steps wait or use one core
/// run beside others; cargo compiles in one of them at a time.
fn run_all(workspace: &Workspace, limit: TimeLimit) -> anyhow::Result<()> {
    step("format", || run_cargo(workspace, &["fmt", "--all", "--check"]))?;
    arrows::run(workspace, false)?;
    cycles::run(workspace)?;
    layout::run(workspace)?;
    locks::run(workspace)?;
    features::run(workspace)?;
    prose::run(workspace)?;
    both(|| setup::build(workspace), || foreign::build(workspace).and_then(|()| foreign::test(workspace)))?;
    both(
        || step("tests: build", || run_cargo(workspace, &[&TESTS[..], &["--no-run"]].concat())),
        || setup::registry::run(workspace, Refusal::Fails),
    )?;
    both(|| step("tests", || run_cargo(workspace, &TESTS)), || run_the_rest(workspace, limit))
}

fn run_the_rest(workspace: &Workspace, limit: TimeLimit) -> anyhow::Result<()> {
    limit.within("lints", || lint(workspace))?;
    limit.within("dependencies", || deny::run(workspace))?;
    limit.within("manifests", || manifests::run(workspace))?;
    limit.within("docs", || docs::run_built(workspace))?;
    limit.within("python package", || python_package::test(workspace))?;
    limit.within("fuzz", || fuzz::build(workspace).and_then(|()| fuzz::run_built(workspace, FUZZ_SECONDS)))?;
    limit.within("packages", || package::run(workspace))?;
    limit.within("studies", || study::run_smoke(workspace, None))?;
    limit.within("benches", || bench::run_built(workspace, &[], true))?;
    limit.within("GPU pack", || gpu_pack::rehearse(workspace))
}

fn lint(workspace: &Workspace) -> anyhow::Result<()> {
    // The optional feature costs seconds here, but its tests would be a second build of the host.
    let lints = ["clippy", "--release", "--workspace", "--all-targets", "--features", "gymkhana-cli/otel"];
    step("lints", || run_cargo(workspace, &[&lints[..], &["--", "-D", "warnings"]].concat()))
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
