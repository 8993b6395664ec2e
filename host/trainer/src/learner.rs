//! Training steps: from demonstrations or groups of episodes to moved weights.
//!
//! The output layer is gone through in chunks of tokens, forwards and backwards, so that logits of a whole batch never
//! exist at once; the layers below run backwards once for each micro-batch.
#![allow(non_snake_case)]

use gymkhana_episode::{EpisodeRecord, Seed, Segment};
use tch::{Kind, Tensor, no_grad_guard};

use crate::adamw::AdamW;
use crate::advantage::{group_advantages, turn_advantage};
use crate::algorithm::{Aggregation, Algorithm};
use crate::batch::{MicroBatch, Sequence, Target, parts};
use crate::model::{Model, Weights};
use crate::parameters::Parameters;
use crate::settings::{RlSettings, SftSettings};
use crate::{TrainerError, loss};

/// Named figures of one training step, in a fixed order.
pub type StepMetrics = Vec<(String, f64)>;

/// The optimiser's state and, if a stage wants one, the weights with which it began.
#[derive(Debug)]
pub(crate) struct Learner {
    pub optimizer: AdamW,
    pub reference: Option<Parameters>,
}

/// One episode as it is trained on.
#[derive(Debug, Clone)]
pub(crate) struct TrainEpisode {
    pub sequences: Vec<Sequence>,
    /// Sampled tokens that can be learnt from.
    pub tokens: usize,
}

/// What a chunk of tokens' loss is made of.
struct Chunk<'a> {
    log_probs_N: &'a Tensor,
    entropies_N: Option<&'a Tensor>,
    reference_N: Option<Tensor>,
    weights_N: Tensor,
    behaviour_N: Tensor,
    advantages_N: Tensor,
}

/// What a token's probability is computed with.
#[derive(Clone, Copy)]
struct Distribution<'a> {
    /// That at this temperature, as tokens were sampled.
    temperature: f64,
    /// These weights' is wanted beside the model's own.
    reference: Option<&'a Weights>,
    with_entropy: bool,
}

impl Distribution<'_> {
    fn logits(&self, hidden_NC: &Tensor, weights: &Weights) -> Tensor {
        loss::tempered(hidden_NC.linear::<&Tensor>(&weights.head_VC, None), self.temperature)
    }
}

