//! Mixed groups at equal environment steps: branching after tool answers (ARPO) against episodes from the start.
//!
//! Real plugins run in the host; the policy is trained on demonstrations only.

use anyhow::{Result, bail};
use futures::future::try_join_all;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{load, rollouts::chat};
use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeId, EpisodeRecord, NamedValue, Phase, Seed, Segment, TaskRef, Value};
use gymkhana_rollout::{
    Actor, BoundPlugin, BoundReward, Branch, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop, GroupPlan, Limits,
    PluginSet, ProvokedReward, RewardSum, Rollout, SamplingPlan,
};
use gymkhana_sandbox::{Sandbox, SandboxConfig};
use gymkhana_trainer::{Optimizer, SftSettings, TinyModel, Trainer, TrainerSettings};

use super::{Row, Study};

pub const STUDY: Study = Study { figure: "mixed", marks: &[], arms: &["branch", "from-the-start"] };

/// Steps of demonstrations, after which about half of the tasks are sometimes solved.
const DEMONSTRATIONS: u64 = 400;
const BATCH: u64 = 32;
/// Total number of policy turns.
const ENVIRONMENT_STEPS: u64 = 6000;
/// Concurrent groups, and episodes per group.
const GROUPS: u64 = 8;
const SIZE: u32 = 8;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let plan = match arm {
        "branch" => SamplingPlan::Branch(Branch::default()),
        "from-the-start" => SamplingPlan::Groups {},
        other => bail!("unknown arm `{other}`"),
    };
    let rollout = word_problems().await?;
    let tiny = TinyModel { layers: 3, width: 128, heads: 4, kv_heads: 4, mlp: 384, context: 256 };
    let trainer =
        Trainer::create(&tiny, &TrainerSettings { max_concurrent_sequences: 64, seed, ..TrainerSettings::default() })?;
    imitate(&rollout, &trainer, seed, effort.pick(DEMONSTRATIONS, 1)).await?;
    let (mut rows, mut steps, mut mixed, mut played) = (vec![], 0, 0, 0);
    while steps < effort.pick(ENVIRONMENT_STEPS, 1) {
        let groups = (0..GROUPS).map(|group| group_plan(Phase::Train, (played, group), SIZE, seed));
        let groups: Vec<GroupPlan> = groups.collect();
        let policy = Actor::Policy(&trainer);
        let groups = try_join_all(groups.iter().map(|group| rollout.run_plan(group, &plan, policy))).await?;
        played += 1;
        for group in &groups {
            steps += group.iter().map(own_steps).sum::<u64>();
            mixed += u64::from(group.iter().any(|episode| episode.success) && !group.iter().all(|it| it.success));
        }
        let solved = groups.iter().flatten().filter(|episode| episode.success).count() as f64;
        let figures = vec![
            ("mixed", mixed as f64),
            ("groups", (played * GROUPS) as f64),
            ("success", solved / (GROUPS * u64::from(SIZE)) as f64),
        ];
        rows.push(Row { step: steps, figures });
    }
    Ok(rows)
}

/// Number of turns of this episode; a branch counts from where it left its parent.
fn own_steps(episode: &EpisodeRecord) -> u64 {
    let before = episode.forks.last().map_or(0, |fork| u64::from(fork.turns.iter().sum::<u32>()));
    (episode.policy_turns.len() as u64).saturating_sub(before)
}

fn group_plan(phase: Phase, (step, group): (u64, u64), size: u32, seed: Seed) -> GroupPlan {
    GroupPlan {
        id: EpisodeId { stage: 0, phase, step, group: group as u32, member: 0, attempt: 0 },
        task: TaskRef { split: "train".to_owned(), index: 100_000 + step * BATCH + group },
        seeds: seed.child("episodes"),
        sampling: Sampling::at(1.0),
        place: group as u32 * SIZE,
        size,
        turns: None,
    }
}

/// Stories whose expert calls the calculator in half of the tasks.
async fn word_problems() -> Result<Rollout> {
    let sandbox = Sandbox::new(&SandboxConfig::default())?;
    let option = |name: &str, value: i64| NamedValue { name: name.to_owned(), value: Value::Integer(value) };
    let environment = BoundPlugin {
        plugin: load(&sandbox, "word-problems")?,
        options: vec![option("difficulty", 1), option("oracle-calls", 50)],
    };
    let bound = |plugin| BoundPlugin { plugin, options: vec![] };
    let calculator = bound(load(&sandbox, "calculator")?);
    let right = BoundReward { bound: bound(load(&sandbox, "answer-match")?), term: 1.0.into() };
    let set = PluginSet::assemble(environment, vec![calculator], vec![right]).await?;
    let success = "answer-match.correct".parse()?;
    let reward_sum = RewardSum { environment: 1.0.into(), provoked: ProvokedReward::Least, success };
    let limits = Limits {
        turns: 3,
        context_tokens: 256,
        calls: 4,
        time: std::time::Duration::from_secs(3600),
        reply_tokens: 96,
        reasoning_tokens: None,
        episode_bytes: DEFAULT_EPISODE_BYTES,
        live_bytes: DEFAULT_LIVE_BYTES,
        early_stop: EarlyStop::default(),
    };
    Ok(Rollout::new(set, chat()?, limits, reward_sum, None, 0))
}

async fn imitate(rollout: &Rollout, trainer: &Trainer, seed: Seed, steps: u64) -> Result<()> {
    let settings =
        SftSettings { optimizer: Optimizer { learning_rate: 2e-3, ..Optimizer::default() }, ..SftSettings::default() };
    for step in 0..steps {
        let plans = (0..BATCH).map(|place| group_plan(Phase::Demonstration, (step, place), 1, seed).member(0));
        let groups = try_join_all(plans.map(|plan| rollout.run_group(vec![plan], Actor::Oracle))).await?;
        let solved = groups.into_iter().flatten().filter(|record| record.success);
        let segments: Vec<Segment> = solved.flat_map(|record| record.segments).collect();
        trainer.sft_step(&segments, &settings).await?;
    }
    Ok(())
}
