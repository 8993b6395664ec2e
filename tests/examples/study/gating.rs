//! Points for polish that pay more than the task: summed with its outcome, or counted behind a gate (G-RA).

use anyhow::{Result, bail};
use gymkhana_record::{Ending, EpisodeRecord, Seed};

use crate::table::{Table, mean, play, preset, settings, trainer};
use crate::{Row, Study};

pub const STUDY: Study = Study { figure: "outcome", marks: &[], arms: &["gated", "summed"] };

const STEPS: u64 = 200;
/// Turns of an episode. Each may polish; an answer ends it.
const TURNS: usize = 8;
/// What polish is worth: with all turns twice what the right answer is.
const POLISH: f64 = 0.25;
/// The answers.
const LETTERS: u64 = 4;

pub async fn run(arm: &str, seed: Seed) -> Result<Vec<Row>> {
    let gated = match arm {
        "gated" => true,
        "summed" => false,
        other => bail!("there is no arm `{other}`"),
    };
    let flags = preset("g-ra")?;
    let trainer = trainer(seed)?;
    trainer.begin_stage(flags.keeps()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..STEPS {
        let groups = play(&trainer, step, seed, |table| one(table, gated)).await?;
        let outcome = mean(&groups, |episode| f64::from(u8::from(episode.success)));
        let polished = mean(&groups, |episode| episode.policy_turns.len() as f64);
        rows.push(Row { step, figures: vec![("outcome", outcome), ("turns", polished)] });
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// A letter is shown. A token below 128 answers it with its last bits and ends the episode, another one polishes.
async fn one(mut table: Table<'_>, gated: bool) -> Result<EpisodeRecord> {
    let letter = table.chance_of_group("letter").stream().below(LETTERS);
    let (mut polish, mut outcome, mut ending) = (0.0, 0.0, Ending::TurnLimit);
    table.show(0, &char::from(b'A' + letter as u8).to_string());
    for _ in 0..TURNS {
        let token = table.say(0, 1).await?[0];
        if token < 128 {
            outcome = f64::from(u8::from(u64::from(token) % LETTERS == letter));
            ending = Ending::Terminated;
            break;
        }
        polish += POLISH;
        table.show(0, "+");
    }
    let counts = !gated || outcome >= 0.5;
    let mut record = table.end(ending, vec![outcome + if counts { polish } else { 0.0 }]);
    record.success = outcome > 0.0;
    Ok(record)
}
