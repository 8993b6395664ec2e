//! One reinforcement learning step: annotate every token, compute advantages, then take minibatch steps.
#![allow(non_snake_case)]

pub mod remote;
mod step_bound;
mod supervised;
#[cfg(test)]
mod tests;

use gymkhana_record::step_metrics::rl;
use gymkhana_record::{Seed, StepMetrics, Stream};
use tch::Tensor;

use step_bound::StepBound;
use supervised::Supervised;
pub(super) use supervised::accumulate_supervised;

use super::forward::{Pass, TeacherPass, accumulate, log_probs, measure};
use super::layout::Batch;
use super::minibatch::{Minibatch, tokens_in_loss, value_sequences, weigh};
use super::on_policy::{self, OnPolicy};
use super::report::{StepSums, Sums};
use super::whole_episodes::{self, Judged};
use super::{Learner, Teacher};
use crate::TrainerError;
use crate::advantage;
use crate::batch::{Packed, Sequence, parts, positions};
use crate::loss::{Inputs, Objective, PerToken, objective};
use crate::model::Model;
use crate::token_stats::Column;
use gymkhana_algorithm::{Algorithm, Credit, Ratio, Replay, RlSettings, Surrogate};

impl Learner {
    /// Trains on a batch of episodes: one optimiser step for each minibatch of each epoch that has tokens in the loss.
    /// Each of them adds the supervised loss on the demonstrations. `version` is the current weight version.
    pub fn rl_step(
        &mut self,
        model: &mut Model,
        (mut batch, demonstrations): (Batch, Vec<Sequence>),
        settings: &RlSettings,
        seed: Seed,
        version: u32,
    ) -> Result<StepMetrics, TrainerError> {
        let step = self.state.steps;
        let algorithm = settings.algorithm.at(step, self.state.kl_beta);
        let settings = &RlSettings { algorithm, ..settings.clone() };
        let flags = &settings.algorithm;
        let chance = |name: &str| seed.child(name).child(step).stream();
        let mut report = StepSums { entropy: batch.mean_entropy(), ..StepSums::default() };
        let weight = settings.demonstrations.map_or(0.0, |demonstrations| demonstrations.weight_at(step));
        let demonstrations = Supervised::new(demonstrations, weight);
        let warms_up = flags.critic.is_some_and(|critic| step < critic.warmup_steps);
        let mut has_stepped = false;
        if let Some(Replay::Backfill { capacity, success }) = flags.replay {
            report.backfilled = Some(self.state.buffer.backfill(&mut batch, capacity, success, version));
        }
        self.annotate(model, &mut batch, settings)?;
        let memory = &mut self.state.memory;
        advantage::compute_each(&mut batch.inputs, settings, memory, version, &mut chance("covariance"));
        if flags.off_policy.is_some() {
            report.on_policy = OnPolicy::of(&batch, version);
        }
        let mut again = Minibatch::default();
        if let Some(replay @ Replay::SelfImitation { .. }) = flags.replay {
            let (replayed, factor) = self.replay(model, &batch, replay, settings, version, &mut chance("replay"))?;
            report.replayed = Some(replayed.episodes.len() as f64);
            if factor > 0.0 {
                let episodes: Vec<usize> = (0..replayed.episodes.len()).collect();
                again = weigh(&replayed, &episodes, settings, factor);
            }
        }
        let mut shuffle = chance("minibatches");
        for _ in 0..flags.epochs {
            for minibatch in minibatches(&batch, settings, &mut shuffle) {
                self.critic_step(&batch, &minibatch, settings, &mut report)?;
                if warms_up {
                    continue;
                }
                let (before, updates) = (report.sums.loss, report.updates);
                let judged = match flags.of_whole_episodes() {
                    true => Some(self.judge(model, &mut batch, &minibatch, settings)?),
                    false => None,
                };
                let mut weighed = weigh(&batch, &minibatch, settings, 1.0);
                weighed.append(&mut again);
                has_stepped = true;
                self.minibatch(model, (&weighed, &demonstrations), settings, version, &mut report)?;
                if let Some(Judged { loss, preferences }) = judged.filter(|_| report.updates > updates) {
                    report.sums.loss = before + loss;
                    report.preferences.append(preferences);
                }
            }
        }
        // Replayed sequences join the first minibatch; without one they and the demonstrations are a minibatch.
        let alone = if has_stepped || warms_up { &Supervised::default() } else { &demonstrations };
        self.minibatch(model, (&again, alone), settings, version, &mut report)?;
        self.state.steps += 1;
        if let Some(kl) = flags.kl
            && let Some(adaptive) = kl.adaptive
            && let Some(divergence) = report.reference_divergence()
        {
            self.state.kl_beta = Some(adaptive.next(kl.beta, divergence, batch.episodes.len()));
        }
        self.update_reference(model, flags)?;
        let learning_rate = settings.optimizer.learning_rate_at(self.optimizer.steps().saturating_sub(1));
        let mut metrics = report.metrics(&batch, learning_rate);
        if let Some(kl) = flags.kl {
            metrics.push(rl::KL_BETA, kl.beta);
        }
        if flags.entropy_bonus > 0.0 || flags.entropy_schedule.is_some() {
            metrics.push(rl::ENTROPY_WEIGHT, flags.entropy_bonus);
        }
        if settings.demonstrations.is_some() {
            metrics.push(rl::DEMONSTRATION_WEIGHT, weight);
        }
        Ok(metrics)
    }

