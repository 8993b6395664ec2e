//! Reads do not change a state: snapshots, state keys, views, hints, images and advice.

use gymkhana_record::FailureKind;
use gymkhana_sandbox::OptionalInterface;

use crate::driver::Driver;
use crate::finding::{CheckPhase, Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::path::Path;
use crate::tree::Tree;

/// Actions per path.
const LENGTH: usize = 8;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let starts = fixture.starts();
    let (mut reads, mut ways) = (0, 0);
    for (number, start) in starts.iter().enumerate() {
        let seed = fixture.seed("looking").child(number);
        let (path, _) = Path::walk(fixture, start, seed, LENGTH).await?;
        let (_, mut driver) = Path::begin(fixture, &fixture.plugin, start, &fixture.options, seed).await?;
        for (turn, act) in path.actions.iter().enumerate() {
            ways = ways.max(read_twice(fixture, &mut driver, &path, turn).await?);
            reads += 2;
            if let Some(divergence) = path.up_to(turn).retrace(fixture, &mut driver, turn).await? {
                let seen = format!("{} differed after its state was read, at {act}: {divergence}", path.place());
                return Err(stop(seen, "make reads leave the state unchanged"));
            }
        }
        read_twice(fixture, &mut driver, &path, path.actions.len()).await?;
    }
    if ways == 0 {
        return skipped("it does not offer reads");
    }
    passed(format!("{reads} reads of {ways} kinds changed nothing"))
}

/// Reads the state in every way, twice. Returns the number of ways.
async fn read_twice(fixture: &Fixture, driver: &mut Driver, path: &Path, turn: usize) -> Result<usize, Stop> {
    let place = format!("before step {turn} of {}", path.place());
    let during = || format!("a read {place}");
    let first = driver.read_state(&fixture.plugin).await.during(during())?;
    if fixture.plugin.offers(OptionalInterface::Oracle) && !driver.is_session() && !driver.over {
        match driver.advice().await {
            // An oracle may have no advice.
            Err(error) if error.kind != FailureKind::Refused => {
                return Err(error).during(format!("the advice {place}"));
            }
            _ => {}
        }
    }
    let second = driver.read_state(&fixture.plugin).await.during(during())?;
    let changed = |((name, one), (_, other)): (&(&'static str, Tree), &(&'static str, Tree))| {
        one.difference(other).map(|difference| (*name, difference))
    };
    if let Some((name, difference)) = first.iter().zip(&second).find_map(changed) {
        return Err(stop(
            format!("`{name}` {place} differs when it is read twice: {difference}"),
            "make reads leave the state unchanged",
        ));
    }
    Ok(first.len())
}
