//! Tasks of very different difficulty: the host's samplers against uniform sampling at equal numbers of episodes.

use anyhow::{Context, Result};
use gymkhana_benches::Effort;
use gymkhana_config::SamplerSection;
use gymkhana_orchestration::sampler::{TaskSampler, memory::Attempts};
use gymkhana_record::{Ending, EpisodeRecord, Seed};
use gymkhana_trainer::Trainer;

use super::{Row, Study};
use crate::table::{GROUPS, MEMBERS, Table, play_sizes, preset, reward, settings, trainer_of};

pub const STUDY: Study = Study {
    figure: "success",
    marks: &[],
    arms: &["difficulty", "adaptive", "mixed-outcome", "progress", "failure", "staged", "shuffled"],
};

const STEPS: u64 = 640;
/// Steps between measurements of all tasks.
const EVERY: u64 = 32;
/// Samples of each task in a measurement.
const SAMPLES: u32 = 4;
/// Number of tasks.
const TASKS: u64 = 40;
/// Longest answer, in tokens. A random policy gives one of `n` tokens with probability `4^-n`.
const LONGEST: u64 = 5;
/// Largest number of attempts at a task, relative to `MEMBERS`.
const MOST: u32 = 2;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    // A measurement plays all tasks at once.
    let trainer = trainer_of((GROUPS * MOST).max((TASKS as u32 * SAMPLES).div_ceil(MEMBERS)), seed)?;
    let mut sampler = TaskSampler::without_plugins(&section(arm)?, TASKS, seed.child("sampler"))?;
    let flags = preset("loop")?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 3e-3);
    let (mut rows, mut episodes) = (vec![], 0);
    for step in 0..effort.pick(STEPS, 2) {
        if step % EVERY == 0 {
            rows.push(measure(&trainer, step, seed, episodes).await?);
        }
        let tasks = sampler.draw(step, step * u64::from(GROUPS), &[GROUPS], MEMBERS);
        let sizes: Vec<u32> = tasks.iter().map(|task| task.attempts.unwrap_or(MEMBERS)).collect();
        let of = |group: u32| tasks.get(group as usize).map_or(0, |task| task.task.index);
        let groups = play_sizes(&sizes, &trainer, step, seed, |table| answer(of(table.group), table)).await?;
        let mut attempts = Vec::new();
        for (task, group) in tasks.iter().zip(&groups) {
            let solved = Attempts::of(group).context("a group without an episode")?;
            attempts.push(Attempts { index: task.task.index, ..solved });
        }
        sampler.observe(step, &attempts);
        episodes += groups.iter().map(Vec::len).sum::<usize>();
        trainer.rl_step(&groups, &settings).await?;
    }
    Ok(rows)
}

/// The sampler of an arm, in the words of a run file.
fn section(arm: &str) -> Result<SamplerSection> {
    let text = match arm {
        "difficulty" => r#"kind = "difficulty", attempts = 8, max = 0.9, readmit = 20"#.to_owned(),
        "adaptive" => r#"kind = "adaptive", attempts = 8, turns = 0"#.to_owned(),
        "mixed-outcome" => format!(r#"kind = "mixed-outcome", candidates = 3, most = {MOST}"#),
        "progress" => r#"kind = "prioritized", by = "progress""#.to_owned(),
        "failure" => r#"kind = "prioritized", by = "failure""#.to_owned(),
        // Tasks with short answers come first; see `length`.
        "staged" => {
            let phase = |longest: u64| format!("{{ tasks = {}, success = 0.8 }}", longest * TASKS / LONGEST);
            let phases: Vec<String> = (1..LONGEST).map(phase).collect();
            format!(r#"kind = "staged", phases = [{}, {{}}]"#, phases.join(", "))
        }
        "shuffled" => r#"kind = "shuffled""#.to_owned(),
        other => anyhow::bail!("unknown arm `{other}`"),
    };
    let table: toml::Table = toml::from_str(&format!("sampler = {{ {text} }}"))?;
    let section = table.get("sampler").cloned().context("a section")?.try_into()?;
    Ok(section)
}

/// Success over all samples of all tasks after so many episodes of training.
async fn measure(trainer: &Trainer, step: u64, seed: Seed, episodes: usize) -> Result<Row> {
    let seed = seed.child("measured");
    let groups =
        play_sizes(&vec![SAMPLES; TASKS as usize], trainer, step, seed, |table| answer(u64::from(table.group), table))
            .await?;
    Ok(Row { step, figures: vec![("success", reward(&groups)), ("episodes", episodes as f64)] })
}

/// Length of a task's answer, in tokens: the first tasks have the shortest ones.
fn length(task: u64) -> u64 {
    1 + task * LONGEST / TASKS
}

/// The task is shown as two letters. Token `i` of its answer is the remainder modulo four of the sum of both and `i`.
async fn answer(task: u64, mut table: Table<'_>) -> Result<EpisodeRecord> {
    let (first, second) = (task % 8, length(task));
    let letter = |number: u64| char::from(b'A' + number as u8);
    table.show(0, &format!("{}{}", letter(first), letter(8 + second)));
    let given = table.say(0, length(task) as usize).await?;
    let right = given.iter().zip(0_u64..).all(|(token, place)| u64::from(token % 4) == (first + second + place) % 4);
    Ok(table.end(Ending::Terminated, vec![f64::from(u8::from(right))]))
}
