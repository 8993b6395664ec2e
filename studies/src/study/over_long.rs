//! Training with at most 6 turns and testing with at most 30: over-long episodes masked or punished (Mini-o3).

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed};

use super::{Row, Study};
use crate::table::{Table, mean, play, preset, reward, settings, trainer};

pub const STUDY: Study = Study {
    figure: "test_turns",
    marks: &[6.0],
    arms: &["rare-masked", "rare-punished", "frequent-masked", "frequent-punished"],
};

const STEPS: u64 = 300;
const EVERY: u64 = 10;
const TRAINED: usize = 6;
const TESTED: usize = 30;

/// Probabilities of the environment, which decide whether more turns pay.
#[derive(Debug, Clone, Copy)]
struct Odds {
    /// Probability that a look finds something.
    found: f64,
    /// Probability that a guess is right.
    guessed: f64,
}

/// Six looks find nothing more often than something, and a guess is worth more than they are.
const RARE: Odds = Odds { found: 0.08, guessed: 0.5 };
/// Six looks find something more often than not: looking pays even if the limit is punished.
const FREQUENT: Odds = Odds { found: 0.15, guessed: 0.25 };

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let mut flags = preset("mini-o3")?;
    let (world, masked) = match arm {
        "rare-masked" => (RARE, true),
        "rare-punished" => (RARE, false),
        "frequent-masked" => (FREQUENT, true),
        "frequent-punished" => (FREQUENT, false),
        other => bail!("unknown arm `{other}`"),
    };
    if !masked {
        flags.masks.clear();
    }
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..=effort.pick(STEPS, 1) {
        if step.is_multiple_of(EVERY) {
            let tested = play(&trainer, step, seed.child("test"), |table| one(table, world, TESTED)).await?;
            let turns = mean(&tested, |episode| episode.policy_turns.len() as f64);
            rows.push(Row { step, figures: vec![("test_turns", turns), ("test_success", reward(&tested))] });
        }
        let groups = play(&trainer, step, seed, |table| one(table, world, TRAINED)).await?;
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// A turn is one token: an even one looks, an odd one answers, which is right after a find and otherwise a guess.
async fn one(mut table: Table<'_>, world: Odds, most: usize) -> Result<EpisodeRecord> {
    let mut chance = table.chance("world").stream();
    let mut found = false;
    table.show(0, "n");
    for _ in 0..most {
        if table.say(0, 1).await?[0] % 2 == 1 {
            let right = found || chance.unit() < world.guessed;
            return Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right))]));
        }
        found = found || chance.unit() < world.found;
        table.show(0, if found { "y" } else { "n" });
    }
    Ok(table.end(Ending::TurnLimit, vec![0.0]))
}
