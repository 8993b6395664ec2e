//! Superfluous calls: a reward for correctness only, or the scores of the plugin `tool-efficiency` (OTC).

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_benches::figures::load;
use gymkhana_record::{Ending, EpisodeRecord, NamedValue, SeatRewards, Seed, Value};
use gymkhana_sandbox::{Plugin, Sandbox, SandboxConfig, Trajectory, score};

use super::{Row, Study};
use crate::table::{Table, mean, play, preset, settings, trainer};

pub const STUDY: Study = Study { figure: "calls", marks: &[NEEDED], arms: &["few-calls", "correct-alone"] };

const STEPS: u64 = 360;
/// Steps that reward only correctness: the method assumes a policy that knows the use of its tool.
const WARM: u64 = 100;
/// Entropy bonus that keeps the policy trying answers without a call after calling has become frequent.
const ENTROPY_BONUS: f64 = 0.02;
/// Maximum number of calls per episode.
const CALLS: u32 = 3;
/// Least number of calls per episode that solves everything: one for every second task.
const NEEDED: f64 = 0.5;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let efficient = match arm {
        "few-calls" => true,
        "correct-alone" => false,
        other => bail!("unknown arm `{other}`"),
    };
    let sandbox = Sandbox::new(&SandboxConfig::default())?;
    let plugin = load(&sandbox, "tool-efficiency")?;
    let mut flags = preset("otc")?;
    flags.kl = None;
    flags.entropy_bonus = ENTROPY_BONUS;
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let (mut rows, warm) = (vec![], effort.pick(WARM, 1));
    for step in 0..effort.pick(STEPS, 2) {
        let mut groups = play(&trainer, step, seed, one).await?;
        if efficient && step >= warm {
            for group in &mut groups {
                prefer_few_calls(&plugin, group, step).await?;
            }
        }
        let correct = mean(&groups, |episode| f64::from(u8::from(episode.success)));
        rows.push(Row { step, figures: vec![("calls", mean(&groups, calls)), ("correct", correct)] });
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

fn calls(episode: &EpisodeRecord) -> f64 {
    (episode.policy_turns.len() - 1) as f64
}

/// Replaces the rewards of a group with the scores of the plugin `tool-efficiency` (OTC-GRPO).
async fn prefer_few_calls(plugin: &Plugin, group: &mut [EpisodeRecord], step: u64) -> Result<()> {
    let option = |name: &str, value| NamedValue { name: name.to_owned(), value };
    let options = [
        option("method", Value::Text("grpo".to_owned())),
        option("smoothness", Value::Number(f64::from(CALLS))),
        option("correct-by", Value::Text("reward".to_owned())),
    ];
    for episode in group.iter_mut() {
        episode.environment_rewards = vec![SeatRewards { seat: 0, rewards: episode.rewards.clone() }];
    }
    let trajectories: Vec<Trajectory<'_>> = group.iter().map(Trajectory::of).collect();
    let scores = score(plugin, &trajectories, &options, step, Seed(step)).await?;
    for (episode, scores) in group.iter_mut().zip(scores) {
        episode.rewards = scores.iter().map(|score| score.total).collect();
    }
    Ok(())
}

/// Half of the letters are shown at the start, the other half are returned by a call. The first of a turn's two tokens
/// decides whether to call, which an untrained policy does too often; the second one is the answer.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    let mut task = table.chance_of_group("task").stream();
    let (letter, hidden) = (task.below(4), task.below(2) == 1);
    let shown = char::from(b'A' + letter as u8).to_string();
    table.show(0, if hidden { "?" } else { &shown });
    for calls in 0..=CALLS {
        let said = table.say(0, 2).await?;
        if said[0] % 4 == 0 || calls == CALLS {
            let right = u64::from(said[1]) % 4 == letter;
            table.answered(&char::from(b'A' + (said[1] % 4) as u8).to_string());
            return Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right))]));
        }
        table.called();
        table.show(0, &shown);
    }
    unreachable!("the last turn ends the episode")
}
