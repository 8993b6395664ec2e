//! Gradient norms with void turns of improbable tokens: their episodes masked (SimpleTIR) or not.

use anyhow::{Result, bail};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed, Segment};
use gymkhana_trainer::{Optimizer, SftSettings};

use super::{Row, Study};
use crate::table::{Table, gradient_norm, play, preset, reward, settings, trainer};

pub const STUDY: Study = Study { figure: "gradient_norm", marks: &[], arms: &["simpletir", "unmasked", "grpo"] };

const STEPS: u64 = 40;
/// Steps in which an eighth of the episodes have a void turn.
const VOID: std::ops::Range<u64> = 15..25;
const DEMONSTRATED: u64 = 60;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let mut flags = preset(if arm == "grpo" { "grpo" } else { "simpletir" })?;
    match arm {
        "simpletir" | "grpo" => {}
        "unmasked" => flags.masks.clear(),
        other => bail!("unknown arm `{other}`"),
    }
    let trainer = trainer(seed)?;
    let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
    for step in 0..effort.pick(DEMONSTRATED, 1) {
        let batch: Vec<Segment> = (0..32).map(|index| demonstration((step * 32 + index) % 10)).collect();
        trainer.sft_step(&batch, &SftSettings { optimizer: optimizer.clone(), ..SftSettings::default() }).await?;
    }
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-4);
    let mut rows = vec![];
    // A smoke run covers one step with void turns.
    let steps = effort.pick(0..STEPS, VOID.start - 1..VOID.start + 1);
    for step in steps {
        let groups = play(&trainer, step, seed, one).await?;
        let metrics = trainer.rl_step(&groups, &settings).await?;
        let figures = vec![("gradient_norm", gradient_norm(&metrics)), ("reward", reward(&groups))];
        rows.push(Row { step, figures });
    }
    Ok(rows)
}

/// The policy calls, receives a digit and repeats it.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    let digit = (table.step + u64::from(table.group)) % 10;
    table.may_call();
    table.show(0, "task? ");
    let called = if VOID.contains(&table.step) && table.member == 0 {
        let mut noise = table.chance("noise").stream();
        let tokens: Vec<u32> = (0..4).map(|_| 128 + noise.below(128) as u32).collect();
        table.force(0, &tokens).await?;
        false
    } else {
        table.say(0, 4).await?[0] == u32::from(b'c')
    };
    if called {
        table.called();
    }
    table.show(0, &if called { format!("={digit};") } else { "=?;".to_owned() });
    let right = table.say(0, 2).await?[0] == u32::from(b'0') + digit as u32;
    Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right && called))]))
}

fn demonstration(digit: u64) -> Segment {
    let mut segment = Segment::default();
    for (turn, (given, said)) in
        [("task? ".to_owned(), "call".to_owned()), (format!("={digit};"), format!("{digit}."))].into_iter().enumerate()
    {
        let bytes = |text: String| text.bytes().map(u32::from).collect::<Vec<_>>();
        segment.append_given(&bytes(given), turn as u32);
        segment.append_sampled(&gymkhana_policy::certain(bytes(said)), turn as u32).expect("columns of one length");
    }
    segment
}
