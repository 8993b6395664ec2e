//! Determinism: the same beginning, seed and actions give the same bytes, in a fresh instance and in one that others
//! used before.

use std::num::NonZeroU32;

use crate::bench::Bench;
use crate::finding::{Finding, Stop, passed, skipped, stop};
use crate::path::Path;
use crate::stage::Beginning;

/// Acts of a path.
const LENGTH: usize = 12;

pub(crate) async fn check(bench: &Bench) -> Finding {
    if !bench.plugin.manifest().deterministic {
        return skipped("its manifest says that it is not deterministic");
    }
    let beginnings = bench.beginnings();
    if beginnings.is_empty() {
        return skipped(bench.nothing_to_play());
    }
    let mut acts = 0;
    for (number, beginning) in beginnings.iter().enumerate() {
        let seed = bench.seed("determinism").child(number);
        let (path, _) = Path::walk(bench, beginning, seed, LENGTH).await?;
        acts += path.acts.len();
        again(bench, &path).await?;
        after_another(bench, beginning, &path).await?;
    }
    passed(format!("{} paths of {acts} actions in all came out alike, three times each", beginnings.len()))
}

/// In another instance.
async fn again(bench: &Bench, path: &Path) -> Result<(), Stop> {
    let (second, mut stage) = Path::begin(bench, &bench.plugin, &path.beginning, &bench.options, path.seed).await?;
    let change = "draw every random choice from the seed, and read neither the clock nor addresses";
    if second.said != path.said[..1] {
        let seen = crate::finding::parting(&path.said[0], &second.said[0]);
        return Err(stop(format!("{} began in two ways: {seen}", path.place()), change));
    }
    match path.retrace(bench, &mut stage, 0).await? {
        None => Ok(()),
        Some(parting) => Err(stop(format!("{} came out in two ways: {parting}", path.place()), change)),
    }
}

/// In an instance in which another path was gone before.
async fn after_another(bench: &Bench, beginning: &Beginning, path: &Path) -> Result<(), Stop> {
    let shared = bench.plugin.shared_by(NonZeroU32::MIN.saturating_add(7));
    let (mut before, mut stage) =
        Path::begin(bench, &shared, beginning, &bench.options, bench.seed("before").child(path.seed.0)).await?;
    for act in &path.acts {
        if stage.over {
            break;
        }
        before.act(bench, &mut stage, act.clone()).await?;
    }
    let change = "keep all state in the episode or session itself: none in statics, globals or module variables, and \
                  none in the order of a hash table";
    let (second, mut again) = Path::begin(bench, &shared, beginning, &bench.options, path.seed).await?;
    if second.said != path.said[..1] {
        let seen = crate::finding::parting(&path.said[0], &second.said[0]);
        return Err(stop(format!("{} began otherwise after another had been played: {seen}", path.place()), change));
    }
    match path.retrace(bench, &mut again, 0).await? {
        None => Ok(()),
        Some(parting) => {
            Err(stop(format!("{} came out otherwise after another had been played: {parting}", path.place()), change))
        }
    }
}
