//! A rollout over real plugins with the tiny model's chat format.

use std::time::Duration;

use anyhow::Result;
use gymkhana_chat::{ChatFiles, ChatFormat, ReplyPiece};
use gymkhana_policy::Sampling;
use gymkhana_record::{EpisodeId, Phase, Seed, TaskRef};
use gymkhana_rollout::{
    BoundPlugin, BoundReward, DEFAULT_EPISODE_BYTES, DEFAULT_LIVE_BYTES, EarlyStop, EpisodePlan, Limits, PluginSet,
    ProvokedReward, RewardSum, Rollout,
};
use gymkhana_sandbox::Plugin;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};

/// The tiny model's chat format.
///
/// # Errors
/// If the model cannot be made.
pub fn chat() -> Result<ChatFormat> {
    let tiny = TinyModel { layers: 1, width: 8, heads: 1, kv_heads: 1, mlp: 8, context: 8 };
    let trainer = Trainer::create(&tiny, &TrainerSettings::default())?;
    let text = |wanted: &str| {
        let found = trainer.files().iter().find(|(name, _)| *name == wanted);
        found.map(|(_, text)| text.to_owned()).unwrap_or_default()
    };
    let files = ChatFiles {
        tokenizer: text("tokenizer.json"),
        config: text("tokenizer_config.json"),
        template: Some(text("chat_template.jinja")),
        ends: vec![],
    };
    Ok(ChatFormat::new(&files)?)
}

/// A rollout over plugins without options, of at most `turns` turns per episode.
///
/// # Errors
/// If the plugins do not fit together.
pub async fn rollout(
    environment: &Plugin,
    tools: &[&Plugin],
    rewards: &[&Plugin],
    turns: u32,
    success: &str,
) -> Result<Rollout> {
    let bound = |plugin: &Plugin| BoundPlugin { plugin: plugin.clone(), options: vec![] };
    let tools = tools.iter().map(|tool| bound(tool)).collect();
    let rewards = rewards.iter().map(|reward| BoundReward { bound: bound(reward), term: 1.0.into() }).collect();
    let set = PluginSet::assemble(bound(environment), tools, rewards).await?;
    let reward_sum = RewardSum { environment: 1.0.into(), provoked: ProvokedReward::Least, success: success.parse()? };
    let limits = Limits {
        turns,
        context_tokens: 1_000_000,
        calls: 1000,
        time: Duration::from_secs(3600),
        reply_tokens: 100_000,
        reasoning_tokens: None,
        episode_bytes: DEFAULT_EPISODE_BYTES,
        live_bytes: DEFAULT_LIVE_BYTES,
        early_stop: EarlyStop::default(),
    };
    Ok(Rollout::new(set, chat()?, limits, reward_sum, None, 0))
}

/// A reply in tokens.
///
/// # Errors
/// If the tokenizer fails.
pub fn reply(rollout: &Rollout, text: &str) -> Result<Vec<u32>> {
    Ok(rollout.chat().encode_reply(&[ReplyPiece::Frame(text)])?)
}

/// Plan of episode `number`, in groups of `size`.
#[must_use]
pub fn plan(number: u64, size: u64) -> EpisodePlan {
    let (group, member) = (number / size, number % size);
    EpisodePlan {
        id: EpisodeId {
            stage: 0,
            phase: Phase::Train,
            step: group / 1000,
            group: (group % 1000) as u32,
            member: member as u32,
            attempt: 0,
        },
        task: TaskRef { split: "train".to_owned(), index: group },
        seed: Seed(0).child(number),
        sampling: Sampling::GREEDY,
        place: number as u32,
        turns: None,
        guidance: None,
    }
}
