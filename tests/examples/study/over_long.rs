//! Trained with at most 6 turns, played with at most 30: episodes over the limit punished, or not learnt from (Mini-o3).

use anyhow::{Result, bail};
use gymkhana_episode::{Ending, EpisodeRecord, Seed};

use crate::table::{Table, mean, play, preset, reward, settings, trainer};
use crate::{Row, Study};

pub const STUDY: Study = Study { figure: "test_turns", marks: &[6.0], arms: &["masked", "punished"] };

const STEPS: u64 = 300;
const EVERY: u64 = 10;
const TRAINED: usize = 6;
const TESTED: usize = 30;
/// A look finds something with this probability, and a guess is right with that one.
const FOUND: f64 = 0.15;
const GUESSED: f64 = 0.25;

pub async fn run(arm: &str, seed: Seed) -> Result<Vec<Row>> {
    let mut flags = preset("mini-o3")?;
    match arm {
        "masked" => {}
        "punished" => flags.masks.clear(),
        other => bail!("there is no arm `{other}`"),
    }
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.keeps()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..=STEPS {
        if step.is_multiple_of(EVERY) {
            let tested = play(&trainer, step, seed.child("test"), |table| one(table, TESTED)).await?;
            let turns = mean(&tested, |episode| episode.policy_turns.len() as f64);
            rows.push(Row { step, figures: vec![("test_turns", turns), ("test_success", reward(&tested))] });
        }
        let groups = play(&trainer, step, seed, |table| one(table, TRAINED)).await?;
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// A turn is a token: an even one looks, an odd one answers, which is right if something was found and else a guess.
async fn one(mut table: Table<'_>, most: usize) -> Result<EpisodeRecord> {
    let mut chance = table.chance("world").stream();
    let mut found = false;
    table.show(0, "n");
    for _ in 0..most {
        if table.say(0, 1).await?[0] % 2 == 1 {
            let right = found || chance.unit() < GUESSED;
            return Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right))]));
        }
        found = found || chance.unit() < FOUND;
        table.show(0, if found { "y" } else { "n" });
    }
    Ok(table.end(Ending::TurnLimit, vec![0.0]))
}
