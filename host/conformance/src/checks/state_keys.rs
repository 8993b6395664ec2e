//! State keys: equal states give equal bytes, whatever path led there, and other states give others.

use std::collections::{BTreeMap, BTreeSet};

use gymkhana_sandbox::Optional;

use crate::bench::Bench;
use crate::finding::{During, Finding, Stop, passed, skipped, stop};
use crate::path::Path;
use crate::stage::{Beginning, Stage};

/// Acts of a path.
const LENGTH: usize = 8;
/// Paths from one beginning.
const PATHS: usize = 3;

const UNEQUAL: &str =
    "make the key of the state's meaning alone: no counter of looks, no address, no order of a hash table";

pub(crate) async fn check(bench: &Bench) -> Finding {
    if !bench.plugin.offers(Optional::StateKey) {
        return skipped("it offers no state keys");
    }
    let saves = bench.plugin.offers(Optional::Snapshot);
    let (mut keys, mut shown, mut moments) = (BTreeSet::new(), BTreeSet::new(), 0);
    let episodes = bench.beginnings().into_iter().filter(|beginning| matches!(beginning, Beginning::Episode(_)));
    for (number, beginning) in episodes.enumerate() {
        // What one seed's paths saved, and the key that each state had.
        let mut known: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for walk in 0..PATHS {
            let seed = bench.seed("state-keys").child(number);
            let (path, _) = Path::walk(bench, &beginning, seed.child(walk), LENGTH).await?;
            let path = Path { seed, ..path };
            let (_, mut stage) = Path::begin(bench, &bench.plugin, &beginning, &bench.options, seed).await?;
            for turn in 0..=path.acts.len() {
                let key = key(&mut stage, &path, turn).await?;
                moments += 1;
                shown.insert(stage.shown.clone());
                keys.insert(key.clone());
                if saves {
                    let saved = stage
                        .save()
                        .await
                        .during(format!("the snapshot in front of step {turn} of {}", path.place()))?;
                    let copy = Stage::restore(&bench.plugin, &saved, &beginning, seed).await;
                    let mut copy =
                        copy.during(format!("its own snapshot in front of step {turn} of {}", path.place()))?;
                    if self::key(&mut copy, &path, turn).await? != key {
                        let seen =
                            format!("the key in front of step {turn} of {} is another once restored", path.place());
                        return Err(stop(seen, UNEQUAL));
                    }
                    let before = known.entry(saved.snapshot.bytes).or_insert_with(|| key.clone());
                    if *before != key {
                        let seen = format!(
                            "two states with equal snapshots have different keys, one in front of step {turn} of {}",
                            path.place()
                        );
                        return Err(stop(seen, UNEQUAL));
                    }
                }
                if stage.over || turn == path.acts.len() {
                    break;
                }
                let said = stage.act(&path.acts[turn]).await;
                said.during(format!("{} in {}, step {turn}", path.acts[turn], path.place()))?;
                bench.count(&stage, "step");
            }
        }
    }
    if keys.len() == 1 && shown.len() > 1 {
        let seen = format!(
            "all of {moments} states have the same key, and {} different things were shown in them",
            shown.len()
        );
        return Err(stop(seen, "put into the key what tells one state from another"));
    }
    passed(format!("{moments} states have {} keys", keys.len()))
}

/// The key, asked for twice.
async fn key(stage: &mut Stage, path: &Path, turn: usize) -> Result<Vec<u8>, Stop> {
    let place = || format!("the state key in front of step {turn} of {}", path.place());
    let first = stage.state_key().await.during(place())?.unwrap_or_default();
    let second = stage.state_key().await.during(place())?.unwrap_or_default();
    if first != second {
        return Err(stop(format!("{} is another when it is asked for twice", place()), UNEQUAL));
    }
    Ok(first)
}
