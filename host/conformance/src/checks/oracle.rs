//! The oracle: its advice ends episodes successfully. Demonstrations are made from it.

use gymkhana_record::{Ending, NamedValue, TaskRef, Value};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{OptionalInterface, score};

use crate::FinishedEpisode;
use crate::finding::{CheckPhase, Finding, Stop, passed, skipped, stop};
use crate::fixture::Fixture;
use crate::play::{Player, PluginWithOptions, play};

/// Tasks per split.
const TASKS: u64 = 8;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    if !fixture.plugin.offers(OptionalInterface::Oracle) {
        return skipped("it does not offer an oracle");
    }
    let tools: Vec<PluginWithOptions<'_>> = fixture.beside(Kind::Tool).collect();
    let mut told = Vec::new();
    for split in &fixture.splits {
        let (mut good, mut judged, mut played) = (0, 0, 0);
        for index in 0..TASKS.min(split.tasks.unwrap_or(TASKS)) {
            let task = TaskRef { split: split.name.clone(), index };
            let seed = fixture.seed("oracle").child(&task);
            let finished = play((&fixture.plugin, &fixture.options), &tools, &task, seed, Player::Oracle).await?;
            played += 1;
            if finished.ending != Ending::Terminated {
                let seen =
                    format!("the oracle's episode of task {task} with seed {} ended as {}", seed.0, finished.ending);
                return Err(stop(seen, "make the oracle's advice end the episode within the environment's limits"));
            }
            if let Some(success) = success(fixture, &finished, &task).await? {
                judged += 1;
                good += u32::from(success);
            }
        }
        if judged > 0 && good == 0 {
            let seen = format!("the oracle succeeded at 0 of {judged} tasks of `{}`", split.name);
            return Err(stop(seen, "make its advice lead to `success`, because it knows the answer"));
        }
        told.push(match judged {
            0 => format!("{}: {played} of {played} ended, success unknown", split.name),
            judged => format!("{}: success at {good} of {judged}", split.name),
        });
    }
    let beside = "; give a reward with --with REWARD.wasm to measure success";
    let unjudged = told.iter().any(|told| told.ends_with("success unknown"));
    passed(format!("{}{}", told.join(", "), if unjudged { beside } else { "" }))
}

/// Whether an episode succeeded: the environment's fact `success`; else whether the rewards given with it score it
/// higher than an empty message; else whether the environment's rewards are positive. `None` if unknown.
async fn success(fixture: &Fixture, finished: &FinishedEpisode, task: &TaskRef) -> Result<Option<bool>, Stop> {
    let is_success = |fact: &&NamedValue| fact.name == "success";
    if let Some(fact) = finished.extras.iter().find(is_success) {
        return Ok(Some(fact.value == Value::Flag(true) || fact.value.as_number().is_some_and(|number| number > 0.0)));
    }
    let rewards: Vec<PluginWithOptions<'_>> = fixture.beside(Kind::Reward).collect();
    if !rewards.is_empty() {
        let random = Player::Random(Box::new(fixture.seed("fool").child(task).stream()));
        let foolish = play((&fixture.plugin, &fixture.options), &[], task, fixture.seed("fool"), random).await?;
        return Ok(Some(total(fixture, &rewards, finished).await? > total(fixture, &rewards, &foolish).await?));
    }
    let range = fixture.plugin.environment_info().await.during("`describe` failed")?.rewards;
    if range.low < range.high {
        let earned: f64 = finished.environment_rewards.iter().flat_map(|seat| &seat.rewards).sum();
        return Ok(Some(earned > range.low * finished.environment_rewards.len() as f64));
    }
    Ok(None)
}

async fn total(fixture: &Fixture, rewards: &[PluginWithOptions<'_>], finished: &FinishedEpisode) -> Result<f64, Stop> {
    let mut sum = 0.0;
    for (reward, options) in rewards {
        let scores = score(reward, &[finished.trajectory()], options, 0, fixture.seed("score")).await;
        let scores = scores.during(format!("the reward `{}` given with it", reward.name()))?;
        sum += scores.iter().flatten().map(|score| score.total).sum::<f64>();
    }
    Ok(sum)
}
