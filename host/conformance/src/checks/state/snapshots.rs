//! Snapshots: a restored state continues like the saved one, and like a replay from the start.

use gymkhana_record::FailureKind;

use crate::driver::{Driver, Saved, Start, Views};
use crate::finding::{CheckPhase, Defect, Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::{Path, view_difference};

/// Actions per path.
const LENGTH: usize = 8;

const CHANGE: &str = "put everything into the snapshot that a later turn depends on: counters, the state of the random \
                      generator, the seat to move, the history";

fn saveable(fixture: &Fixture) -> Vec<Start> {
    let offered = |start: &Start| Driver::can_be_saved(&fixture.plugin, start);
    fixture.starts().into_iter().filter(offered).collect()
}

/// Saves a path before each action. Each copy must continue like the path, and saving must not change the path.
pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let starts = saveable(fixture);
    if starts.is_empty() {
        return skipped("it does not offer snapshots");
    }
    let (mut copies, mut largest) = (0, 0);
    for (number, start) in starts.iter().enumerate() {
        let seed = fixture.seed("snapshots").child(number);
        let (path, _) = Path::walk(fixture, start, seed, LENGTH).await?;
        let views = views(fixture, &path).await?;
        let (_, mut original) = Path::begin(fixture, &fixture.plugin, start, &fixture.options, seed).await?;
        for turn in 0..path.actions.len() {
            let saved = original.save().await.during(format!("the snapshot before step {turn} of {}", path.place()))?;
            largest = largest.max(saved.bytes().len());
            if fixture.makes(number + turn) {
                let mut copy = restore(&saved, &path, turn).await?;
                follow(fixture, &path, &views, &mut copy, turn).await?;
                copies += 1;
            }
            if let Some(divergence) = path.up_to(turn).retrace(fixture, &mut original, turn).await? {
                let seen =
                    format!("{}, saved before step {turn}, continued differently itself: {divergence}", path.place());
                return Err(stop(seen, "make `snapshot` leave the state unchanged"));
            }
        }
    }
    passed(format!("{copies} copies continued like their originals; the largest snapshot has {largest} bytes"))
}

/// Views of a path's states: before each step, and after the last one.
async fn views(fixture: &Fixture, path: &Path) -> Result<Vec<Views>, Stop> {
    let (_, mut driver) = Path::begin(fixture, &fixture.plugin, &path.start, &fixture.options, path.seed).await?;
    let mut views = vec![path.views(fixture, &mut driver).await?];
    for turn in 0..path.actions.len() {
        // A difference here is a finding of the checks of determinism and of reads.
        path.up_to(turn).retrace(fixture, &mut driver, turn).await?;
        views.push(path.views(fixture, &mut driver).await?);
    }
    Ok(views)
}

/// Continues a copy to the end of the path. Its answers and the views of each state must be those of the path.
async fn follow(
    fixture: &Fixture,
    path: &Path,
    views: &[Views],
    copy: &mut Driver,
    restored: usize,
) -> Result<(), Stop> {
    let place = || format!("{}, restored before step {restored}", path.place());
    for (turn, views) in views.iter().enumerate().skip(restored) {
        if let Some(difference) = view_difference(views, &path.views(fixture, copy).await?) {
            let seen = format!("{}, is another state before step {turn}: {difference}", place());
            return Err(stop(seen, CHANGE));
        }
        if turn < path.actions.len()
            && let Some(divergence) = path.up_to(turn).retrace(fixture, copy, turn).await?
        {
            return Err(stop(format!("{}, continued differently: {divergence}", place()), CHANGE));
        }
    }
    Ok(())
}

/// Restores a state of a path.
pub(super) async fn restore(saved: &Saved, path: &Path, turn: usize) -> Result<Driver, Stop> {
    let what = format!("its own snapshot before step {turn} of {} could not be restored", path.place());
    match Driver::restore(saved, path.seed).await {
        Err(error) if error.kind == FailureKind::Refused => {
            let remedy = "`restore` refuses what `snapshot` wrote: correct one of them";
            Err(Stop::Plugin(Defect::of_call(what, error).with_change(remedy)))
        }
        restored => restored.during(what),
    }
}

/// Restores invalid bytes, among them truncated and altered snapshots.
pub(crate) async fn check_bad(fixture: &Fixture) -> Finding {
    let Some(start) = saveable(fixture).into_iter().next() else { return skipped("it does not offer snapshots") };
    let seed = fixture.seed("bad-snapshots");
    let (_, mut driver) = Path::begin(fixture, &fixture.plugin, &start, &fixture.options, seed).await?;
    let saved = driver.save().await.during(format!("the snapshot of {start}"))?;
    let good = saved.bytes();
    let mut noise = vec![0; 97];
    seed.stream().fill(&mut noise);
    let mut bad: Vec<Vec<u8>> = vec![noise, vec![0xff; 64], good.iter().chain(b"and more").copied().collect()];
    bad.extend((0..good.len().min(64)).map(|cut| good[..cut].to_vec()));
    // The result may be another state, or bytes that `restore` must refuse.
    bad.extend((0..good.len().min(256)).map(|place| {
        let mut flipped = good.to_vec();
        flipped[place] ^= 0xff;
        flipped
    }));
    let bad: Vec<Vec<u8>> =
        bad.into_iter().enumerate().filter_map(|(number, bytes)| fixture.makes(number).then_some(bytes)).collect();
    let mut refused = 0;
    for bytes in &bad {
        match Driver::restore(&saved.with_bytes(bytes.clone()), seed).await {
            Ok(_) => {}
            Err(error) if error.kind == FailureKind::Refused => refused += 1,
            Err(error) if error.kind.is_hosts() => return Err(Stop::Host(error)),
            Err(error) => {
                let seen = format!("`restore` of {} invalid bytes: {}", bytes.len(), error.message);
                return Err(stop(seen, "return `Error::BadSnapshot`"));
            }
        }
    }
    if refused == 0 {
        let seen = format!("`restore` accepted all of {} invalid byte strings", bad.len());
        return Err(stop(seen, "return `Error::BadSnapshot` for bytes that `snapshot` did not write"));
    }
    passed(format!("{refused} of {} were refused, and none caused an error", bad.len()))
}
