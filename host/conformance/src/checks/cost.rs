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
    let mut told = Vec::new();
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
        told.push(format!(
            "{call}: median {median:.0} µs, at most {slowest:.0} µs, {fuel} instructions and {} KiB",
            memory >> 10
        ));
    }
    passed(told.join("; "))
}
