//! Snapshots: what is restored goes on as what was saved, and as what was played again from the start.

use gymkhana_record::FailureKind;

use crate::bench::Bench;
use crate::finding::{During, Finding, Stop, passed, skipped, stop};
use crate::path::Path;
use crate::stage::{Beginning, Saved, Stage};

/// Acts of a path.
const LENGTH: usize = 8;

const CHANGE: &str = "put everything into the snapshot that a later turn depends on: counters, the state of the random \
                      generator, who is to move, what was said";

fn saveable(bench: &Bench) -> Vec<Beginning> {
    let offered = |beginning: &Beginning| Stage::can_be_saved(&bench.plugin, beginning);
    bench.beginnings().into_iter().filter(offered).collect()
}

/// Saves a path in front of each act. Each copy must go on as the path did, and saving must not have changed the path.
pub(crate) async fn check(bench: &Bench) -> Finding {
    let beginnings = saveable(bench);
    if beginnings.is_empty() {
        return skipped("it offers no snapshots");
    }
    let (mut copies, mut largest) = (0, 0);
    for (number, beginning) in beginnings.iter().enumerate() {
        let seed = bench.seed("snapshots").child(number);
        let (path, _) = Path::walk(bench, beginning, seed, LENGTH).await?;
        let (_, mut original) = Path::begin(bench, &bench.plugin, beginning, &bench.options, seed).await?;
        for turn in 0..path.acts.len() {
            let saved =
                original.save().await.during(format!("the snapshot in front of step {turn} of {}", path.place()))?;
            largest = largest.max(saved.snapshot.bytes.len());
            let mut copy = restore(bench, &saved, &path, turn).await?;
            if let Some(parting) = path.retrace(bench, &mut copy, turn).await? {
                let seen = format!("{}, restored in front of step {turn}, went on otherwise: {parting}", path.place());
                return Err(stop(seen, CHANGE));
            }
            copies += 1;
            let one = Path { acts: path.acts[..=turn].to_vec(), ..path.clone() };
            if let Some(parting) = one.retrace(bench, &mut original, turn).await? {
                let seen =
                    format!("{}, saved in front of step {turn}, went on otherwise itself: {parting}", path.place());
                return Err(stop(seen, "have `snapshot` read the state and change nothing of it"));
            }
        }
    }
    passed(format!("{copies} copies came to the same end; the largest snapshot has {largest} bytes"))
}

async fn restore(bench: &Bench, saved: &Saved, path: &Path, turn: usize) -> Result<Stage, Stop> {
    let copy = Stage::restore(&bench.plugin, saved, &path.beginning, path.seed).await;
    copy.during(format!("its own snapshot in front of step {turn} of {} could not be restored", path.place()))
}

/// Gives bytes that are no snapshot, and beginnings and spoilt copies of one that is.
pub(crate) async fn check_bad(bench: &Bench) -> Finding {
    let Some(beginning) = saveable(bench).into_iter().next() else { return skipped("it offers no snapshots") };
    let seed = bench.seed("bad-snapshots");
    let (_, mut stage) = Path::begin(bench, &bench.plugin, &beginning, &bench.options, seed).await?;
    let saved = stage.save().await.during(format!("the snapshot of {beginning}"))?;
    let good = &saved.snapshot.bytes;
    let mut noise = vec![0; 97];
    seed.stream().fill(&mut noise);
    let mut bad = vec![noise, vec![0xff; 64], good.iter().chain(b"and more").copied().collect()];
    bad.extend((0..good.len().min(64)).map(|cut| good[..cut].to_vec()));
    // Another state, or none; whichever, `restore` must see it.
    bad.extend((0..good.len().min(256)).map(|place| {
        let mut flipped = good.clone();
        flipped[place] ^= 0xff;
        flipped
    }));
    let mut refused = 0;
    for bytes in &bad {
        let mut saved = saved.clone();
        saved.snapshot.bytes.clone_from(bytes);
        match Stage::restore(&bench.plugin, &saved, &beginning, seed).await {
            Ok(_) => {}
            Err(error) if error.kind == FailureKind::Refused => refused += 1,
            Err(error) if error.kind.is_hosts() => return Err(Stop::Host(error)),
            Err(error) => {
                let seen = format!("`restore` of {} bytes that are no snapshot: {}", bytes.len(), error.message);
                return Err(stop(seen, "return `Error::BadSnapshot`"));
            }
        }
    }
    if refused == 0 {
        let seen = format!("`restore` took all of {} texts that are no snapshot", bad.len());
        return Err(stop(seen, "return `Error::BadSnapshot` for bytes that `snapshot` did not write"));
    }
    passed(format!("{refused} of {} were refused, and none did harm", bad.len()))
}
