//! Helpers of several test files.
#![allow(dead_code, reason = "each test file uses some of these")]

use std::sync::Arc;

use gymkhana_policy::{Conversation, GenerateRequest, Policy, Sampling, ScoreRequest};
use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, Phase, Sampled, Seed, Segment, StepMetrics, TaskRef};
use gymkhana_trainer::{Estimator, Kl, KlPlace, TinyModel, Trainer};

/// Size of a model that answers in microseconds.
pub fn smallest() -> TinyModel {
    TinyModel { layers: 2, width: 32, heads: 4, kv_heads: 2, mlp: 48, context: 128 }
}

pub fn conversation(place: u32) -> Conversation {
    Conversation { id: u64::from(place), place }
}

/// Pseudo-random bytes as tokens.
pub fn noise(seed: Seed, count: usize) -> Vec<u32> {
    let mut stream = seed.stream();
    (0..count).map(|_| stream.below(256) as u32).collect()
}

pub fn request(place: u32, tokens: &[u32], most: usize, seed: Seed) -> GenerateRequest {
    GenerateRequest {
        conversation: conversation(place),
        tokens: Arc::from(tokens),
        max_tokens: most,
        stop: Arc::from([258]),
        stop_texts: None,
        sampling: Sampling::at(1.0),
        seed,
        token_sink: None,
    }
}

/// Runs a conversation of three turns. Returns the tokens before each reply, and the reply.
pub async fn converse(trainer: &Trainer, place: u32) -> Vec<(Vec<u32>, Sampled)> {
    let seed = Seed(40).child(place);
    let mut tokens = noise(seed.child("system"), 3);
    let mut turns = Vec::new();
    for turn in 0..3_u32 {
        let given = 1 + (place as usize * 7 + turn as usize * 5) % 20;
        tokens.extend(noise(seed.child("given").child(turn), given));
        let request = request(place, &tokens, 9, seed.child(turn));
        let reply = trainer.generate(request).await.expect("a reply").sampled;
        turns.push((tokens.clone(), reply.clone()));
        tokens.extend(&reply.tokens);
    }
    trainer.release(conversation(place));
    turns
}

pub async fn score(trainer: &Trainer, prefix: &[u32], continuation: &[u32]) -> Sampled {
    let request = ScoreRequest { prefix: Arc::from(prefix), continuation: Arc::from(continuation) };
    trainer.score(request).await.expect("scores")
}

pub fn near(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }
}

pub fn figure(metrics: &StepMetrics, name: &str) -> f64 {
    metrics.get(name).expect("a reported figure")
}

/// An episode of one segment.
pub fn episode(group: u32, member: u32, segment: Segment, reward: f64) -> EpisodeRecord {
    EpisodeRecord {
        turn_limit: 16,
        segments: vec![segment],
        rewards: vec![reward],
        success: reward > 0.0,
        ..EpisodeRecord::new(
            EpisodeId { stage: 0, phase: Phase::Train, step: 0, group, member, attempt: 0 },
            TaskRef { split: "train".to_owned(), index: 0 },
            Seed(0),
            Ending::Terminated,
        )
    }
}

/// A segment of given tokens and a reply.
pub fn segment(given: &[u32], reply: &Sampled) -> Segment {
    let mut segment = Segment::default();
    segment.append_given(given, 0);
    segment.append_sampled(reply, 0).expect("equal columns");
    segment
}

/// Tokens of an expert's reply, without log-probabilities.
pub fn written(tokens: &[u32]) -> Sampled {
    let count = tokens.len();
    Sampled {
        tokens: tokens.to_vec(),
        log_probs: vec![0.0; count],
        entropies: vec![0.0; count],
        versions: vec![0; count],
    }
}

/// The divergence penalty of GRPO's paper, with weight `beta`.
pub fn penalty(beta: f64) -> Kl {
    Kl { beta, schedule: None, adaptive: None, estimator: Estimator::K3, place: KlPlace::Loss, first_turns: None }
}
