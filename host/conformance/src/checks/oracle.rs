//! The oracle: what it advises ends episodes, and well. Demonstrations are made of it.

use gymkhana_record::{Ending, NamedValue, TaskRef, Value};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{OptionalInterface, score};

use crate::FinishedEpisode;
use crate::bench::Bench;
use crate::finding::{During, Finding, Stop, passed, skipped, stop};
use crate::play::{Chosen, Player, play};

/// Tasks of each split.
const TASKS: u64 = 8;

pub(crate) async fn check(bench: &Bench) -> Finding {
    if !bench.plugin.offers(OptionalInterface::Oracle) {
        return skipped("it offers no oracle");
    }
    let tools: Vec<Chosen<'_>> = bench.beside(Kind::Tool).collect();
    let mut told = Vec::new();
    for split in &bench.splits {
        let (mut good, mut judged, mut played) = (0, 0, 0);
        for index in 0..TASKS.min(split.tasks.unwrap_or(TASKS)) {
            let task = TaskRef { split: split.name.clone(), index };
            let seed = bench.seed("oracle").child(&task);
            let tale = play((&bench.plugin, &bench.options), &tools, &task, seed, Player::Oracle).await?;
            played += 1;
            if tale.ending != Ending::Terminated {
                let seen =
                    format!("the oracle's episode of task {task} with seed {} ended as {:?}", seed.0, tale.ending);
                return Err(stop(
                    seen,
                    "have the oracle advise what ends the episode within the environment's own limits",
                ));
            }
            if let Some(success) = success(bench, &tale, &task).await? {
                judged += 1;
                good += u32::from(success);
            }
        }
        if judged > 0 && good == 0 {
            let seen = format!("the oracle succeeded at none of {judged} tasks of `{}`", split.name);
            return Err(stop(seen, "have it advise what leads to `success`, as it knows the answer"));
        }
        told.push(match judged {
            0 => format!("{}: {played} of {played} ended, and nothing says whether well", split.name),
            judged => format!("{}: success at {good} of {judged}", split.name),
        });
    }
    let beside = "; to judge by a reward, give it with --with REWARD.wasm";
    let unjudged = told.iter().any(|told| told.ends_with("whether well"));
    passed(format!("{}{}", told.join(", "), if unjudged { beside } else { "" }))
}

/// Whether an episode went well: what the environment says of `success`, else whether the rewards beside it give more
/// than for an empty message, else whether it earned anything.
async fn success(bench: &Bench, tale: &FinishedEpisode, task: &TaskRef) -> Result<Option<bool>, Stop> {
    let is_success = |fact: &&NamedValue| fact.name == "success";
    if let Some(fact) = tale.extras.iter().find(is_success) {
        return Ok(Some(fact.value == Value::Flag(true) || fact.value.as_number().is_some_and(|number| number > 0.0)));
    }
    let rewards: Vec<Chosen<'_>> = bench.beside(Kind::Reward).collect();
    if !rewards.is_empty() {
        let fool = Player::Fool(Box::new(bench.seed("fool").child(task).stream()));
        let foolish = play((&bench.plugin, &bench.options), &[], task, bench.seed("fool"), fool).await?;
        return Ok(Some(total(bench, &rewards, tale).await? > total(bench, &rewards, &foolish).await?));
    }
    let range = bench.plugin.environment_info().await.during("`describe` failed")?.rewards;
    if range.low < range.high {
        let earned: f64 = tale.environment_rewards.iter().flat_map(|seat| &seat.rewards).sum();
        return Ok(Some(earned > range.low * tale.environment_rewards.len() as f64));
    }
    Ok(None)
}

async fn total(bench: &Bench, rewards: &[Chosen<'_>], tale: &FinishedEpisode) -> Result<f64, Stop> {
    let mut sum = 0.0;
    for (reward, options) in rewards {
        let scores = score(reward, &[tale.trajectory()], options, 0, bench.seed("score")).await;
        let scores = scores.during(format!("the reward `{}` beside it", reward.name()))?;
        sum += scores.iter().flatten().map(|score| score.total).sum::<f64>();
    }
    Ok(sum)
}
