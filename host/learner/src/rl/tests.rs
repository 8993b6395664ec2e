//! Replayed episodes and the values of episodes that were cut short.

use std::convert::Infallible;

use gymkhana_algorithm::{AboveCap, CapLevel, CovarianceClip, Critic, OffPolicy, Optimizer};
use gymkhana_engine::{Flat, FurtherModels, Share, TokenNumbers};
use gymkhana_record::{Ending, EpisodeRecord, Sampled, Seed, Segment};

use super::*;
use crate::from_records::{episode, preset, segment};

const VOCABULARY: f64 = 32.0;

/// A model for which every token has the same probability, and a critic whose values are the numbers of the tokens before.
#[derive(Debug)]
struct Uniform;

/// A number of each target.
fn each(sequences: &[Sequence], number: impl Fn(&[u32]) -> f32) -> Vec<Vec<f32>> {
    let of = |one: &Sequence| one.targets.iter().map(|target| number(&one.tokens[..target.at])).collect();
    sequences.iter().map(of).collect()
}

impl Engine for Uniform {
    type Error = Infallible;

    fn further_models(&self) -> FurtherModels {
        FurtherModels { critic: true, ..FurtherModels::default() }
    }

    fn optimizer_steps(&self) -> u64 {
        0
    }

    fn log_probs(&self, _: Scorer, sequences: &[Sequence], _: Pass) -> Result<Vec<Vec<f32>>, Infallible> {
        Ok(each(sequences, |_| -VOCABULARY.ln() as f32))
    }

    fn values(&self, sequences: &[Sequence], _: Pass) -> Result<Vec<Vec<f32>>, Infallible> {
        Ok(each(sequences, |before| before.iter().fold(1.0, |value, token| 0.5 * value + *token as f32)))
    }

