//! Training on episodes that are four steps old: truncated importance sampling, clipped ratios and plain ratios.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed};
use gymkhana_trainer::{AboveCap, Algorithm, CapLevel, OffPolicy, Surrogate};

use super::{Row, Study};
use crate::table::{Table, gradient_norm, play, reported, reward, settings, trainer};

pub const STUDY: Study =
    Study { figure: "reward", marks: &[], arms: &["truncated", "clipped", "plain", "fresh-plain"] };

const STEPS: u64 = 150;
const STALENESS: usize = 4;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let mut flags = Algorithm { surrogate: Surrogate::Importance {}, ..Algorithm::default() };
    // The clipped ratio of PPO, with its usual bounds of 0.2.
    let clipped = Algorithm::default().surrogate;
    let staleness = match arm {
        "truncated" => {
            flags.off_policy = Some(OffPolicy {
                cap: 2.0,
                mode: AboveCap::Truncate,
                level: CapLevel::Token,
                veto: None,
                stale_steps: None,
            });
            STALENESS
        }
        "clipped" => {
            flags.surrogate = clipped;
            STALENESS
        }
        "plain" => STALENESS,
        "fresh-plain" => 0,
        other => bail!("unknown arm `{other}`"),
    };
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 1e-2);
    let (mut rows, mut waiting) = (vec![], VecDeque::new());
    for step in 0..effort.pick(STEPS, STALENESS as u64 + 2) {
        let groups = play(&trainer, step, seed, one).await?;
        let mut figures = vec![("reward", reward(&groups))];
        waiting.push_back(groups);
        if waiting.len() > staleness
            && let Some(old) = waiting.pop_front()
        {
            let metrics = trainer.rl_step(&old, &settings).await?;
            figures.push(("gradient_norm", gradient_norm(&metrics)));
            figures.push(("behaviour_divergence", reported(&metrics, "behaviour_divergence")?));
        }
        rows.push(Row { step, figures });
    }
    Ok(rows)
}

/// Eight tokens; the reward is the share of them that equal the letter's number modulo four.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    let wanted = (table.step as u32 + table.group) % 4;
    table.show(0, ["a: ", "b: ", "c: ", "d: "][wanted as usize]);
    let said = table.say(0, 8).await?;
    let good = said.iter().filter(|token| **token % 4 == wanted).count();
    Ok(table.end(Ending::Terminated, vec![good as f64 / 8.0]))
}
