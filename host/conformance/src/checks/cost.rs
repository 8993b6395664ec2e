//! Cost of calls: instructions and memory compared with the limits; times are informational.

use std::collections::BTreeMap;

use crate::finding::{Finding, passed, skipped, stop};
use crate::fixture::{Fixture, Used};

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let used = fixture.used();
    if used.is_empty() {
        return skipped("nothing was called");
    }
    let mut calls: BTreeMap<&str, Vec<&Used>> = BTreeMap::new();
    used.iter().for_each(|one| calls.entry(one.call).or_default().push(one));
    let mut rows = vec![HEADER.to_owned()];
    for (call, used) in calls {
        let most = |number: fn(&Used) -> Option<u64>| used.iter().filter_map(|one| number(one)).max().unwrap_or(0);
        let (fuel, memory) = (most(|one| one.cost.fuel), most(|one| one.cost.memory_bytes));
        let limit = fixture.settings.most_fuel;
        if fuel > limit {
            let seen = format!("one {call} took {fuel} instructions; the limit is {limit}");
            return Err(stop(seen, "do less in one call, or do it once and keep the result"));
        }
        let limit = fixture.settings.most_memory;
        if memory > limit {
            let seen = format!("during a {call} the instance held {memory} bytes; the limit is {limit}");
            return Err(stop(seen, "hold less memory at once"));
        }
        let mut times: Vec<f64> = used.iter().map(|one| one.cost.running_us).collect();
        times.sort_by(f64::total_cmp);
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        rows.push(row(call, median, slowest, fuel, memory));
    }
    passed(rows.join("\n"))
}

/// Columns of a table that fits beside the name of the check.
const HEADER: &str = "call      median µs    most µs  instructions     KiB";

fn row(call: &str, median: f64, slowest: f64, fuel: u64, memory: u64) -> String {
    format!("{call:<8}{median:>11.0}{slowest:>11.0}{fuel:>14}{:>8}", memory >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stands_below_the_header() {
        let most = row("scoring", 1_234_567.0, 9_876_543.2, 60_000_000_000, 2 << 30);
        assert_eq!(most, "scoring     1234567    9876543   60000000000 2097152");
        assert_eq!(most.chars().count(), HEADER.chars().count());
        // The name of the check takes 35 columns.
        assert!(35 + most.chars().count() <= 100);
    }
}
