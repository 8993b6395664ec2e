//! Rollouts over real components with the tiny model's chat format and a scripted policy.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use gymkhana_chat::{ChatFiles, ChatFormat, ReplyPiece};
use gymkhana_policy::{Sampling, ScriptedPolicy};
use gymkhana_record::{EpisodeId, EpisodeRecord, NamedValue, Phase, Seed, TaskRef, Turn, Value, text_of};
use gymkhana_registry::Capability;
use gymkhana_rollout::{
    Actor, BoundPlugin, BoundReward, ContextStrategy, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop,
    EpisodePlan, Limits, PluginSet, ProvokedReward, RewardSum, RewardTerm, Rollout,
};
use gymkhana_sandbox::{Grants, Outbound, Plugin, Sandbox, SandboxConfig};
use gymkhana_tests::component;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};

/// Reward after the failure of a plugin.
pub const FAILURE_REWARD: f64 = -0.5;

type Options = Vec<NamedValue>;

/// Plugins of a test.
pub struct Table {
    environment: (String, Options),
    tools: Vec<(String, Options)>,
    rewards: Vec<(String, Options, RewardTerm)>,
    worlds: HashMap<String, Arc<dyn Outbound>>,
    provoked: ProvokedReward,
}

fn options(options: &[(&str, Value)]) -> Options {
    options.iter().map(|(name, value)| NamedValue { name: (*name).to_owned(), value: value.clone() }).collect()
}

impl Table {
    /// Word problems without tools and rewards.
    pub fn new() -> Self {
        Self {
            environment: ("word-problems".to_owned(), vec![]),
            tools: vec![],
            rewards: vec![],
            worlds: HashMap::new(),
            provoked: ProvokedReward::Fixed(FAILURE_REWARD),
        }
    }

    /// Replaces the environment.
    pub fn environment(mut self, name: &str, with: &[(&str, Value)]) -> Self {
        self.environment = (name.to_owned(), options(with));
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, name: &str, with: &[(&str, Value)]) -> Self {
        self.tools.push((name.to_owned(), options(with)));
        self
    }

    /// Grants a plugin outbound calls through this client.
    pub fn with_granted_outbound(mut self, plugin: &str, world: Arc<dyn Outbound>) -> Self {
        self.worlds.insert(plugin.to_owned(), world);
        self
    }

    /// Replaces the reward of provoked failures.
    pub fn provoked(mut self, provoked: ProvokedReward) -> Self {
        self.provoked = provoked;
        self
    }

    /// Adds a reward.
    pub fn reward(self, name: &str, with: &[(&str, Value)]) -> Self {
        self.reward_sharing(name, with, 1.0.into())
    }

    /// Adds a reward with a weight and a gate.
    pub fn reward_sharing(mut self, name: &str, with: &[(&str, Value)], share: RewardTerm) -> Self {
        self.rewards.push((name.to_owned(), options(with), share));
        self
    }
}

/// Limits that tests do not reach unintentionally.
pub fn limits() -> Limits {
    Limits {
        turns: 16,
        context_tokens: 100_000,
        calls: 64,
        time: Duration::from_secs(600),
        reply_tokens: 10_000,
        reasoning_tokens: None,
        episode_bytes: DEFAULT_EPISODE_BYTES,
        live_bytes: DEFAULT_LIVE_BYTES,
        early_stop: EarlyStop::default(),
    }
}

/// The tiny model's chat format.
pub fn chat() -> ChatFormat {
    let tiny = TinyModel { layers: 1, width: 8, heads: 1, kv_heads: 1, mlp: 8, context: 8 };
    let trainer = Trainer::create(&tiny, &TrainerSettings::default()).expect("a tiny model");
    let text = |wanted: &str| {
        let found = trainer.files().iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| text.to_owned()).expect("the tiny model has this file")
    };
    let files = ChatFiles {
        tokenizer: text("tokenizer.json"),
        config: text("tokenizer_config.json"),
        template: Some(text("chat_template.jinja")),
        ends: vec![],
    };
    ChatFormat::new(&files).expect("the tiny model's own files are sound")
}

/// Sandbox of all tests of a file, so that each component is compiled once. Its limits end loops soon, but not the work of
/// an honest plugin on a slow machine.
pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let limits = gymkhana_sandbox::Limits { budget: Duration::from_secs(1), ..Default::default() };
        let cache = Some(gymkhana_tests::compiled());
        let config = SandboxConfig { cache, max_instances: Some(64), limits, ..SandboxConfig::default() };
        Sandbox::new(&config).expect("a sandbox")
    })
}

