//! Throughput of generation and training in tokens per second, for `cargo xtask bench generate|train`.

pub mod toy;

use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use gymkhana_policy::{Conversation, GenerateRequest, Policy, PolicyError, Sampling};
use gymkhana_record::{Seed, Segment};

use gymkhana_trainer::{SftSettings, TinyModel, Trainer, TrainerError, TrainerSettings};

/// A workload like the demo's: prompts of a story and a tool answer, replies of a call and an answer.
const GIVEN_TOKENS: [usize; 2] = [90, 30];
const SAMPLED_TOKENS: [usize; 2] = [70, 10];

/// Sampled tokens per second of `conversations` conversations of two turns, concurrent or in sequence.
///
/// # Errors
/// If the model cannot be made or stops.
pub async fn generation_rate(
    tiny: &TinyModel,
    threads: usize,
    conversations: usize,
    at_once: bool,
) -> Result<f64, TrainerError> {
    let settings = TrainerSettings { threads, ..TrainerSettings::default() };
    let trainer = Trainer::create(tiny, &settings)?;
    let gone = |error: PolicyError| TrainerError::Gone(error.to_string());
    converse(&trainer, 0).await.map_err(gone)?;
    let start = Instant::now();
    let tokens: usize = if at_once {
        try_join_all((1..=conversations).map(|id| converse(&trainer, id))).await.map_err(gone)?.iter().sum()
    } else {
        let mut tokens = 0;
        for id in 1..=conversations {
            tokens += converse(&trainer, id).await.map_err(gone)?;
        }
        tokens
    };
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

/// Tokens per second, prompts included, of a group that continues prompts of the same length: the same prompt, or one for
/// each member.
///
/// # Errors
/// If the model cannot be made or stops.
pub async fn group_rate(
    tiny: &TinyModel,
    members: usize,
    prompt_tokens: usize,
    reply_tokens: usize,
    is_shared: bool,
) -> Result<f64, TrainerError> {
    let trainer =
        Trainer::create(tiny, &TrainerSettings { max_concurrent_sequences: members, ..TrainerSettings::default() })?;
    converse(&trainer, 0).await.map_err(|error| TrainerError::Gone(error.to_string()))?;
    let start = Instant::now();
    let replies = (1..=members).map(|id| {
        let seed = Seed(19).child("prompt").child(if is_shared { 0 } else { id });
        trainer.generate(GenerateRequest {
            conversation: Conversation { id: id as u64, place: id as u32 },
            tokens: random_tokens(seed, prompt_tokens).collect(),
            max_tokens: reply_tokens,
            stop: Arc::from([]),
            stop_texts: None,
            sampling: Sampling::at(1.0),
            seed: Seed(19).child(id),
            token_sink: None,
        })
    });
    try_join_all(replies).await.map_err(|error| TrainerError::Gone(error.to_string()))?;
    Ok((members * (prompt_tokens + reply_tokens)) as f64 / start.elapsed().as_secs_f64())
}

/// Runs one conversation and counts the sampled tokens.
async fn converse(trainer: &Trainer, id: usize) -> Result<usize, PolicyError> {
    let conversation = Conversation { id: id as u64, place: id as u32 };
    let seed = Seed(17).child(id);
    let mut tokens = Vec::new();
    let mut sampled = 0;
    for (turn, (given, reply)) in GIVEN_TOKENS.into_iter().zip(SAMPLED_TOKENS).enumerate() {
        tokens.extend(random_tokens(seed.child("given").child(turn), given));
        let request = GenerateRequest {
            conversation,
            tokens: Arc::from(&tokens[..]),
            max_tokens: reply,
            stop: Arc::from([]),
            stop_texts: None,
            sampling: Sampling::at(1.0),
            seed: seed.child(turn),
            token_sink: None,
        };
        let generated = trainer.generate(request).await?;
        sampled += generated.sampled.tokens.len();
        tokens.extend(generated.sampled.tokens);
    }
    trainer.release(conversation);
    Ok(sampled)
}

fn random_tokens(seed: Seed, count: usize) -> impl Iterator<Item = u32> {
    let mut stream = seed.stream();
    std::iter::repeat_with(move || stream.below(256) as u32).take(count)
}

/// Tokens per second of training steps on `sequences` conversations of the same length.
///
/// # Errors
/// If the model cannot be made or stops.
pub async fn training_rate(
    tiny: &TinyModel,
    threads: usize,
    sequences: usize,
    micro_batch_tokens: usize,
    steps: usize,
) -> Result<f64, TrainerError> {
    let settings = TrainerSettings { threads, max_concurrent_sequences: 1, ..TrainerSettings::default() };
    let trainer = Trainer::create(tiny, &settings)?;
    let batch: Vec<Segment> = (0..sequences).map(|index| segment(Seed(18).child(index))).collect();
    let settings = SftSettings { micro_batch_tokens, ..SftSettings::default() };
    trainer.sft_step(&batch, &settings).await?;
    let start = Instant::now();
    for _ in 0..steps {
        trainer.sft_step(&batch, &settings).await?;
    }
    let tokens = steps * batch.iter().map(Segment::len).sum::<usize>();
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

fn segment(seed: Seed) -> Segment {
    let mut segment = Segment::default();
    for (turn, (given, reply)) in GIVEN_TOKENS.into_iter().zip(SAMPLED_TOKENS).enumerate() {
        let given: Vec<u32> = random_tokens(seed.child("given").child(turn), given).collect();
        segment.append_given(&given, turn as u32);
        let reply: Vec<u32> = random_tokens(seed.child("reply").child(turn), reply).collect();
        segment.append_sampled(&gymkhana_policy::certain(reply), turn as u32).expect("columns of one length");
    }
    segment
}