/// Adds gradients of a micro-batch to the parameters. `loss` gives the scalar to be minimised for a chunk, and sums to
/// be reported, which are added to `sums`.
fn accumulate(
    model: &Model,
    batch: &MicroBatch,
    wanted: Distribution<'_>,
    sums: &mut Vec<Tensor>,
    loss: &dyn Fn(&Chunk<'_>) -> (Tensor, Tensor),
) {
    let weights = model.weights();
    let chosen_NC = chosen_hidden(model, &weights, batch);
    let reference_N = wanted.reference.map(|reference| reference_log_probs(model, reference, batch, wanted));
    let leaf_NC = chosen_NC.detach().set_requires_grad(true);
    for (start, length) in loss::chunks(batch.targets_N.size()[0], model.config().vocab_size) {
        let cut = |tensor: &Tensor| tensor.narrow(0, start, length);
        let logits_NV = wanted.logits(&cut(&leaf_NC), &weights);
        let (log_probs_N, entropies_N) = loss::token_log_probs(&logits_NV, &cut(&batch.targets_N), wanted.with_entropy);
        let (scalar, reported) = loss(&Chunk {
            log_probs_N: &log_probs_N,
            entropies_N: entropies_N.as_ref(),
            reference_N: reference_N.as_ref().map(cut),
            weights_N: cut(&batch.weights_N),
            behaviour_N: cut(&batch.behaviour_N),
            advantages_N: cut(&batch.advantages_N),
        });
        scalar.backward();
        sums.push(reported.detach());
    }
    // The gradient of this product is what the chunks left in the leaf: it sends it on to the layers below.
    (chosen_NC * leaf_NC.grad()).sum(Kind::Float).backward();
}

fn chosen_hidden(model: &Model, weights: &Weights, batch: &MicroBatch) -> Tensor {
    let C = model.config().hidden_size;
    model.causal_hidden(weights, &batch.tokens_BS).reshape([-1, C]).index_select(0, &batch.places_N)
}

fn reference_log_probs(model: &Model, weights: &Weights, batch: &MicroBatch, wanted: Distribution<'_>) -> Tensor {
    let _guard = no_grad_guard();
    let chosen_NC = chosen_hidden(model, weights, batch);
    let log_probs: Vec<Tensor> = loss::chunks(batch.targets_N.size()[0], model.config().vocab_size)
        .map(|(start, length)| {
            let logits_NV = wanted.logits(&chosen_NC.narrow(0, start, length), weights);
            loss::token_log_probs(&logits_NV, &batch.targets_N.narrow(0, start, length), false).0
        })
        .collect();
    Tensor::cat(&log_probs, 0)
}

/// The element-wise sum of reported figures.
fn total(sums: &[Tensor]) -> Vec<f64> {
    if sums.is_empty() {
        return Vec::new();
    }
    let total = Tensor::stack(sums, 0).sum_dim_intlist(0, false, Kind::Double);
    (0..total.size()[0]).map(|index| total.double_value(&[index])).collect()
}

impl Learner {
    /// Fresh state, as at the start of a stage.
    pub fn new(model: &Model, keep_reference: bool) -> Result<Self, TrainerError> {
        let torch = || TrainerError::torch("prepared a stage");
        Ok(Self {
            optimizer: AdamW::default(),
            reference: keep_reference.then(|| model.parameters().frozen_copy()).transpose().map_err(torch())?,
        })
    }

    /// One optimiser step on demonstrations.
    pub fn sft_step(
        &mut self,
        model: &mut Model,
        sequences: &[Sequence],
        settings: &SftSettings,
    ) -> Result<StepMetrics, TrainerError> {
        let mut sums = Vec::new();
        let wanted = Distribution { temperature: 1.0, reference: None, with_entropy: false };
        model.parameters_mut().zero_gradients();
        for part in parts(sequences.iter().collect(), settings.micro_tokens) {
            let batch = MicroBatch::new(&part, model.device());
            accumulate(model, &batch, wanted, &mut sums, &|chunk| {
                let losses_N = -chunk.log_probs_N * &chunk.weights_N;
                let by_expert = (&losses_N * &chunk.advantages_N).sum(Kind::Float);
                let scalar = losses_N.sum(Kind::Float);
                let reported = Tensor::stack(&[&scalar, &by_expert], 0);
                (scalar, reported)
            });
        }
        let learning_rate = settings.optimizer.learning_rate_at(self.optimizer.steps());
        let norm = self.optimizer.step(model.parameters(), &settings.optimizer)?;
        let sums = total(&sums);
        let sampled = |target: &&Target| target.advantage > 0.0;
        let tokens: usize = sequences.iter().map(|sequence| sequence.targets.iter().filter(sampled).count()).sum();
        Ok(named([
            ("loss", sums[0]),
            ("loss_sampled", sums[1]),
            ("gradient_norm", norm),
            ("learning_rate", learning_rate),
            ("tokens", tokens as f64),
            ("positions", sequences.iter().map(Sequence::inputs).sum::<usize>() as f64),
        ]))
    }

    /// One pass over a batch of episodes, or several: an optimiser step for each minibatch of each epoch in which
    /// there is anything to learn.
    pub fn rl_step(
        &mut self,
        model: &mut Model,
        episodes: &[TrainEpisode],
        settings: &RlSettings,
        seed: Seed,
    ) -> Result<StepMetrics, TrainerError> {
        let flags = &settings.algorithm;
        let mut order: Vec<usize> = (0..episodes.len()).collect();
        let mut report = RlReport::default();
        let mut shuffle = seed.child("minibatches").child(self.optimizer.steps()).stream();
        for _ in 0..flags.epochs {
            if flags.minibatches > 1 {
                shuffle.shuffle(&mut order);
            }
            for minibatch in order.chunks(order.len().div_ceil(flags.minibatches as usize).max(1)) {
                let weighed = weigh(minibatch.iter().map(|index| &episodes[*index]), flags);
                self.rl_minibatch(model, &weighed, settings, &mut report)?;
            }
        }
        Ok(report.metrics(episodes, settings.optimizer.learning_rate_at(self.optimizer.steps().saturating_sub(1))))
    }

    fn rl_minibatch(
        &mut self,
        model: &mut Model,
        sequences: &[Sequence],
        settings: &RlSettings,
        report: &mut RlReport,
    ) -> Result<(), TrainerError> {
        if sequences.is_empty() {
            return Ok(());
        }
        let flags = &settings.algorithm;
        let reference = match &self.reference {
            Some(parameters) if flags.kl_beta > 0.0 => Some(model.weights_of(parameters)),
            _ => None,
        };
        let wanted = Distribution {
            temperature: settings.temperature,
            reference: reference.as_ref(),
            with_entropy: flags.entropy_bonus > 0.0,
        };
        let mut sums = Vec::new();
        model.parameters_mut().zero_gradients();
        for part in parts(sequences.iter().collect(), settings.micro_tokens) {
            let batch = MicroBatch::new(&part, model.device());
            accumulate(model, &batch, wanted, &mut sums, &|chunk| rl_loss(chunk, flags));
        }
        let norm = self.optimizer.step(model.parameters(), &settings.optimizer)?;
        report.add(&total(&sums), norm, sequences);
        Ok(())
    }

    /// Names and tensors of the state, for a checkpoint.
    pub fn named(&self, model: &Model) -> Result<Vec<(String, Tensor)>, TrainerError> {
        let state = self.optimizer.named(model.parameters());
        let mut named = state.map_err(TrainerError::torch("copied the optimiser's state"))?;
        if let Some(reference) = &self.reference {
            named.extend(reference.named().map(|(name, tensor)| (format!("reference.{name}"), tensor.shallow_clone())));
        }
        Ok(named)
    }
}

/// A chunk's loss and its sums to be reported: loss, clipped tokens, k3 divergence from the behaviour policy, k3
/// divergence from the reference, each but the first unweighted.
fn rl_loss(chunk: &Chunk<'_>, flags: &Algorithm) -> (Tensor, Tensor) {
    let (own_N, old_N, advantages_N) = (chunk.log_probs_N, &chunk.behaviour_N, &chunk.advantages_N);
    let mut losses_N = loss::clipped_surrogate(own_N, old_N, advantages_N, flags.clip_low, flags.clip_high);
    let mut from_reference = Tensor::zeros([], (Kind::Float, own_N.device()));
    if let Some(reference_N) = &chunk.reference_N {
        let divergence_N = loss::k3_divergence(own_N, reference_N);
        from_reference = divergence_N.sum(Kind::Float);
        losses_N = &losses_N + divergence_N * flags.kl_beta;
    }
    if let Some(entropies_N) = chunk.entropies_N {
        losses_N = &losses_N - entropies_N * flags.entropy_bonus;
    }
    let scalar = (losses_N * &chunk.weights_N).sum(Kind::Float);
    let clipped = loss::clipped(own_N, old_N, advantages_N, flags.clip_low, flags.clip_high).sum(Kind::Float);
    let from_behaviour = loss::k3_divergence(own_N, old_N).sum(Kind::Float);
    let reported = Tensor::stack(&[&scalar, &clipped, &from_behaviour, &from_reference], 0);
    (scalar, reported)
}

/// Figures of the minibatches of one step.
#[derive(Default)]
struct RlReport {
    updates: f64,
    loss: f64,
    gradient_norm: f64,
    clipped: f64,
    from_behaviour: f64,
    from_reference: f64,
    learnt_tokens: f64,
    positions: f64,
}

impl RlReport {
    fn add(&mut self, sums: &[f64], norm: f64, sequences: &[Sequence]) {
        self.updates += 1.0;
        self.loss += sums[0];
        self.gradient_norm += norm;
        self.clipped += sums[1];
        self.from_behaviour += sums[2];
        self.from_reference += sums[3];
        self.learnt_tokens += sequences.iter().map(|sequence| sequence.targets.len()).sum::<usize>() as f64;
        self.positions += sequences.iter().map(Sequence::inputs).sum::<usize>() as f64;
    }

    fn metrics(&self, episodes: &[TrainEpisode], learning_rate: f64) -> StepMetrics {
        let (updates, tokens) = (self.updates.max(1.0), self.learnt_tokens.max(1.0));
        let advantages: Vec<f64> = episodes.iter().filter_map(TrainEpisode::advantage).collect();
        let count = advantages.len().max(1) as f64;
        let mean = advantages.iter().sum::<f64>() / count;
        let variance = advantages.iter().map(|advantage| (advantage - mean).powi(2)).sum::<f64>() / count;
        let learning = advantages.iter().filter(|advantage| **advantage != 0.0).count();
        named([
            ("loss", self.loss / updates),
            ("gradient_norm", self.gradient_norm / updates),
            ("learning_rate", learning_rate),
            ("updates", self.updates),
            ("clip_fraction", self.clipped / tokens),
            ("behaviour_divergence", self.from_behaviour / tokens),
            ("reference_divergence", self.from_reference / tokens),
            ("advantage_mean", mean),
            ("advantage_std", variance.sqrt()),
            ("episodes_with_advantage", learning as f64),
            ("tokens", episodes.iter().map(|episode| episode.tokens).sum::<usize>() as f64),
            ("positions", self.positions),
        ])
    }
}

impl TrainEpisode {
    /// The advantage of the episode's first learnt token, which for a solo agent is the episode's.
    fn advantage(&self) -> Option<f64> {
        Some(f64::from(self.sequences.first()?.targets.first()?.advantage))
    }
}

fn named<const COUNT: usize>(figures: [(&str, f64); COUNT]) -> StepMetrics {
    figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}

/// The sequences of a minibatch with each token's share of its loss. Sequences from which nothing can be learnt, as
/// their advantages are 0 and nothing else pulls, count in the shares but are not computed.
fn weigh<'a>(minibatch: impl Iterator<Item = &'a TrainEpisode> + Clone, flags: &Algorithm) -> Vec<Sequence> {
    let episodes = minibatch.clone().count() as f32;
    let tokens: usize = minibatch.clone().map(|episode| episode.tokens).sum();
    let only_surrogate = flags.kl_beta == 0.0 && flags.entropy_bonus == 0.0;
    let mut weighed = Vec::new();
    for episode in minibatch {
        let weight = match flags.aggregation {
            Aggregation::Token => 1.0 / tokens as f32,
            Aggregation::Sequence => 1.0 / (episodes * episode.tokens as f32),
            Aggregation::Constant => 1.0 / (episodes * flags.constant_tokens.unwrap_or(1) as f32),
        };
        for sequence in &episode.sequences {
            if only_surrogate && sequence.targets.iter().all(|target| target.advantage == 0.0) {
                continue;
            }
            let mut sequence = sequence.clone();
            for target in &mut sequence.targets {
                target.weight = weight;
            }
            weighed.push(sequence);
        }
    }
    weighed
}