/// A rollout over the table's plugins.
pub async fn rollout(table: &Table, limits: Limits) -> Rollout {
    rollout_in(sandbox(), table, limits, 0).await
}

/// A rollout in a separate sandbox, with a number of retries after a fault of the host.
pub async fn rollout_in(sandbox: &Sandbox, table: &Table, limits: Limits, retries: u32) -> Rollout {
    let all = Grants([Capability::Assets, Capability::Model, Capability::Http, Capability::Tools].into());
    let bound = |name: &str, options: &Options| {
        let plugin = Plugin::load(sandbox, &component(name), &all).expect("a sound plugin");
        let plugin =
            table.worlds.get(name).map(|world| plugin.with_granted_outbound(Arc::clone(world))).unwrap_or(plugin);
        BoundPlugin { plugin, options: options.clone() }
    };
    let bind = |(name, options): &(String, Options)| bound(name, options);
    let tools = table.tools.iter().map(bind).collect();
    let reward = |(name, options, term): &(String, Options, RewardTerm)| BoundReward {
        bound: bound(name, options),
        term: term.clone(),
    };
    let rewards = table.rewards.iter().map(reward).collect();
    let set = PluginSet::assemble(bind(&table.environment), tools, rewards).await.expect("a sound set");
    let reward_sum = RewardSum {
        environment: 1.0.into(),
        provoked: table.provoked,
        success: "environment.success".parse().expect("a rule"),
    };
    Rollout::new(set, chat(), limits, reward_sum, None, retries)
}

/// A rollout with a context strategy.
pub async fn rollout_with(table: &Table, limits: Limits, strategy: ContextStrategy) -> Rollout {
    rollout(table, limits).await.with_context(strategy).expect("no tool offers what the strategy does")
}

/// Plan of a member of the first group.
pub fn plan(member: u32, seed: u64) -> EpisodePlan {
    EpisodePlan {
        id: EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member, attempt: 0 },
        task: TaskRef { split: "train".to_owned(), index: 0 },
        seed: Seed(seed),
        sampling: Sampling::GREEDY,
        place: member,
        turns: None,
        guidance: None,
    }
}

/// Answers to the calls in order, and whether each failed.
pub fn answers(record: &EpisodeRecord) -> Vec<(String, bool)> {
    let answer = |turn: &Turn| match turn {
        Turn::Answer { content, failed, .. } => Some((text_of(content), *failed)),
        _ => None,
    };
    record.turns.iter().filter_map(answer).collect()
}

/// A reply that calls a function.
pub fn call(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
}

/// Plays the first training task with these replies, one per turn.
pub async fn play(rollout: &Rollout, replies: &[&str]) -> EpisodeRecord {
    play_with(rollout, replies, || ()).await
}

/// Like `play`; `before_reply` is called before each reply of the policy.
pub async fn play_with(rollout: &Rollout, replies: &[&str], before_reply: impl Fn() + Send + Sync) -> EpisodeRecord {
    play_plan_with(rollout, plan(0, 7), replies, before_reply).await
}

/// Like `play_with`, an episode of this plan.
pub async fn play_plan_with(
    rollout: &Rollout,
    plan: EpisodePlan,
    replies: &[&str],
    before_reply: impl Fn() + Send + Sync,
) -> EpisodeRecord {
    let encoded: Vec<Vec<u32>> = replies
        .iter()
        .map(|reply| rollout.chat().encode_reply(&[ReplyPiece::Frame(reply)]).expect("a reply in tokens"))
        .collect();
    let turns: Mutex<HashMap<u64, usize>> = Mutex::new(HashMap::new());
    let policy = ScriptedPolicy::new(usize::MAX, |request| {
        before_reply();
        let mut turns = turns.lock().expect("no test panics here");
        let turn = turns.entry(request.conversation.id).or_default();
        *turn += 1;
        encoded.get(*turn - 1).cloned().unwrap_or_default()
    });
    play_plan(rollout, plan, Actor::Policy(&policy)).await
}

/// Plays the first training task with this actor.
pub async fn play_by(rollout: &Rollout, speaker: Actor<'_>) -> EpisodeRecord {
    play_plan(rollout, plan(0, 7), speaker).await
}

/// Plays one episode with this actor.
pub async fn play_plan(rollout: &Rollout, plan: EpisodePlan, speaker: Actor<'_>) -> EpisodeRecord {
    let mut records = rollout.run_group(vec![plan], speaker).await.expect("no fault of the host");
    records.remove(0)
}
