//! One reinforcement learning step: annotate every token, compute advantages, then take minibatch steps.
#![allow(non_snake_case)]

use gymkhana_record::{Seed, StepMetrics, Stream};
use tch::Tensor;

use super::forward::{Pass, accumulate, log_probs};
use super::layout::Batch;
use super::minibatch::{tokens_in_loss, value_sequences, weigh};
use super::on_policy::{self, OnPolicy};
use super::pairs;
use super::report::Report;
use super::{Learner, Teacher};
use crate::TrainerError;
use crate::advantage;
use crate::batch::{Packed, Sequence, parts, positions};
use crate::loss::{Objective, objective};
use crate::model::Model;
use crate::token_stats::Column;
use gymkhana_algorithm::RlSettings;
use gymkhana_algorithm::{Ratio, Replay};

impl Learner {
    /// Trains on a batch of episodes: one optimiser step for each minibatch of each epoch that has tokens in the loss.
    /// `version` is the current weight version.
    pub fn rl_step(
        &mut self,
        model: &mut Model,
        mut batch: Batch,
        settings: &RlSettings,
        seed: Seed,
        version: u32,
    ) -> Result<StepMetrics, TrainerError> {
        let flags = &settings.algorithm;
        let step = self.state.steps;
        let chance = |name: &str| seed.child(name).child(step).stream();
        if let Some(Replay::Backfill { capacity, success }) = flags.replay {
            self.state.buffer.backfill(&mut batch, capacity, success, version);
        }
        self.annotate(model, &mut batch, settings)?;
        let memory = &mut self.state.memory;
        advantage::compute(&mut batch.inputs, flags, memory, version, &mut chance("covariance"));
        let mut report = Report::default();
        if flags.off_policy.is_some() {
            report.on_policy = OnPolicy::of(&batch, version);
        }
        let mut again = self.replay(model, &batch, settings, version, &mut chance("replay"), &mut report)?;
        let mut shuffle = chance("minibatches");
        for _ in 0..flags.epochs {
            for minibatch in minibatches(&batch, settings, &mut shuffle) {
                self.critic_step(&batch, &minibatch, settings, &mut report)?;
                if flags.critic.is_some_and(|critic| step < critic.warmup_steps) {
                    continue;
                }
                let before = report.sums[0];
                let mut pair_loss = None;
                if flags.pairs() {
                    let values = log_probs(model, &model.weights(), &batch.all_sequences(), pass(settings))?;
                    batch.annotate(Column::Proximal, &values);
                    pair_loss = Some(pairs::compare(&mut batch, &minibatch, flags.surrogate));
                }
                let mut weighed = weigh(&batch, &minibatch, settings, 1.0);
                weighed.append(&mut again);
                self.minibatch(model, &weighed, settings, version, &mut report)?;
                if let Some(loss) = pair_loss {
                    report.sums[0] = before + loss;
                }
            }
        }
        // Replayed sequences join the first minibatch; without one they are a minibatch by themselves.
        self.minibatch(model, &again, settings, version, &mut report)?;
        self.state.steps += 1;
        let learning_rate = settings.optimizer.learning_rate_at(self.optimizer.steps().saturating_sub(1));
        Ok(report.metrics(&batch, learning_rate))
    }