/// Lays out demonstrations: tokens that the expert wrote share a weight of 1, all others one of `other_tokens`.
pub(crate) fn demonstration_sequences(
    demonstrations: &[Segment],
    other_tokens: f64,
) -> Result<Vec<Sequence>, TrainerError> {
    let learnable =
        |segment: &Segment, sampled: bool| segment.sampled.iter().skip(1).filter(|found| **found == sampled).count();
    let count = |sampled: bool| demonstrations.iter().map(|segment| learnable(segment, sampled)).sum::<usize>();
    let (by_expert, others) = (count(true), count(false));
    if by_expert == 0 {
        let problem = "none of their tokens is marked as sampled".to_owned();
        return Err(TrainerError::Data { what: format!("{} demonstrations", demonstrations.len()), problem });
    }
    let weights = [(other_tokens / others.max(1) as f64) as f32, 1.0 / by_expert as f32];
    let sequences = demonstrations.iter().filter_map(|segment| {
        let targets = segment.sampled.iter().enumerate().skip(1).map(|(at, sampled)| Target {
            at,
            weight: weights[usize::from(*sampled)],
            behaviour: 0.0,
            advantage: f32::from(u8::from(*sampled)),
        });
        Sequence::new(&segment.tokens, targets.filter(|target| target.weight > 0.0).collect())
    });
    Ok(sequences.collect())
}

