//! Isolation: one of two episodes or sessions in one instance does not affect the other.

use std::num::NonZeroU32;

use crate::driver::Driver;
use crate::finding::{Finding, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::Path;

/// Actions per path.
const LENGTH: usize = 8;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let starts = fixture.starts();
    if starts.is_empty() {
        return skipped(fixture.nothing_to_play());
    }
    let mut pairs = 0;
    for (number, start) in starts.iter().enumerate() {
        let other = &starts[(number + 1) % starts.len()];
        let seeds = [fixture.seed("apart").child(number), fixture.seed("apart").child(number).child("other")];
        let paths = [
            Path::walk(fixture, start, seeds[0], LENGTH).await?.0,
            Path::walk(fixture, other, seeds[1], LENGTH).await?.0,
        ];
        let shared = fixture.plugin.with_shared_instances(NonZeroU32::MIN.saturating_add(7));
        let mut drivers: Vec<Driver> = Vec::new();
        for path in &paths {
            let (begun, driver) = Path::begin(fixture, &shared, &path.start, &fixture.options, path.seed).await?;
            if let Some(seen) = path.start_difference(&begun) {
                return Err(stop(
                    format!("{} started differently next to another in the same instance: {seen}", path.place()),
                    CHANGE,
                ));
            }
            drivers.push(driver);
        }
        for turn in 0..LENGTH {
            for (path, driver) in paths.iter().zip(&mut drivers) {
                if let Some(divergence) = path.up_to(turn).retrace(fixture, driver, turn).await? {
                    let seen = format!("{} differed next to another in the same instance: {divergence}", path.place());
                    return Err(stop(seen, CHANGE));
                }
            }
        }
        pairs += 1;
    }
    passed(format!("pairs in one instance that were equal to separate runs: {pairs}"))
}

const CHANGE: &str = "keep all state in the episode or session itself, not in statics, globals or module variables";
