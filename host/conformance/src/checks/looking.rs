//! Looking: snapshots, keys, views, hints, pictures and advice tell of a state and leave it as it is.

use gymkhana_record::FailureKind;
use gymkhana_sandbox::OptionalInterface;

use crate::bench::Bench;
use crate::finding::{During, Finding, Stop, passed, skipped, stop};
use crate::path::Path;
use crate::stage::Stage;

/// Acts of a path.
const LENGTH: usize = 8;

pub(crate) async fn check(bench: &Bench) -> Finding {
    let beginnings = bench.beginnings();
    let (mut looks, mut ways) = (0, 0);
    for (number, beginning) in beginnings.iter().enumerate() {
        let seed = bench.seed("looking").child(number);
        let (path, _) = Path::walk(bench, beginning, seed, LENGTH).await?;
        let (_, mut stage) = Path::begin(bench, &bench.plugin, beginning, &bench.options, seed).await?;
        for (turn, act) in path.acts.iter().enumerate() {
            ways = ways.max(look_twice(bench, &mut stage, &path, turn).await?);
            looks += 2;
            let one = Path { acts: path.acts[..=turn].to_vec(), ..path.clone() };
            if let Some(parting) = one.retrace(bench, &mut stage, turn).await? {
                let seen = format!("{} went on otherwise after it was looked at, with {act}: {parting}", path.place());
                return Err(stop(seen, "have every look read the state and change nothing of it"));
            }
        }
        look_twice(bench, &mut stage, &path, path.acts.len()).await?;
    }
    if ways == 0 {
        return skipped("it offers nothing to look at");
    }
    passed(format!("{looks} looks in {ways} ways changed nothing"))
}

/// Looks in every way, twice; gives the number of ways.
async fn look_twice(bench: &Bench, stage: &mut Stage, path: &Path, turn: usize) -> Result<usize, Stop> {
    let place = format!("in front of step {turn} of {}", path.place());
    let during = || format!("a look {place}");
    let first = stage.look(&bench.plugin).await.during(during())?;
    if bench.plugin.offers(OptionalInterface::Oracle) && !stage.is_session() && !stage.over {
        match stage.advice().await {
            // An expert may be at a loss.
            Err(error) if error.kind != FailureKind::Refused => {
                return Err(error).during(format!("the advice {place}"));
            }
            _ => {}
        }
    }
    let second = stage.look(&bench.plugin).await.during(during())?;
    if let Some((one, _)) = first.iter().zip(&second).find(|(one, other)| one != other).map(|(one, _)| one) {
        return Err(stop(
            format!("`{one}` {place} is another when it is asked for twice"),
            "have every look change nothing",
        ));
    }
    Ok(first.len())
}
