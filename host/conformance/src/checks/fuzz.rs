//! Random and fuzzed actions for a set number of steps, or of instructions: each is answered, and rewards stay in their range.

use crate::finding::{CheckPhase, Finding, passed, skipped};
use crate::fixture::Fixture;
use crate::path::Path;

/// Actions per path.
const LENGTH: usize = 40;

/// Instructions per action that the settings ask for, about four milliseconds' worth: plugins that need more get fewer
/// actions, the same ones on every machine.
const INSTRUCTIONS: u64 = 4_000_000;

/// Every plugin gets this part of the actions.
const LEAST_PART: u64 = 10;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let starts = fixture.starts();
    if starts.is_empty() {
        return skipped(fixture.nothing_to_play());
    }
    let wanted = fixture.settings.steps.div_ceil(fixture.one_in() as u64);
    let last = fixture.instructions().saturating_add(wanted.saturating_mul(INSTRUCTIONS));
    let (mut steps, mut paths, mut ended) = (0, 0_u64, 0);
    while steps < wanted && (steps < wanted / LEAST_PART || fixture.instructions() < last) {
        let start = &starts[(paths % starts.len() as u64) as usize];
        let left = usize::try_from(wanted - steps).unwrap_or(LENGTH).min(LENGTH);
        let (path, driver) = Path::walk(fixture, start, fixture.seed("fuzz").child(paths), left).await?;
        let place = path.place();
        driver.close().await.during(format!("closing {place}"))?;
        ended += u64::from(path.over);
        // A start counts as a step, so that episodes that end at once do not repeat forever.
        steps += path.actions.len().max(1) as u64;
        paths += 1;
    }
    passed(format!("{steps} actions in {paths} episodes and sessions, of which {ended} ended"))
}