    /// Moves the reference policy towards the current one, if the flags say so after this many steps.
    fn update_reference(&mut self, model: &Model, flags: &Algorithm) -> Result<(), TrainerError> {
        let (Some(reference), Some(update)) = (&mut self.reference, flags.reference) else { return Ok(()) };
        let is_due = update.every.is_some_and(|every| self.state.steps.is_multiple_of(every));
        let share = update.ema.map_or(f64::from(u8::from(is_due)), |decay| 1.0 - decay);
        if share == 0.0 {
            return Ok(());
        }
        reference.approach(model.trained(), share).map_err(TrainerError::torch("updated the reference policy"))
    }

    /// Loss over whole episodes of a minibatch, and the advantages with its gradient.
    fn judge(
        &self,
        model: &Model,
        batch: &mut Batch,
        episodes: &[usize],
        settings: &RlSettings,
    ) -> Result<Judged, TrainerError> {
        let (flags, pass) = (&settings.algorithm, pass(settings));
        batch.annotate(Column::Proximal, &log_probs(model, &model.weights(), &batch.all_sequences(), pass)?);
        let mut reference_point = 0.0;
        if let (Surrogate::UnpairedPreference { .. }, Some(reference)) = (flags.surrogate, &self.reference) {
            let sequences = whole_episodes::unrelated(batch, episodes);
            let current = log_probs(model, &model.weights(), &sequences, pass)?;
            let reference = log_probs(model, &model.weights_of(reference), &sequences, pass)?;
            let sum = |values: &[Vec<f32>]| values.iter().flatten().copied().map(f64::from).sum::<f64>();
            let mean = (sum(&current) - sum(&reference)) / sequences.len().max(1) as f64;
            reference_point = mean.max(0.0);
        }
        Ok(whole_episodes::judge(batch, episodes, flags.surrogate, reference_point))
    }

