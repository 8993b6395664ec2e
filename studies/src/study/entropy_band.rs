//! A band around the entropy's history against the constant penalty of the released code (EPO).

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed};
use gymkhana_trainer::{BandMode, BandUnit, EntropyBand};

use super::{Row, Study};
use crate::table::{Table, entropy, play, preset, reward, settings, trainer};

pub const STUDY: Study = Study {
    figure: "entropy_over_history",
    marks: &[0.8, 1.2],
    arms: &["hinge-strong", "hinge", "literal-strong", "no-band"],
};

const STEPS: u64 = 150;
/// The preset's weight is 0.1, which has little effect next to the bonus of 0.001; the strong arms weigh the band like
/// the reward.
const STRONG: f64 = 1000.0;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let mut flags = preset("epo")?;
    let band =
        EntropyBand { low: 0.8, high: 1.2, weight: STRONG, mode: BandMode::Hinge, unit: BandUnit::Batch, from_turn: 0 };
    match arm {
        "hinge" => {}
        "hinge-strong" => flags.entropy_band = Some(band),
        "literal-strong" => flags.entropy_band = Some(EntropyBand { mode: BandMode::Literal, ..band }),
        "no-band" => flags.entropy_band = None,
        other => bail!("unknown arm `{other}`"),
    }
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let (mut rows, mut sum) = (vec![], 0.0);
    for step in 0..effort.pick(STEPS, 2) {
        let groups = play(&trainer, step, seed, one).await?;
        let found = entropy(&groups);
        let history = if step == 0 { found } else { sum / step as f64 };
        sum += found;
        trainer.rl_step(&groups, &settings).await?;
        let figures = vec![("entropy_over_history", found / history), ("entropy", found), ("reward", reward(&groups))];
        rows.push(Row { step, figures });
    }
    Ok(rows)
}

/// Four tokens; the reward is the share of them in a set of sixteen, so that the entropy can fall a lot.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    table.show(0, "say: ");
    let said = table.say(0, 4).await?;
    let good = said.iter().filter(|token| **token % 16 == 3).count();
    Ok(table.end(Ending::Terminated, vec![good as f64 / 4.0]))
}
