//! Random and fuzzed actions for a set number of steps: every one is answered, and rewards stay in their range.

use crate::bench::Bench;
use crate::finding::{During, Finding, passed, skipped};
use crate::path::Path;

/// Acts of a path.
const LENGTH: usize = 40;

pub(crate) async fn check(bench: &Bench) -> Finding {
    let beginnings = bench.beginnings();
    if beginnings.is_empty() {
        return skipped(bench.nothing_to_play());
    }
    let (mut steps, mut paths, mut ended) = (0, 0_u64, 0);
    while steps < bench.settings.steps {
        let beginning = &beginnings[(paths % beginnings.len() as u64) as usize];
        let left = usize::try_from(bench.settings.steps - steps).unwrap_or(LENGTH).min(LENGTH);
        let (path, stage) = Path::walk(bench, beginning, bench.seed("fuzz").child(paths), left).await?;
        let place = path.place();
        stage.close().await.during(format!("closing {place}"))?;
        ended += u64::from(path.over);
        // A start counts too, lest episodes that end at once go on for ever.
        steps += path.acts.len().max(1) as u64;
        paths += 1;
    }
    passed(format!("{steps} actions in {paths} episodes and sessions, of which {ended} came to their end"))
}