    /// Sets the columns of every token that the flags need from the proximal, reference, teacher and critic models.
    fn annotate(&self, model: &Model, batch: &mut Batch, settings: &RlSettings) -> Result<(), TrainerError> {
        let flags = &settings.algorithm;
        // Also measured in steps in which a scheduled weight is 0.
        let measured = flags.kl.is_some() || flags.stage_models().reference;
        let reference = self.reference.as_ref().filter(|_| measured);
        let teacher = self.teacher.as_ref().filter(|_| flags.credit == (Credit::Teacher {}));
        if flags.off_policy.is_none() && reference.is_none() && teacher.is_none() && self.critic.is_none() {
            return Ok(());
        }
        let (sequences, pass) = (batch.all_sequences(), pass(settings));
        if flags.off_policy.is_some() {
            batch.annotate(Column::Proximal, &log_probs(model, &model.weights(), &sequences, pass)?);
        }
        if let Some(reference) = reference {
            batch.annotate(Column::Reference, &log_probs(model, &model.weights_of(reference), &sequences, pass)?);
        }
        if let Some(Teacher { model, .. }) = teacher {
            batch.annotate(Column::Teacher, &log_probs(model, &model.weights(), &sequences, pass)?);
        }
        if let Some(critic) = &self.critic {
            batch.annotate(Column::Value, &critic.predict(&sequences, settings.micro_batch_tokens)?);
            if flags.critic.is_some_and(|critic| critic.bootstrap) {
                let (inputs, sequences): (Vec<usize>, Vec<Sequence>) = batch.ends_cut_short().unzip();
                let values = critic.predict(&sequences, settings.micro_batch_tokens)?;
                for (input, value) in inputs.into_iter().zip(values.concat()) {
                    batch.inputs[input].end_value = f64::from(value);
                }
            }
        }
        Ok(())
    }

    /// Episodes to train on again, with their advantages and corrections, and their weight in the loss.
    fn replay(
        &mut self,
        model: &Model,
        batch: &Batch,
        replay: Replay,
        settings: &RlSettings,
        version: u32,
        stream: &mut Stream,
    ) -> Result<(Batch, f64), TrainerError> {
        let step = self.state.steps;
        let (mut again, factor) = self.state.buffer.imitate(batch, replay, step, version, stream);
        self.annotate(model, &mut again, settings)?;
        advantage::correct_replayed(&mut again.inputs, &settings.algorithm, version, stream);
        Ok((again, factor))
    }

    fn critic_step(
        &mut self,
        batch: &Batch,
        episodes: &[usize],
        settings: &RlSettings,
        report: &mut StepSums,
    ) -> Result<(), TrainerError> {
        let (Some(critic), Some(flags)) = (&mut self.critic, settings.algorithm.critic) else { return Ok(()) };
        let sequences = value_sequences(batch, episodes);
        if !sequences.is_empty() {
            match critic.step(&sequences, flags, &settings.optimizer, settings.micro_batch_tokens)? {
                Some(loss) => {
                    let (losses, steps) = report.values.unwrap_or_default();
                    report.values = Some((losses + loss, steps + 1.0));
                }
                None => report.skipped += 1.0,
            }
        }
        Ok(())
    }

