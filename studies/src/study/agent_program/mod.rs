//! Word problems with a calculator: played by an agent program on the official `openai` client, against the built-in
//! loop with the same settings.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use gymkhana_benches::Effort;
use gymkhana_benches::figures::{load, root};
use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_gateway::AgentHarness;
use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeId, EpisodeRecord, NamedValue, Phase, Seed, Segment, TaskRef, Value};
use gymkhana_rollout::{
    Actor, AgentSettings, BoundPlugin, BoundReward, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop, EpisodePlan,
    Limits, PluginSet, ProvokedReward, RewardSum, Rollout,
};
use gymkhana_sandbox::{Sandbox, SandboxConfig};
use gymkhana_trainer::{Optimizer, Schedule, SftSettings, TinyModel, Trainer, TrainerSettings};

use super::{Row, Study};
use crate::table::{mean, preset, reward, settings};

pub const STUDY: Study = Study { figure: "solved", marks: &[], arms: &["program", "built-in"] };

/// The variable that names a Python with the package `openai`.
const PYTHON: &str = "GYMKHANA_CLIENTS_PYTHON";
/// Steps of demonstrations, and demonstrations of a step.
const DEMONSTRATED: u64 = 700;
const DEMONSTRATIONS: u32 = 48;
/// Steps of reinforcement learning, with fewer episodes than in other studies: each is a process.
const STEPS: u64 = 24;
const GROUPS: u32 = 4;
const MEMBERS: u32 = 8;
/// Held-out tasks, played greedily by the built-in loop after the last step.
const HELD_OUT: u32 = 100;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let program = match arm {
        "program" => Some(std::env::var(PYTHON).ok()),
        "built-in" => None,
        other => bail!("unknown arm `{other}`"),
    };
    let program = match program {
        // A few steps need no package.
        Some(None) if effort == Effort::Smoke => return Ok(vec![]),
        Some(None) => bail!("{PYTHON} names no Python with the package `openai`\nhint: use `cargo xtask study`"),
        Some(python) => python,
        None => None,
    };
    let trainer = warmed(seed, effort).await?;
    let plain = rollout(&trainer).await?;
    let played = match program {
        Some(python) => rollout(&trainer).await?.with_agent(Arc::new(AgentHarness::start(agent(python))?)),
        None => rollout(&trainer).await?,
    };
    let flags = preset("loop")?;
    trainer.begin_stage(flags.stage_models()).await?;
    let settings = settings(flags, 4e-4);
    let (mut rows, steps) = (vec![], effort.pick(STEPS, 2));
    for step in 0..steps {
        let plan = |group, member| plan(Phase::Train, u64::from(group) + step * u64::from(GROUPS), seed, member);
        let groups = play(&played, &trainer, GROUPS, MEMBERS, plan).await?;
        let failed = mean(&groups, |episode| f64::from(u8::from(!episode.failures.is_empty())));
        let calls = mean(&groups, |episode| episode.calls() as f64);
        rows.push(Row { step, figures: vec![("solved", reward(&groups)), ("calls", calls), ("failed", failed)] });
        trainer.rl_step(&groups, &settings).await?;
    }
    let plan = |group, member| plan(Phase::After, u64::from(group), seed, member);
    let held_out = play(&plain, &trainer, effort.pick(HELD_OUT, 2), 1, plan).await?;
    rows.push(Row { step: steps, figures: vec![("held out", reward(&held_out))] });
    Ok(rows)
}

/// The model after the demonstrations, which both arms of a seed share.
async fn warmed(seed: Seed, effort: Effort) -> Result<Trainer> {
    static WARMED: OnceLock<Mutex<HashMap<u64, PathBuf>>> = OnceLock::new();
    let known = || WARMED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let settings = TrainerSettings { threads: 2, seed, ..TrainerSettings::default() };
    if let Some(folder) = known().get(&seed.0) {
        return Ok(Trainer::open(folder, &settings)?);
    }
    let tiny = TinyModel { layers: 3, width: 128, heads: 4, kv_heads: 4, mlp: 384, context: 256 };
    let trainer = Trainer::create(&tiny, &settings)?;
    demonstrate(&trainer, seed, effort.pick(DEMONSTRATED, 2)).await?;
    let folder = root().join("target/studies").join(format!("agent-program-{}-{}", seed.0, std::process::id()));
    trainer.save(&folder, &serde_json::Value::Null).await?;
    drop(trainer);
    let trainer = Trainer::open(&folder, &settings)?;
    known().insert(seed.0, folder);
    Ok(trainer)
}