/// Lays out groups of episodes with each token's advantage. Weights are set later, for each minibatch.
pub(crate) fn train_episodes(groups: &[Vec<EpisodeRecord>], settings: &RlSettings) -> Vec<TrainEpisode> {
    let flags = &settings.algorithm;
    let mut episodes = Vec::new();
    for group in groups {
        let compared = group_advantages(group, flags.baseline, flags.scale);
        episodes.extend(compared.iter().map(|(record, _)| {
            let learnt = record.segments.iter().filter(|segment| settings.learns_from(segment));
            let laid_out = learnt.filter_map(|segment| episode_sequence(segment, record, &compared));
            let sequences: Vec<Sequence> = laid_out.collect();
            let tokens = sequences.iter().map(|sequence| sequence.targets.len()).sum();
            TrainEpisode { sequences, tokens }
        }));
    }
    episodes.retain(|episode| episode.tokens > 0);
    episodes
}

/// A segment's sampled tokens, but for those of turns that belong to the episode from which this one parted: they are
/// learnt there, once.
fn episode_sequence(
    segment: &Segment,
    record: &EpisodeRecord,
    group: &[(&EpisodeRecord, Vec<f64>)],
) -> Option<Sequence> {
    let own = |at: &usize| segment.sampled[*at] && segment.turns[*at] >= record.shared_turns(segment.seats[*at]);
    let mut last = None;
    let targets = (1..segment.len()).filter(own).map(|at| {
        let said = (segment.seats[at], segment.turns[at]);
        let advantage = match last {
            Some((before, advantage)) if before == said => advantage,
            _ => turn_advantage(group, record.id, said.0, said.1) as f32,
        };
        last = Some((said, advantage));
        Target { at, weight: 0.0, behaviour: segment.log_probs[at], advantage }
    });
    Sequence::new(&segment.tokens, targets.collect())
}
