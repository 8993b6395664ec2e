//! Determinism: the same start, seed and actions give the same bytes, in a fresh instance and in one that others
//! used before.

use std::num::NonZeroU32;

use crate::driver::Start;
use crate::finding::{Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::Path;

/// Acts of a path.
const LENGTH: usize = 12;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    if !fixture.plugin.manifest().deterministic {
        return skipped("its manifest says that it is not deterministic");
    }
    let starts = fixture.starts();
    if starts.is_empty() {
        return skipped(fixture.nothing_to_play());
    }
    let mut actions = 0;
    for (number, start) in starts.iter().enumerate() {
        let seed = fixture.seed("determinism").child(number);
        let (path, _) = Path::walk(fixture, start, seed, LENGTH).await?;
        actions += path.actions.len();
        again(fixture, &path).await?;
        after_another(fixture, start, &path).await?;
    }
    passed(format!("{} paths of {actions} actions in all came out alike, three times each", starts.len()))
}

/// In another instance.
async fn again(fixture: &Fixture, path: &Path) -> Result<(), Stop> {
    let (second, mut driver) = Path::begin(fixture, &fixture.plugin, &path.start, &fixture.options, path.seed).await?;
    let change = "draw every random choice from the seed, and read neither the clock nor addresses";
    if second.said != path.said[..1] {
        let seen = crate::finding::divergence(&path.said[0], &second.said[0]);
        return Err(stop(format!("{} began in two ways: {seen}", path.place()), change));
    }
    match path.retrace(fixture, &mut driver, 0).await? {
        None => Ok(()),
        Some(divergence) => Err(stop(format!("{} came out in two ways: {divergence}", path.place()), change)),
    }
}

/// In an instance in which another path was gone before.
async fn after_another(fixture: &Fixture, start: &Start, path: &Path) -> Result<(), Stop> {
    let shared = fixture.plugin.shared_by(NonZeroU32::MIN.saturating_add(7));
    let (mut before, mut driver) =
        Path::begin(fixture, &shared, start, &fixture.options, fixture.seed("before").child(path.seed.0)).await?;
    for act in &path.actions {
        if driver.over {
            break;
        }
        before.act(fixture, &mut driver, act.clone()).await?;
    }
    let change = "keep all state in the episode or session itself: none in statics, globals or module variables, and \
                  none in the order of a hash table";
    let (second, mut again) = Path::begin(fixture, &shared, start, &fixture.options, path.seed).await?;
    if second.said != path.said[..1] {
        let seen = crate::finding::divergence(&path.said[0], &second.said[0]);
        return Err(stop(format!("{} began otherwise after another had been played: {seen}", path.place()), change));
    }
    match path.retrace(fixture, &mut again, 0).await? {
        None => Ok(()),
        Some(divergence) => Err(stop(
            format!("{} came out otherwise after another had been played: {divergence}", path.place()),
            change,
        )),
    }
}