/// Supervised training on the oracle's episodes, as in the demo, and shorter.
async fn demonstrate(trainer: &Trainer, seed: Seed, steps: u64) -> Result<()> {
    let rollout = rollout(trainer).await?;
    let optimizer = Optimizer {
        learning_rate: 2e-3,
        warmup_steps: 20.min(steps / 2),
        schedule: Schedule::Cosine,
        total_steps: Some(steps),
        beta2: 0.95,
        ..Optimizer::default()
    };
    let settings = SftSettings { optimizer, ..SftSettings::default() };
    for step in 0..steps {
        let base = step * u64::from(DEMONSTRATIONS);
        let plans = (0..DEMONSTRATIONS).map(|group| plan(Phase::Demonstration, base + u64::from(group), seed, 0));
        let played = try_join_all(plans.map(|plan| rollout.run_group(vec![plan], Actor::Oracle))).await?;
        let segments: Vec<Segment> = played.into_iter().flatten().flat_map(|episode| episode.segments).collect();
        trainer.sft_step(&segments, &settings).await?;
    }
    Ok(())
}

/// The plan of an episode.
fn plan(phase: Phase, index: u64, seed: Seed, member: u32) -> EpisodePlan {
    let (split, sampling) =
        if phase == Phase::After { ("test", Sampling::GREEDY) } else { ("train", Sampling::at(1.0)) };
    EpisodePlan {
        id: EpisodeId { stage: 0, phase, step: 0, group: index as u32, member, attempt: 0 },
        task: TaskRef { split: split.to_owned(), index },
        seed: seed.child(split).child(index).child(member),
        sampling,
        place: member,
        turns: None,
        guidance: None,
    }
}

/// Plays groups concurrently.
async fn play(
    rollout: &Rollout,
    trainer: &Trainer,
    groups: u32,
    members: u32,
    plan: impl Fn(u32, u32) -> EpisodePlan,
) -> Result<Vec<Vec<EpisodeRecord>>> {
    let groups = (0..groups).map(|group| {
        let plans = (0..members).map(|member| plan(group, member)).collect();
        rollout.run_group(plans, Actor::Policy(trainer))
    });
    Ok(try_join_all(groups).await?)
}

/// A rollout of the demo's plugins and limits.
async fn rollout(trainer: &Trainer) -> Result<Rollout> {
    let sandbox = Sandbox::new(&SandboxConfig::default())?;
    let option = |name: &str, value| NamedValue { name: name.to_owned(), value: Value::Integer(value) };
    let options = vec![option("difficulty", 1), option("oracle-calls", 35)];
    let environment = BoundPlugin { plugin: load(&sandbox, "word-problems")?, options };
    let tool = BoundPlugin { plugin: load(&sandbox, "calculator")?, options: vec![] };
    let bound = BoundPlugin { plugin: load(&sandbox, "answer-match")?, options: vec![] };
    let plugins = PluginSet::assemble(environment, vec![tool], vec![BoundReward { bound, term: 1.0.into() }]).await?;
    let limits = Limits {
        turns: 3,
        context_tokens: 256,
        calls: 4,
        time: Duration::from_secs(600),
        reply_tokens: 96,
        reasoning_tokens: None,
        episode_bytes: DEFAULT_EPISODE_BYTES,
        live_bytes: DEFAULT_LIVE_BYTES,
        early_stop: EarlyStop::default(),
    };
    let sum = RewardSum {
        environment: 1.0.into(),
        provoked: ProvokedReward::Least,
        success: "answer-match.correct".parse()?,
    };
    Ok(Rollout::new(plugins, chat(trainer)?, limits, sum, None, 0))
}

fn agent(python: String) -> AgentSettings {
    let program = root().join("studies/src/study/agent_program/program.py");
    AgentSettings {
        command: vec![python, program.to_string_lossy().into_owned()],
        env: vec![],
        models: vec!["policy".to_owned()],
        side_models: vec![],
        time: Duration::from_secs(300),
        retry_window: Duration::from_secs(10),
        stop_texts: vec![],
        mcp: true,
        requested_sampling: false,
    }
}

/// The tiny model's chat format.
fn chat(trainer: &Trainer) -> Result<ChatFormat> {
    let text = |wanted: &str| {
        let found = trainer.files().iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| text.to_owned())
    };
    let files = ChatFiles {
        tokenizer: text("tokenizer.json").context("the tiny model has a tokenizer")?,
        config: text("tokenizer_config.json").context("the tiny model has a tokenizer's config")?,
        template: text("chat_template.jinja"),
        ends: vec![],
    };
    Ok(ChatFormat::new(&files)?)
}