    fn begin_update(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn accumulate(&mut self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, Infallible> {
        self.measure(sequences, loss, pass)
    }

    fn measure(&self, sequences: &[Sequence], loss: Loss<'_>, _: Pass) -> Result<Passed, Infallible> {
        let flat = Flat::of(sequences);
        let numbers = TokenNumbers::from(vec![-VOCABULARY.ln(); flat.targets.len()]);
        let sums = flat.evaluate(loss, &numbers).sums;
        Ok(Passed { sums, log_probs: flat.split(&numbers.log_probs), positions: 0 })
    }

    fn shortens_steps(&self) -> bool {
        true
    }

    fn step(&mut self, _: &Optimizer, share: Option<&mut Share<'_, Self>>) -> Result<Stepped, Infallible> {
        share.map(|share| share(self)).transpose()?;
        Ok(Stepped::Taken { gradient_norm: None })
    }

    fn value_step(&mut self, _: &[Sequence], _: Critic, _: &Optimizer, _: Pass) -> Result<Option<f64>, Infallible> {
        Ok(Some(0.0))
    }

    fn approach_reference(&mut self, _: f64) -> Result<(), Infallible> {
        Ok(())
    }
}

/// An episode whose tokens have these ratios of the uniform model's probability to the recorded one, and these versions.
fn recorded(member: u32, reward: f64, tokens: &[(f64, u32)]) -> EpisodeRecord {
    let uniform = -VOCABULARY.ln();
    let sampled = Sampled {
        tokens: vec![2; tokens.len()],
        log_probs: tokens.iter().map(|(ratio, _)| (uniform - ratio.ln()) as f32).collect(),
        entropies: vec![1.0; tokens.len()],
        versions: tokens.iter().map(|(_, version)| *version).collect(),
    };
    let mut segment = Segment::new(0);
    segment.append_given(&[1], 0);
    segment.append_sampled(&sampled, 0).expect("equal columns");
    episode(member, vec![segment], &[reward])
}

fn off_policy() -> OffPolicy {
    OffPolicy { cap: 2.0, mode: AboveCap::Truncate, level: CapLevel::Token, veto: None, stale_steps: Some(3) }
}

/// Stores the good episodes of a group at weight version 3, and returns them as they are replayed at version 4.
fn replayed(group: Vec<EpisodeRecord>, algorithm: Algorithm) -> Batch {
    let settings = RlSettings { algorithm, ..RlSettings::default() };
    let replay = settings.algorithm.replay.expect("a preset that replays");
    let mut learner = Learner::default();
    let mut stream = Seed(1).stream();
    let mut fresh = Batch::new(&[group], &settings);
    let plain = Algorithm { off_policy: None, covariance_clip: None, ..settings.algorithm.clone() };
    advantage::compute(&mut fresh.inputs, &plain, &mut AdvantageState::default(), 3, &mut stream);
    let flat = Batch::new(&[(0..4).map(|member| recorded(member, 0.0, &[(1.0, 4)])).collect()], &settings);
    let mut replay = |batch: &Batch, version| {
        learner.replay(&Uniform, batch, replay, &settings, version, &mut stream).expect("a replay").0
    };
    replay(&fresh, 3);
    replay(&flat, 4)
}

/// Ratios of 1.5 and 3 have the weights 1.5 and 2, the cap; the third token is four steps old.
#[test]
fn replayed_tokens_are_corrected_like_fresh_ones() {
    let group = || vec![recorded(0, 1.0, &[(1.5, 4), (3.0, 4), (1.5, 0)]), recorded(1, 0.0, &[(1.0, 4)])];
    let algorithm = Algorithm { covariance_clip: None, off_policy: Some(off_policy()), ..preset("spear") };
    let found = replayed(group(), algorithm.clone());
    let tokens = &found.inputs[0].tokens;
    assert_eq!((found.inputs.len(), tokens.in_loss().collect::<Vec<_>>()), (1, vec![0, 1]));
    for (token, expected) in [1.5, 2.0].into_iter().enumerate() {
        let weight = tokens.get(Column::Correction, token);
        assert!((weight - expected).abs() < 1e-5, "token {token}: {weight} is not {expected}");
    }
    let vetoing = Algorithm { off_policy: Some(OffPolicy { veto: Some(1.6), ..off_policy() }), ..algorithm.clone() };
    assert_eq!(replayed(group(), vetoing).inputs[0].tokens.in_loss().count(), 0);
    let uncorrected = replayed(group(), Algorithm { off_policy: None, ..algorithm });
    assert_eq!(*uncorrected.inputs[0].tokens.column(Column::Correction), [1.0; 3]);
    assert_eq!(uncorrected.inputs[0].tokens.in_loss().count(), 3);
}

/// By the recorded log-probabilities the covariances of the two replayed tokens are positive; under the uniform weights at
/// the start of the step they are 0.
#[test]
fn covariances_of_replayed_tokens_use_the_weights_at_the_start_of_the_step() {
    let group = || vec![recorded(0, 1.0, &[(0.5, 4)]), recorded(1, 0.8, &[(1.9, 4)]), recorded(2, 0.0, &[(1.0, 4)])];
    let clip = CovarianceClip { low: 0.0, high: 60.0, share: 1.0 };
    let algorithm = Algorithm { covariance_clip: Some(clip), ..preset("spear") };
    let kept = |algorithm| {
        let found = replayed(group(), algorithm);
        assert_eq!(found.inputs.len(), 2);
        found.inputs.iter().filter(|input| input.tokens.get(Column::Correction, 0) != 0.0).count()
    };
    assert_eq!(kept(algorithm.clone()), 0);
    assert_eq!(kept(Algorithm { off_policy: Some(off_policy()), ..algorithm }), 2);
}

/// The episode that was cut short after two tokens ends where the other one, with the same beginning, samples its third.
#[test]
fn an_episode_that_was_cut_short_ends_with_the_critics_value() {
    let mut longer = segment(0, 0..1, 1.0);
    let third = Sampled { tokens: vec![4], log_probs: vec![-1.0], entropies: vec![1.0], versions: vec![0] };
    longer.append_sampled(&third, 0).expect("equal columns");
    let group = |ending| {
        let cut_short = EpisodeRecord { ending, ..episode(0, vec![segment(0, 0..1, 1.0)], &[0.0]) };
        vec![cut_short, episode(1, vec![longer.clone()], &[1.0])]
    };
    let end_values = |ending, bootstrap| {
        let mut algorithm = preset("ppo");
        algorithm.critic = algorithm.critic.map(|critic| Critic { bootstrap, ..critic });
        let settings = RlSettings { algorithm, ..RlSettings::default() };
        let mut batch = Batch::new(&[group(ending)], &settings);
        annotate(&Uniform, &mut batch, &settings).expect("values");
        let third = batch.inputs[1].tokens.get(Column::Value, 2);
        assert!(third != 0.0);
        (batch.inputs[0].end_value - third, batch.inputs[0].end_value, batch.inputs[1].end_value)
    };
    for ending in [Ending::Truncated, Ending::TurnLimit] {
        let (difference, _, ended) = end_values(ending, true);
        assert!(difference.abs() < 1e-6 && ended == 0.0, "{ending}: {difference}, {ended}");
        assert_eq!(end_values(ending, false).1, 0.0, "{ending}");
    }
    assert_eq!(end_values(Ending::Terminated, true).1, 0.0);
}

/// Five episodes in three minibatches: of 1, 2 and 2, each episode once, in an order of the seed. A masked one is in none.
#[test]
fn minibatches_divide_the_episodes_that_count() {
    let settings =
        RlSettings { algorithm: Algorithm { minibatches: 3, ..Algorithm::default() }, ..RlSettings::default() };
    let group: Vec<EpisodeRecord> = (0..6).map(|member| recorded(member, f64::from(member), &[(1.0, 4)])).collect();
    let mut batch = Batch::new(&[group], &settings);
    batch.inputs[2].tokens.fill(Column::LossMask, 0..1, 0.0);
    let divided = |seed| minibatches(&batch, &settings, &mut Seed(seed).stream());
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..8 {
        let parts = divided(seed);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(parts, divided(seed));
        let mut all = parts.concat();
        orders.insert(all.clone());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 3, 4, 5]);
    }
    assert!(orders.len() > 4, "{orders:?}");
    // More minibatches than episodes: one each. A single one keeps the order.
    let of =
        |minibatches| RlSettings { algorithm: Algorithm { minibatches, ..Algorithm::default() }, ..settings.clone() };
    assert_eq!(minibatches(&batch, &of(9), &mut Seed(1).stream()).len(), 5);
    assert_eq!(minibatches(&batch, &of(1), &mut Seed(1).stream()), [vec![0, 1, 3, 4, 5]]);
}
