//! Calls that do not help: a reward for correctness alone, or one multiplied by how few calls it took (OTC).

use std::f64::consts::PI;

use anyhow::{Result, bail};
use gymkhana_record::{Ending, EpisodeRecord, Seed};

use crate::table::{Table, mean, play, preset, settings, trainer};
use crate::{Row, Study};

pub const STUDY: Study = Study { figure: "calls", marks: &[NEEDED], arms: &["few-calls", "correct-alone"] };

const STEPS: u64 = 360;
/// Steps in which correctness counts alone: the method is made for a policy that knows what its tool is for.
const WARM: u64 = 100;
/// So that answering without a call is still tried when calling has become a habit.
const ENTROPY_BONUS: f64 = 0.02;
/// The most calls of an episode.
const CALLS: u32 = 3;
/// The fewest calls with which everything is solved: one for every second task.
const NEEDED: f64 = 0.5;

pub async fn run(arm: &str, seed: Seed) -> Result<Vec<Row>> {
    let efficient = match arm {
        "few-calls" => true,
        "correct-alone" => false,
        other => bail!("there is no arm `{other}`"),
    };
    let mut flags = preset("otc")?;
    flags.kl = None;
    flags.entropy_bonus = ENTROPY_BONUS;
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.keeps()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..STEPS {
        let mut groups = play(&trainer, step, seed, one).await?;
        if efficient && step >= WARM {
            groups.iter_mut().for_each(|group| prefer_few_calls(group));
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

/// OTC-GRPO: a correct episode with `m` calls, where the fewest of the group's correct ones are `n`, is worth 1 if both
/// are 0, `cos(mπ / (2m + c))` if `n` is 0, and else `sin(fπ / 2n)` with `f = 2mn / (m + n)`; `c` is the most calls.
fn prefer_few_calls(group: &mut [EpisodeRecord]) {
    let fewest = group.iter().filter(|episode| episode.success).map(calls).fold(f64::INFINITY, f64::min);
    for episode in group.iter_mut().filter(|episode| episode.success) {
        let made = calls(episode);
        episode.rewards[0] *= match (made, fewest) {
            (0.0, _) => 1.0,
            (_, 0.0) => (made * PI / (2.0 * made + f64::from(CALLS))).cos(),
            _ => (2.0 * made * fewest / (made + fewest) * PI / (2.0 * fewest)).sin(),
        };
    }
}

/// Half of the letters are known, the other half are shown by a call. Of the two tokens of a turn the
/// first decides whether to call, which who has learnt nothing does too often, and the second one is the answer.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    let mut task = table.chance_of_group("task").stream();
    let (letter, hidden) = (task.below(4), task.below(2) == 1);
    let shown = char::from(b'A' + letter as u8).to_string();
    table.show(0, if hidden { "?" } else { &shown });
    for calls in 0..=CALLS {
        let said = table.say(0, 2).await?;
        if said[0] % 4 == 0 || calls == CALLS {
            let right = u64::from(said[1]) % 4 == letter;
            return Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right))]));
        }
        table.show(0, &shown);
    }
    unreachable!("the last turn ends the episode")
}