    /// One optimiser step on the minibatch's sequences with a gradient. All of its sequences are measured.
    fn minibatch(
        &mut self,
        model: &mut Model,
        (minibatch, demonstrations): (&Minibatch, &Supervised),
        settings: &RlSettings,
        version: u32,
        report: &mut StepSums,
    ) -> Result<(), TrainerError> {
        let Minibatch { trained, idle } = minibatch;
        let flags = &settings.algorithm;
        let separable = matches!(flags.ratio, Some(Ratio::Token) | None);
        // The first pass still has the weights that sampled. With a correction, all tokens were compared before.
        let compares = report.updates == 0.0 && flags.off_policy.is_none();
        let bound = settings.step_divergence.map(StepBound::new);
        let evaluate = |terms: &PerToken, inputs: &Inputs| {
            bound.iter().for_each(|bound| bound.keep(terms));
            let Objective { loss, sums } = objective(flags, terms, inputs);
            Objective { loss, sums: Tensor::cat(&[sums, on_policy::sums(&terms.log_probs_N, inputs, version)], 0) }
        };
        let teacher = self.teacher.as_ref().and_then(|teacher| TeacherPass::new(&teacher.model, flags.surrogate));
        let (mut sums, mut on_policy) = (Sums::default(), OnPolicy::default());
        model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))?;
        let [with_gradient, others] =
            [trained, idle].map(|own| parts(own, settings.micro_batch_tokens, settings.share_beginnings));
        let begin = || bound.iter().for_each(StepBound::begin);
        for part in &with_gradient {
            begin();
            let packed = Packed::new(part, model.device());
            let inputs = packed.inputs(flags.ratio);
            let found = accumulate(model, &packed, &inputs, pass(settings), teacher.as_ref(), separable, &evaluate)
                .map_err(TrainerError::torch("computed gradients"))?;
            sums.add(&found);
            on_policy.add(&found);
        }
        for part in &others {
            begin();
            let packed = Packed::new(part, model.device());
            let found = measure(model, &packed, &packed.inputs(flags.ratio), pass(settings), &evaluate)
                .map_err(TrainerError::torch("compared tokens without gradients"))?;
            sums.add(&found);
            on_policy.add(&found);
        }
        let supervised =
            demonstrations.accumulate(model, Pass { temperature: 1.0, entropies: false, ..pass(settings) })?;
        drop(teacher);
        if !trained.is_empty() || supervised.is_some() {
            let positions = positions(&with_gradient) as f64;
            let (mut divergence, sequences) = (None, trained.len() + idle.len());
            let share = |model: &Model| {
                let Some(bound) = bound else { return Ok(1.0) };
                let found = bound.divergence(model, &[with_gradient, others].concat(), pass(settings))?;
                divergence = Some(found);
                let informative = if supervised.is_some() { 1.0 } else { trained.len() as f64 / sequences as f64 };
                Ok(bound.share(found, informative))
            };
            let Some(norm) = self.optimizer_step(model, &settings.optimizer, share)? else {
                report.skipped += 1.0;
                return Ok(());
            };
            report.step_divergences.extend(divergence);
            report.gradient_norm += norm;
            report.updates += 1.0;
            report.positions += positions;
            report.supervised.extend(supervised);
        }
        report.sums += sums;
        report.tokens += trained.iter().chain(idle).map(|sequence| sequence.stats.originals()).sum::<usize>() as f64;
        if compares {
            report.on_policy += on_policy;
        }
        Ok(())
    }
}

fn pass(settings: &RlSettings) -> Pass {
    let entropies = settings.algorithm.entropy_bonus > 0.0;
    let RlSettings { temperature, micro_batch_tokens, activation_checkpointing, .. } = *settings;
    Pass { temperature, entropies, micro_batch_tokens, activation_checkpointing }
}

/// Episodes of each minibatch of an epoch. With a loss over pairs, the episodes of a group stay together, and so do those
/// of a tree with another loss over whole episodes.
fn minibatches(batch: &Batch, settings: &RlSettings, shuffle: &mut Stream) -> Vec<Vec<usize>> {
    let flags = &settings.algorithm;
    let in_loss = tokens_in_loss(batch);
    let mut units: Vec<Vec<usize>> = Vec::new();
    let is_tree = || batch.inputs.iter().flat_map(|input| &input.turns).any(|turn| turn.shared_with.is_some());
    if flags.pairs() || (matches!(flags.surrogate, Surrogate::UnpairedPreference { .. }) && is_tree()) {
        units.resize(batch.groups, Vec::new());
        for input in &batch.inputs {
            if !units[input.group].contains(&input.episode) {
                units[input.group].push(input.episode);
            }
        }
    } else {
        units.extend((0..batch.episodes.len()).filter(|episode| in_loss[*episode] > 0).map(|episode| vec![episode]));
    }
    if flags.minibatches > 1 {
        shuffle.shuffle(&mut units);
    }
    // The requested number of minibatches, as even as possible.
    let (count, parts) = (units.len(), (flags.minibatches as usize).min(units.len()));
    (0..parts).map(|part| units[part * count / parts..(part + 1) * count / parts].concat()).collect()
}
