//! The toy of the baselines: two turns of eight sampled tokens around a tool answer of eight, 40 tokens per episode.
//!
//! A task `NN` hides the digit `NN % 10`. The tool tells it if the first reply begins with a digit (worth 0.5); the
//! second reply is worth 1 if it begins with the hidden digit. The model has the baselines' shape: 6 million parameters,
//! 264 tokens.

use std::sync::Arc;

use futures::future::try_join_all;
use gymkhana_policy::{Conversation, GenerateRequest, Policy, Sampling};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Seed, Segment, TaskRef};

use gymkhana_trainer::{
    Aggregation, Algorithm, Baseline, Optimizer, Precision, RlSettings, Scale, TinyModel, Trainer, TrainerError,
    TrainerSettings,
};

const SAMPLED: usize = 8;

/// Groups of eight episodes in a step.
pub const GROUPS: u32 = 8;
const GROUP_SIZE: u32 = 8;

/// The baselines' model of 6 million parameters.
#[must_use]
pub fn model() -> TinyModel {
    TinyModel { layers: 6, width: 256, heads: 4, kv_heads: 2, mlp: 1024, context: 512 }
}

/// A trainer of that model on one thread with passes in `precision`.
///
/// # Errors
/// If the model does not fit into memory.
pub fn trainer(seed: Seed, precision: Precision) -> Result<Trainer, TrainerError> {
    let slots = (GROUPS * GROUP_SIZE) as usize;
    Trainer::create(
        &model(),
        &TrainerSettings {
            max_concurrent_sequences: slots,
            context: Some(64),
            seed,
            precision,
            ..TrainerSettings::default()
        },
    )
}

/// Settings of the baselines: GRPO with AdamW at 1e-3, without weight decay or penalty.
#[must_use]
pub fn settings() -> RlSettings {
    let algorithm = Algorithm {
        baseline: Baseline::GroupMean,
        scale: Scale::GroupStd,
        aggregation: Aggregation::Sequence,
        ..Algorithm::default()
    };
    let optimizer = Optimizer { learning_rate: 1e-3, ..Optimizer::default() };
    RlSettings { optimizer, algorithm, ..RlSettings::default() }
}

/// Plays a step's episodes. Returns them and their mean reward, at most 1.5.
///
/// # Errors
/// If the trainer's thread is gone.
pub async fn play(trainer: &Trainer, step: u32, seed: Seed) -> Result<(Vec<Vec<EpisodeRecord>>, f64), TrainerError> {
    let groups = (0..GROUPS).map(|group| async move {
        let members = (0..GROUP_SIZE).map(|member| play_one(trainer, step, group, member, seed));
        try_join_all(members).await
    });
    let groups = try_join_all(groups).await?;
    let rewards = groups.iter().flatten().map(|episode| episode.rewards[0]);
    let mean = rewards.sum::<f64>() / f64::from(GROUPS * GROUP_SIZE);
    Ok((groups, mean))
}

async fn play_one(
    trainer: &Trainer,
    step: u32,
    group: u32,
    member: u32,
    seed: Seed,
) -> Result<EpisodeRecord, TrainerError> {
    let task = (step * GROUPS + group) % 100;
    let secret = b'0' + (task % 10) as u8;
    let mut segment = Segment::default();
    segment.append_given(&bytes(&format!("task {task:02}: ask ? \n")), 0);
    let first = say(trainer, &mut segment, 0, (step, group, member), seed).await?;
    let asked = (u32::from(b'0')..=u32::from(b'9')).contains(&first);
    let answer = if asked { char::from(secret) } else { '?' };
    segment.append_given(&bytes(&format!("r={answer};    ")), 1);
    let second = say(trainer, &mut segment, 1, (step, group, member), seed).await?;
    trainer.release(conversation(group, member));
    let rewards = [0.5 * f64::from(u8::from(asked)), f64::from(u8::from(second == u32::from(secret)))];
    Ok(record(
        EpisodeId { stage: 0, phase: Phase::Train, step: step.into(), group, member, attempt: 0 },
        task,
        segment,
        rewards,
    ))
}

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

fn conversation(group: u32, member: u32) -> Conversation {
    let place = group * GROUP_SIZE + member;
    Conversation { id: u64::from(place), place }
}

/// Samples a turn's tokens and returns the first.
async fn say(
    trainer: &Trainer,
    segment: &mut Segment,
    turn: u32,
    (step, group, member): (u32, u32, u32),
    seed: Seed,
) -> Result<u32, TrainerError> {
    let gone = |error: &dyn std::fmt::Display| TrainerError::Gone(error.to_string());
    let request = GenerateRequest {
        conversation: conversation(group, member),
        tokens: Arc::from(segment.tokens()),
        max_tokens: SAMPLED,
        stop: Arc::from([]),
        stop_texts: None,
        token_sink: None,
        sampling: Sampling::at(1.0),
        seed: seed.child(step).child(group).child(member).child(turn),
    };
    let reply = trainer.generate(request).await.map_err(|error| gone(&error))?.sampled;
    segment.append_sampled(&reply, turn).map_err(|error| gone(&error))?;
    Ok(reply.tokens[0])
}

fn record(id: EpisodeId, task: u32, segment: Segment, rewards: [f64; 2]) -> EpisodeRecord {
    EpisodeRecord {
        turn_limit: 2,
        segments: vec![segment],
        rewards: vec![rewards.iter().sum()],
        turn_rewards: vec![rewards.to_vec()],
        success: rewards.iter().any(|reward| *reward > 0.0),
        ..EpisodeRecord::new(id, TaskRef { split: "train".to_owned(), index: task.into() }, Seed(0), Ending::Terminated)
    }
}