    /// Sets the columns of every token that the flags need from the proximal, reference, teacher and critic models.
    fn annotate(&self, model: &Model, batch: &mut Batch, settings: &RlSettings) -> Result<(), TrainerError> {
        let flags = &settings.algorithm;
        let reference = self.reference.as_ref().filter(|_| flags.stage_models().reference);
        let teacher = self.teacher.as_ref().filter(|_| flags.wants_teacher());
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
        }
        Ok(())
    }

    /// Sequences of replayed episodes.
    fn replay(
        &mut self,
        model: &Model,
        batch: &Batch,
        settings: &RlSettings,
        version: u32,
        stream: &mut Stream,
        report: &mut Report,
    ) -> Result<Vec<Sequence>, TrainerError> {
        let flags = &settings.algorithm;
        let Some(replay @ Replay::SelfImitation { .. }) = flags.replay else { return Ok(Vec::new()) };
        let step = self.state.steps;
        let (mut again, factor) = self.state.buffer.imitate(batch, replay, step, version, stream);
        report.replayed = Some(again.episodes.len() as f64);
        if let Some(clip) = flags.covariance_clip {
            advantage::clip_covariance(&mut again.inputs, clip, stream);
        }
        self.annotate(model, &mut again, settings)?;
        let episodes: Vec<usize> = (0..again.episodes.len()).collect();
        Ok(if factor > 0.0 { weigh(&again, &episodes, settings, factor) } else { Vec::new() })
    }

    fn critic_step(
        &mut self,
        batch: &Batch,
        episodes: &[usize],
        settings: &RlSettings,
        report: &mut Report,
    ) -> Result<(), TrainerError> {
        let (Some(critic), Some(flags)) = (&mut self.critic, settings.algorithm.critic) else { return Ok(()) };
        let sequences = value_sequences(batch, episodes);
        if !sequences.is_empty() {
            let loss = critic.step(&sequences, flags, &settings.optimizer, settings.micro_batch_tokens)?;
            let (losses, steps) = report.values.unwrap_or_default();
            report.values = Some((losses + loss, steps + 1.0));
        }
        Ok(())
    }

    fn minibatch(
        &mut self,
        model: &mut Model,
        sequences: &[Sequence],
        settings: &RlSettings,
        version: u32,
        report: &mut Report,
    ) -> Result<(), TrainerError> {
        if sequences.is_empty() {
            return Ok(());
        }
        let flags = &settings.algorithm;
        let separable = matches!(flags.ratio, Some(Ratio::Token) | None);
        let parts = parts(sequences, settings.micro_batch_tokens, settings.share_beginnings);
        // The first pass still has the weights that sampled. With a correction, all tokens were compared before.
        let compares = report.updates == 0.0 && flags.off_policy.is_none();
        model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))?;
        for part in &parts {
            let packed = Packed::new(part, model.device());
            let inputs = packed.inputs(flags.ratio);
            let sums = accumulate(model, &packed, &inputs, pass(settings), separable, &|own, entropies, inputs| {
                let Objective { loss, sums } = objective(flags, own, entropies, inputs);
                Objective { loss, sums: Tensor::cat(&[sums, on_policy::sums(own, inputs, version)], 0) }
            });
            let sum_at = |index: usize| sums.double_value(&[index as i64]);
            for (index, sum) in report.sums.iter_mut().enumerate() {
                *sum += sum_at(index);
            }
            if compares {
                let first = report.sums.len();
                report.on_policy.add(sum_at(first), sum_at(first + 1));
            }
        }
        report.gradient_norm += self.optimizer.step(model.trained(), &settings.optimizer)?;
        report.updates += 1.0;
        report.tokens += sequences.iter().map(|sequence| sequence.targets.len()).sum::<usize>() as f64;
        report.positions += positions(&parts) as f64;
        Ok(())
    }
}

fn pass(settings: &RlSettings) -> Pass {
    let entropies = settings.algorithm.entropy_bonus > 0.0;
    let RlSettings { temperature, micro_batch_tokens, activation_checkpointing, .. } = *settings;
    Pass { temperature, entropies, micro_batch_tokens, activation_checkpointing }
}

/// Episodes of each minibatch of an epoch. With a loss over pairs, the episodes of a group stay together.
fn minibatches(batch: &Batch, settings: &RlSettings, shuffle: &mut Stream) -> Vec<Vec<usize>> {
    let flags = &settings.algorithm;
    let in_loss = tokens_in_loss(batch);
    let mut units: Vec<Vec<usize>> = Vec::new();
    if flags.pairs() {
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
