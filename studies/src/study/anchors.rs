//! A long walk with a reward at the end: step-level groups (GiGPO) against whole episodes (GRPO).

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed};
use gymkhana_trainer::{Credit, Trainer};

use super::{Row, Study};
use crate::table::{Table, play, preset, reward, settings, trainer};

pub const STUDY: Study = Study { figure: "success", marks: &[], arms: &["gigpo", "episodes-alone"] };

const STEPS: u64 = 120;
/// Distance of the goal, in moves.
const LENGTH: u32 = 8;
const TURNS: usize = 24;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    walk(&trainer(seed)?, arm, (effort.pick(STEPS, 2), seed), one).await
}

/// Trains on a walk with one of the arms. Reports each step's success rate.
pub async fn walk<'a, Played>(
    trainer: &'a Trainer,
    arm: &str,
    (steps, seed): (u64, Seed),
    one: impl Fn(Table<'a>) -> Played,
) -> Result<Vec<Row>>
where
    Played: Future<Output = Result<EpisodeRecord>>,
{
    let mut flags = preset("gigpo")?;
    match arm {
        "gigpo" => {}
        "episodes-alone" => flags.credit = Credit::Episode {},
        other => bail!("unknown arm `{other}`"),
    }
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..steps {
        let groups = play(trainer, step, seed, &one).await?;
        rows.push(Row { step, figures: vec![("success", reward(&groups))] });
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// At each place one of four moves leads forward, another one leads back, and the others stay.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    let mut at = 0;
    for _ in 0..TURNS {
        let place = char::from(b'A' + at as u8);
        table.show(0, &place.to_string());
        let way = (at * at + at / 2) % 4;
        let moved = table.say(0, 1).await?[0] % 4;
        if moved == way {
            at += 1;
        } else if moved == (way + 1) % 4 {
            at = at.saturating_sub(1);
        }
        if at == LENGTH {
            return Ok(table.end(Ending::Terminated, vec![1.0]));
        }
    }
    Ok(table.end(Ending::Truncated, vec![0.0]))
}
