//! Recall of a letter from the start of an episode: the policy's own summary (SUPO) against a window.

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed, Segment};
use gymkhana_trainer::{Optimizer, SftSettings};

use super::{Row, Study};
use crate::table::{Table, play, preset, reward, settings, trainer};

pub const STUDY: Study = Study { figure: "recalled", marks: &[CHANCE], arms: &["summary", "window"] };

const STEPS: u64 = 400;
/// Steps of demonstrations, after which a policy that sees a letter answers with it.
const DEMONSTRATED: u64 = 150;
/// Number of letters.
const LETTERS: u64 = 2;
/// Success rate of guessing.
const CHANCE: f64 = 0.5;
/// Number of texts between the letter and the question, which exceed the window together with the letter.
const TEXTS: u64 = 1;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let summarises = match arm {
        "summary" => true,
        "window" => false,
        other => bail!("unknown arm `{other}`"),
    };
    let flags = preset("supo")?;
    let trainer = trainer(seed)?;
    let optimizer = Optimizer { learning_rate: 3e-3, ..Optimizer::default() };
    let demonstrated = SftSettings { optimizer, ..SftSettings::default() };
    for step in 0..effort.pick(DEMONSTRATED, 1) {
        let seed = seed.child("demonstrations").child(step);
        let batch: Vec<Segment> = (0..32).map(|index| demonstration(seed.child(index))).collect();
        trainer.sft_step(&batch, &demonstrated).await?;
    }
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let mut rows = vec![];
    for step in 0..effort.pick(STEPS, 2) {
        let groups = play(&trainer, step, seed, |table| one(table, summarises)).await?;
        rows.push(Row { step, figures: vec![("recalled", reward(&groups))] });
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// A letter, then texts, then the question. Before each text the context is full and is replaced by a summary token
/// that the policy writes, or by the last text alone.
async fn one(mut table: Table<'_>, summarises: bool) -> Result<EpisodeRecord> {
    let letter = table.chance_of_group("letter").stream().below(LETTERS);
    table.show(0, &shown(letter));
    for text in 0..TEXTS {
        let text = noise(table.chance("text").child(text));
        if summarises {
            table.show(0, "summary:");
            let summary = table.say(0, 1).await?;
            table.forget(0);
            table.see(0, &summary);
        } else {
            table.forget(0);
        }
        table.show(0, &text);
    }
    table.show(0, "which?");
    let right = char::from_u32(table.say(0, 1).await?[0]).is_some_and(|said| said.to_string() == shown(letter));
    Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right))]))
}

fn shown(letter: u64) -> String {
    char::from(b'A' + letter as u8).to_string()
}

fn noise(seed: Seed) -> String {
    let mut stream = seed.stream();
    (0..8).map(|_| char::from(b'a' + stream.below(26) as u8)).collect()
}

/// A letter and a text, then the question and the letter.
fn demonstration(seed: Seed) -> Segment {
    let letter = shown(seed.child("letter").stream().below(LETTERS));
    let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let mut segment = Segment::default();
    segment.append_given(&bytes(&format!("{letter}{}which?", noise(seed.child("text")))), 0);
    segment.append_sampled(&gymkhana_policy::certain(bytes(&letter)), 0).expect("columns of one length");
    segment
}
