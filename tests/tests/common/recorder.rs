//! A policy that records its requests and replies, for comparison with the episode's record.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use gymkhana_policy::{
    Conversation, GenerateRequest, Generated, Policy, PolicyError, PolicyFuture, ScoreRequest, Stop,
};
use gymkhana_record::{EpisodeRecord, Sampled, Segment};

/// Replies with the result of a function and records the exchange.
pub struct Recorder<F> {
    say: F,
    exchanges: Mutex<Vec<(GenerateRequest, Sampled)>>,
}

impl<F: Fn(&GenerateRequest) -> Vec<u32> + Send + Sync> Recorder<F> {
    pub fn new(say: F) -> Self {
        Self { say, exchanges: Mutex::default() }
    }

    /// Recorded requests and replies, in order.
    pub fn take(&self) -> Vec<(GenerateRequest, Sampled)> {
        std::mem::take(&mut self.exchanges.lock().expect("no test panics here"))
    }
}

impl<F: Fn(&GenerateRequest) -> Vec<u32> + Send + Sync> Policy for Recorder<F> {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let mut tokens = (self.say)(&request);
        tokens.truncate(request.max_tokens);
        let stop = match tokens.last() {
            Some(last) if request.stop.contains(last) => Stop::Token,
            _ => Stop::Length,
        };
        // Numbers that identify each token.
        let mut stream = request.seed.child("numbers").stream();
        let sampled = Sampled {
            log_probs: tokens.iter().map(|_| -(stream.unit() as f32)).collect(),
            entropies: tokens.iter().map(|_| stream.unit() as f32).collect(),
            versions: tokens.iter().map(|_| stream.below(9) as u32).collect(),
            tokens,
        };
        self.exchanges.lock().expect("no test panics here").push((request, sampled.clone()));
        Box::pin(async move { Ok(Generated { sampled, stop }) })
    }

    fn score(&self, _request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        Box::pin(async { Err(PolicyError::CannotScore) })
    }

    fn can_score(&self) -> bool {
        false
    }

    fn release(&self, _conversation: Conversation) {}

    fn context(&self) -> usize {
        usize::MAX
    }
}

/// Checks that every sampled token occurs in one segment as it was sampled, after the prompt that the policy saw, that
/// no other token is marked as sampled, and that each token has its turn's number.
pub fn assert_saw(record: &EpisodeRecord, exchanges: &[(GenerateRequest, Sampled)]) {
    let mut by_seat: BTreeMap<u32, VecDeque<&(GenerateRequest, Sampled)>> = BTreeMap::new();
    let mut names: Vec<u64> = vec![];
    for each in exchanges {
        let seat = each.0.conversation.place - record.id.member * record.opening.functions.len() as u32;
        by_seat.entry(seat).or_default().push_back(each);
        names.push(each.0.conversation.id);
    }
    let mut turns: BTreeMap<u32, u32> = BTreeMap::new();
    for segment in &record.segments {
        let seat = segment.seat();
        for run in runs(segment) {
            let turn = turns.entry(seat).or_default();
            let expected = by_seat.get_mut(&seat).and_then(VecDeque::pop_front);
            let (request, sampled) = expected.expect("a recorded reply");
            assert_eq!(
                &segment.tokens()[..run.start],
                &request.tokens[..],
                "turn {turn} of seat {seat} had another prompt"
            );
            assert_eq!(segment.tokens()[run.clone()], sampled.tokens);
            assert_eq!(segment.log_probs()[run.clone()], sampled.log_probs);
            assert_eq!(segment.entropies()[run.clone()], sampled.entropies);
            assert_eq!(segment.versions()[run.clone()], sampled.versions);
            assert!(segment.turns()[run].iter().all(|number| number == turn));
            *turn += 1;
        }
    }
    assert!(by_seat.values().all(VecDeque::is_empty), "a reply is missing in the record");
    let taken: u32 = turns.values().sum();
    assert_eq!(record.policy_turns.len(), taken as usize);
}

/// Runs of sampled tokens of one turn.
pub fn runs(segment: &Segment) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = vec![];
    for at in (0..segment.len()).filter(|&at| segment.sampled()[at]) {
        match runs.last_mut() {
            Some(run) if run.end == at && segment.turns()[run.start] == segment.turns()[at] => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}
