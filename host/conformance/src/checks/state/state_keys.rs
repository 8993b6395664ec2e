//! State keys: equal states have equal keys on every path, and different states have different keys.

use std::collections::{BTreeMap, BTreeSet};

use gymkhana_sandbox::OptionalInterface;

use super::snapshots::restore;
use crate::driver::{Driver, Saved, Start};
use crate::finding::{CheckPhase, Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::Path;

/// Actions per path.
const LENGTH: usize = 8;
/// Paths per start.
const PATHS: usize = 3;

const UNEQUAL: &str =
    "derive the key only from the state's content, not from counters of reads, addresses or the order of a hash table";

/// Observations of all paths.
#[derive(Default)]
struct Seen {
    keys: BTreeSet<Vec<u8>>,
    shown: BTreeSet<String>,
    moments: u64,
}

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    if !fixture.plugin.offers(OptionalInterface::StateKey) {
        return skipped("it does not offer state keys");
    }
    let mut seen = Seen::default();
    let episodes = fixture.starts().into_iter().filter(|start| matches!(start, Start::Episode(_)));
    for (number, start) in episodes.enumerate() {
        // Snapshots on one seed's paths, with the key of each state.
        let mut known: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for walk in 0..PATHS {
            let seed = fixture.seed("state-keys").child(number);
            let (path, _) = Path::walk(fixture, &start, seed.child(walk), LENGTH).await?;
            follow(fixture, &Path { seed, ..path }, walk == 0, &mut seen, &mut known).await?;
        }
    }
    let Seen { keys, shown, moments } = seen;
    // At the limits of an option there can be one state, which only shows different answers.
    if keys.len() == 1 && shown.len() > 1 && !fixture.is_brief() {
        let shown = shown.len();
        let seen = format!("all of {moments} states have the same key, but showed {shown} different observations");
        return Err(stop(seen, "include in the key what distinguishes the states"));
    }
    passed(format!("{moments} states have {} keys", keys.len()))
}

/// Repeats a path's actions with the path's seed and checks the key of every state, with `restoring` also in a restored
/// copy. A copy takes as long as a start, which is much in a language with a runtime.
async fn follow(
    fixture: &Fixture,
    path: &Path,
    restoring: bool,
    seen: &mut Seen,
    known: &mut BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<(), Stop> {
    let (_, mut driver) = Path::begin(fixture, &fixture.plugin, &path.start, &fixture.options, path.seed).await?;
    for turn in 0..=path.actions.len() {
        let key = key(&mut driver, path, turn).await?;
        if fixture.plugin.offers(OptionalInterface::Snapshot) {
            let saved = driver.save().await.during(format!("the snapshot {}", place(path, turn)))?;
            if known.entry(saved.bytes().to_vec()).or_insert_with(|| key.clone()) != &key {
                let place = place(path, turn);
                return Err(stop(format!("two states with equal snapshots have different keys, one {place}"), UNEQUAL));
            }
            if restoring && fixture.makes(turn) {
                survives(&saved, path, turn, &key).await?;
            }
        }
        seen.moments += 1;
        seen.shown.insert(driver.shown.clone());
        seen.keys.insert(key);
        let Some(act) = path.actions.get(turn).filter(|_| !driver.over) else { break };
        driver.act(act).await.during(format!("{act} in {}, step {turn}", path.place()))?;
        fixture.count(&driver, "step");
    }
    Ok(())
}

/// Place of a state on a path.
fn place(path: &Path, turn: usize) -> String {
    format!("before step {turn} of {}", path.place())
}

/// Checks that a restored copy has the key.
async fn survives(saved: &Saved, path: &Path, turn: usize, key: &[u8]) -> Result<(), Stop> {
    let mut copy = restore(saved, path, turn).await?;
    if self::key(&mut copy, path, turn).await? != key {
        return Err(stop(format!("the key {} differs after the state is restored", place(path, turn)), UNEQUAL));
    }
    Ok(())
}

/// The key, read twice.
async fn key(driver: &mut Driver, path: &Path, turn: usize) -> Result<Vec<u8>, Stop> {
    let place = || format!("the state key before step {turn} of {}", path.place());
    let first = driver.state_key().await.during(place())?.unwrap_or_default();
    let second = driver.state_key().await.during(place())?.unwrap_or_default();
    if first != second {
        return Err(stop(format!("{} differs when it is read twice", place()), UNEQUAL));
    }
    Ok(first)
}
