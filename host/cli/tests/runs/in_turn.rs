//! `max_staleness = 0` under `deterministic = true` is the plain loop: play a step, train on it, then play the next.
//! The loop is written out here over the libraries.

use std::fs;
use std::time::Duration;

use crate::common::{Desk, WORD_PROBLEMS};
use futures::future::join_all;
use gymkhana_chat::{ChatFiles, ChatFormat};
use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeId, EpisodeRecord, NamedValue, Phase, Seed, Value};
use gymkhana_rollout::{
    Actor, BoundPlugin, BoundReward, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop, GroupPlan, Limits,
    PluginSet, ProvokedReward, ReplayDifference, RewardSum, Rollout, SamplingPlan,
};
use gymkhana_sandbox::{Grants, Plugin, Sandbox, SandboxConfig};
use gymkhana_tests::component;
use gymkhana_trainer::{Preset, RlSettings, StageModels, TinyModel, Trainer, TrainerSettings};

const STEPS: u64 = 4;
const GROUPS: u32 = 3;
const SIZE: u32 = 4;
const SLOTS: usize = 8;
const SEED: Seed = Seed(3);

fn desk() -> Desk {
    Desk::with_run_file(&format!(
        r#"
seed = {}
deterministic = true
success = "answer-match.correct"
limits = {{ turns = 2, reply_tokens = 24 }}
evaluation = {{ tasks = 0 }}
plugins.answer-match.options = {{ per-call-cost = 0.5 }}

[policy]
max_concurrent_sequences = {SLOTS}
tiny = {{ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 320 }}

[[stages]]
kind = "rl"
max_staleness = 0
steps = {STEPS}
groups = {GROUPS}
group_size = {SIZE}
"#,
        SEED.0
    ))
}

/// Plugins and rules of the run file above.
async fn rollout(desk: &Desk) -> Rollout {
    let sandbox = Sandbox::new(&SandboxConfig::default()).expect("a sandbox");
    let bound = |name: &str, options: Vec<NamedValue>| {
        let plugin = Plugin::load(&sandbox, &component(name), &Grants::default()).expect("a sound plugin");
        BoundPlugin { plugin, options }
    };
    let cost = NamedValue { name: "per-call-cost".to_owned(), value: Value::Number(0.5) };
    let reward = BoundReward { bound: bound("answer-match", vec![cost]), term: 1.0.into() };
    let tools = vec![bound("calculator", vec![])];
    let set = PluginSet::assemble(bound("word-problems", vec![]), tools, vec![reward]).await.expect("a set");
    let success = "answer-match.correct".parse().expect("a rule");
    let reward_sum = RewardSum { environment: 1.0.into(), provoked: ProvokedReward::Least, success };
    let limits = Limits {
        turns: 2,
        reply_tokens: 24,
        reasoning_tokens: None,
        context_tokens: 320,
        calls: 32,
        time: Duration::from_secs(600),
        episode_bytes: DEFAULT_EPISODE_BYTES,
        live_bytes: DEFAULT_LIVE_BYTES,
        early_stop: EarlyStop::default(),
    };
    let text = |name: &str| fs::read_to_string(desk.path("out/chat").join(name)).expect("a file of the chat format");
    let files = ChatFiles {
        tokenizer: text("tokenizer.json"),
        config: text("tokenizer_config.json"),
        template: Some(text("chat_template.jinja")),
        ends: vec![],
    };
    let chat = ChatFormat::new(&files).expect("a chat format");
    Rollout::new(set, chat, limits, reward_sum, None, 0).with_deterministic_places(SLOTS)
}

fn settings() -> RlSettings {
    let algorithm = Preset::named("loop").and_then(|preset| preset.algorithm()).expect("the preset");
    RlSettings { algorithm, temperature: 1.0, seats: Some(vec![0]), ..RlSettings::default() }
}

#[test]
fn a_step_is_played_by_the_weights_of_all_steps_before_it_and_then_trained_on() {
    let desk = desk();
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    let recorded = desk.episodes();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let rollout = rollout(&desk).await;
        let tiny = TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, context: 320 };
        let seed = SEED.child("trainer");
        let trainer = TrainerSettings {
            max_concurrent_sequences: SLOTS,
            deterministic: true,
            seed,
            ..TrainerSettings::default()
        };
        let trainer = Trainer::create(&tiny, &trainer).expect("a model");
        trainer.begin_stage(StageModels::default()).await.expect("begun");
        let mut moved = 0.0;
        for step in 0..STEPS {
            let groups = join_all((0..GROUPS).map(|group| {
                let id = EpisodeId { stage: 0, phase: Phase::Train, step, group, member: 0, attempt: 0 };
                let first = recorded.iter().find(|record| record.id == id).expect("every group was recorded");
                let plan = GroupPlan {
                    id,
                    task: first.task.clone(),
                    seeds: SEED.child("episode"),
                    sampling: Sampling::at(1.0),
                    place: group * SIZE,
                    size: SIZE,
                    turns: None,
                };
                let (rollout, trainer) = (&rollout, &trainer);
                async move {
                    let speaker = Actor::Policy(trainer);
                    rollout.run_plan(&plan, &SamplingPlan::default(), speaker).await.expect("played")
                }
            }))
            .await;
            for played in groups.iter().flatten() {
                let same = |record: &&EpisodeRecord| record.id == played.id;
                let record = recorded.iter().find(same).expect("recorded");
                assert_eq!(ReplayDifference::between(record, played), None, "{}", played.id);
            }
            let measured = trainer.rl_step(&groups, &settings()).await.expect("trained");
            moved += measured.get("updates").unwrap_or_default();
        }
        assert!(moved >= 2.0, "the weights moved {moved} times");
        let position = serde_json::json!({ "stage": 0, "step": STEPS });
        trainer.save(&desk.path("mine"), &position).await.expect("saved");
    });
    for file in ["model.safetensors", "trainer/state.safetensors"] {
        let read = |folder: &str| fs::read(desk.path(folder).join(file)).expect("a file of a checkpoint");
        assert!(read("mine") == read(&format!("out/checkpoints/0-{STEPS:06}")), "{file} differs");
    }
}
