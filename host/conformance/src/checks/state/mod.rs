//! Checks of the state: equal inputs, copies, keys, reads, and neighbours in one instance.
//!
//! Determinism is checked here: the same start, seed and actions give the same bytes, in a fresh instance and in a used one.

pub(crate) mod isolation;
pub(crate) mod read_only;
pub(crate) mod snapshots;
pub(crate) mod state_keys;

use std::num::NonZeroU32;

use crate::driver::{Start, Views};
use crate::finding::{Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::{Path, view_difference};

/// Actions per path.
const LENGTH: usize = 12;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    if !fixture.plugin.manifest().deterministic {
        return skipped("its manifest declares it non-deterministic");
    }
    let starts = fixture.starts();
    if starts.is_empty() {
        return skipped(fixture.nothing_to_play());
    }
    let mut actions = 0;
    for (number, start) in starts.iter().enumerate() {
        let seed = fixture.seed("determinism").child(number);
        let (path, mut driver) = Path::walk(fixture, start, seed, LENGTH).await?;
        let views = path.views(fixture, &mut driver).await?;
        actions += path.actions.len();
        again(fixture, &path, &views).await?;
        after_another(fixture, start, &path, &views).await?;
    }
    passed(format!("paths that were equal in three runs each: {}, with {actions} actions in total", starts.len()))
}

/// Repeats a path in another instance. `views` are those of its last state.
async fn again(fixture: &Fixture, path: &Path, views: &Views) -> Result<(), Stop> {
    let (second, mut driver) = Path::begin(fixture, &fixture.plugin, &path.start, &fixture.options, path.seed).await?;
    let change = "draw every random choice from the seed, and read neither the clock nor addresses";
    if let Some(seen) = path.start_difference(&second) {
        return Err(stop(format!("{} started differently in two runs: {seen}", path.place()), change));
    }
    if let Some(divergence) = path.retrace(fixture, &mut driver, 0).await? {
        return Err(stop(format!("{} differed in two runs: {divergence}", path.place()), change));
    }
    match view_difference(views, &path.views(fixture, &mut driver).await?) {
        None => Ok(()),
        Some(seen) => Err(stop(format!("{} ended in different states in two runs: {seen}", path.place()), change)),
    }
}

/// Repeats a path in an instance that played another path before.
async fn after_another(fixture: &Fixture, start: &Start, path: &Path, views: &Views) -> Result<(), Stop> {
    let shared = fixture.plugin.with_shared_instances(NonZeroU32::MIN.saturating_add(7));
    let (mut before, mut driver) =
        Path::begin(fixture, &shared, start, &fixture.options, fixture.seed("before").child(path.seed.0)).await?;
    for act in &path.actions {
        if driver.over {
            break;
        }
        before.act(fixture, &mut driver, act.clone()).await?;
    }
    let change = "keep all state in the episode or session itself, not in statics, globals or module variables, \
                  and not in the order of a hash table";
    let (second, mut again) = Path::begin(fixture, &shared, start, &fixture.options, path.seed).await?;
    if let Some(seen) = path.start_difference(&second) {
        return Err(stop(
            format!("{} started differently after another path in the same instance: {seen}", path.place()),
            change,
        ));
    }
    let differed = match path.retrace(fixture, &mut again, 0).await? {
        Some(divergence) => Some(divergence.to_string()),
        None => view_difference(views, &path.views(fixture, &mut again).await?),
    };
    match differed {
        None => Ok(()),
        Some(seen) => {
            Err(stop(format!("{} differed after another path in the same instance: {seen}", path.place()), change))
        }
    }
}
