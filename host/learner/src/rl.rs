//! One reinforcement learning step: annotate every token, compute advantages, then take minibatch steps.
mod step_bound;
mod supervised;
#[cfg(test)]
mod tests;

use gymkhana_algorithm::{Algorithm, Credit, Replay, RlSettings, Surrogate};
use gymkhana_engine::{Column, Engine, Loss, LossSums, Pass, Passed, Scorer, Sequence, Share, Stepped};
use gymkhana_record::step_metrics::rl;
use gymkhana_record::{Seed, StepMetrics, Stream};

use step_bound::StepBound;
use supervised::Supervised;

use crate::advantage::{self, AdvantageState};
use crate::layout::Batch;
use crate::minibatch::{Minibatch, tokens_in_loss, value_sequences, weigh};
use crate::on_policy::OnPolicy;
use crate::replay::Buffer;
use crate::report::StepSums;
use crate::whole_episodes::{self, Judged};

/// A learner in a stage. Its state is part of every checkpoint.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learner {
    /// Steps of reinforcement learning so far.
    pub steps: u64,
    /// Adaptive weight of the divergence penalty; absent before its first update.
    pub kl_beta: Option<f64>,
    /// Running statistics of advantages.
    pub memory: AdvantageState,
    /// Episodes to train on again.
    pub buffer: Buffer,
}

impl Learner {
    /// Trains on a batch of episodes: one optimiser step for each minibatch of each epoch that has tokens in the loss.
    /// Each of them adds the supervised loss on the demonstrations. `version` is the current weight version.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn rl_step<E: Engine>(
        &mut self,
        engine: &mut E,
        (mut batch, demonstrations): (Batch, Vec<Sequence>),
        settings: &RlSettings,
        seed: Seed,
        version: u32,
    ) -> Result<StepMetrics, E::Error> {
        let step = self.steps;
        let algorithm = settings.algorithm.at(step, self.kl_beta);
        let settings = &RlSettings { algorithm, ..settings.clone() };
        let flags = &settings.algorithm;
        let chance = |name: &str| seed.child(name).child(step).stream();
        let mut report = StepSums { entropy: batch.mean_entropy(), ..StepSums::default() };
        let weight = settings.demonstrations.map_or(0.0, |demonstrations| demonstrations.weight_at(step));
        let demonstrations = Supervised::new(demonstrations, weight);
        let warms_up = flags.critic.is_some_and(|critic| step < critic.warmup_steps);
        let mut has_stepped = false;
        if let Some(Replay::Backfill { capacity, success }) = flags.replay {
            report.backfilled = Some(self.buffer.backfill(&mut batch, capacity, success, version));
        }
        annotate(engine, &mut batch, settings)?;
        let memory = &mut self.memory;
        advantage::compute_each(&mut batch.inputs, settings, memory, version, &mut chance("covariance"));
        if flags.off_policy.is_some() {
            report.on_policy = OnPolicy::of(&batch, version);
        }
        let mut again = Minibatch::default();
        if let Some(replay @ Replay::SelfImitation { .. }) = flags.replay {
            let (replayed, factor) = self.replay(engine, &batch, replay, settings, version, &mut chance("replay"))?;
            report.replayed = Some(replayed.episodes.len() as f64);
            if factor > 0.0 {
                let episodes: Vec<usize> = (0..replayed.episodes.len()).collect();
                again = weigh(&replayed, &episodes, settings, factor);
            }
        }
        let mut shuffle = chance("minibatches");
        for _ in 0..flags.epochs {
            for minibatch in minibatches(&batch, settings, &mut shuffle) {
                critic_step(engine, &batch, &minibatch, settings, &mut report)?;
                if warms_up {
                    continue;
                }
                let (before, updates) = (report.sums.loss, report.updates);
                let judged = match flags.of_whole_episodes() {
                    true => Some(judge(engine, &mut batch, &minibatch, settings)?),
                    false => None,
                };
                let mut weighed = weigh(&batch, &minibatch, settings, 1.0);
                weighed.append(&mut again);
                has_stepped = true;
                update(engine, (&weighed, &demonstrations), settings, version, &mut report)?;
                if let Some(Judged { loss, preferences }) = judged.filter(|_| report.updates > updates) {
                    report.sums.loss = before + loss;
                    report.preferences.append(preferences);
                }
            }
        }
        // Replayed sequences join the first minibatch; without one they and the demonstrations are a minibatch.
        let alone = if has_stepped || warms_up { &Supervised::default() } else { &demonstrations };
        update(engine, (&again, alone), settings, version, &mut report)?;
        self.steps += 1;
        if let Some(kl) = flags.kl
            && let Some(adaptive) = kl.adaptive
            && let Some(divergence) = report.reference_divergence()
        {
            self.kl_beta = Some(adaptive.next(kl.beta, divergence, batch.episodes.len()));
        }
        self.update_reference(engine, flags)?;
        let learning_rate = settings.optimizer.learning_rate_at(engine.optimizer_steps().saturating_sub(1));
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
    fn update_reference<E: Engine>(&self, engine: &mut E, flags: &Algorithm) -> Result<(), E::Error> {
        let Some(update) = flags.reference.filter(|_| engine.further_models().reference) else { return Ok(()) };
        let is_due = update.every.is_some_and(|every| self.steps.is_multiple_of(every));
        let share = update.ema.map_or(f64::from(u8::from(is_due)), |decay| 1.0 - decay);
        if share == 0.0 { Ok(()) } else { engine.approach_reference(share) }
    }

    /// Episodes to train on again, with their advantages and corrections, and their weight in the loss.
    fn replay<E: Engine>(
        &mut self,
        engine: &E,
        batch: &Batch,
        replay: Replay,
        settings: &RlSettings,
        version: u32,
        stream: &mut Stream,
    ) -> Result<(Batch, f64), E::Error> {
        let (mut again, factor) = self.buffer.imitate(batch, replay, self.steps, version, stream);
        annotate(engine, &mut again, settings)?;
        advantage::correct_replayed(&mut again.inputs, &settings.algorithm, version, stream);
        Ok((again, factor))
    }
}

/// Loss over whole episodes of a minibatch, and the advantages with its gradient.
fn judge<E: Engine>(
    engine: &E,
    batch: &mut Batch,
    episodes: &[usize],
    settings: &RlSettings,
) -> Result<Judged, E::Error> {
    let (flags, pass) = (&settings.algorithm, pass(settings));
    batch.annotate(Column::Proximal, &engine.log_probs(Scorer::Policy, &batch.all_sequences(), pass)?);
    let mut reference_point = 0.0;
    if matches!(flags.surrogate, Surrogate::UnpairedPreference { .. }) && engine.further_models().reference {
        let sequences = whole_episodes::unrelated(batch, episodes);
        let [current, reference] =
            [Scorer::Policy, Scorer::Reference].map(|scorer| engine.log_probs(scorer, &sequences, pass));
        let sum = |values: &[Vec<f32>]| values.iter().flatten().copied().map(f64::from).sum::<f64>();
        let mean = (sum(&current?) - sum(&reference?)) / sequences.len().max(1) as f64;
        reference_point = mean.max(0.0);
    }
    Ok(whole_episodes::judge(batch, episodes, flags.surrogate, reference_point))
}

/// Sets the columns of every token that the flags need from the proximal, reference, teacher and critic models.
fn annotate<E: Engine>(engine: &E, batch: &mut Batch, settings: &RlSettings) -> Result<(), E::Error> {
    let (flags, models) = (&settings.algorithm, engine.further_models());
    // Also measured in steps in which a scheduled weight is 0.
    let measured = flags.kl.is_some() || flags.stage_models().reference;
    let wanted = [
        (flags.off_policy.is_some(), Scorer::Policy, Column::Proximal),
        (models.reference && measured, Scorer::Reference, Column::Reference),
        (models.teacher && flags.credit == (Credit::Teacher {}), Scorer::Teacher, Column::Teacher),
    ];
    if !models.critic && !wanted.iter().any(|(wanted, ..)| *wanted) {
        return Ok(());
    }
    let (sequences, pass) = (batch.all_sequences(), pass(settings));
    for (_, scorer, column) in wanted.into_iter().filter(|(wanted, ..)| *wanted) {
        batch.annotate(column, &engine.log_probs(scorer, &sequences, pass)?);
    }
    if models.critic {
        batch.annotate(Column::Value, &engine.values(&sequences, pass)?);
        if flags.critic.is_some_and(|critic| critic.bootstrap) {
            let (inputs, sequences): (Vec<usize>, Vec<Sequence>) = batch.ends_cut_short().unzip();
            let values = engine.values(&sequences, pass)?;
            for (input, value) in inputs.into_iter().zip(values.concat()) {
                batch.inputs[input].end_value = f64::from(value);
            }
        }
    }
    Ok(())
}

/// A step of the critic, if there is one, on the values of some episodes.
fn critic_step<E: Engine>(
    engine: &mut E,
    batch: &Batch,
    episodes: &[usize],
    settings: &RlSettings,
    report: &mut StepSums,
) -> Result<(), E::Error> {
    let Some(critic) = settings.algorithm.critic.filter(|_| engine.further_models().critic) else { return Ok(()) };
    let sequences = value_sequences(batch, episodes);
    if !sequences.is_empty() {
        match engine.value_step(&sequences, critic, &settings.optimizer, pass(settings))? {
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
fn update<E: Engine>(
    engine: &mut E,
    (minibatch, demonstrations): (&Minibatch, &Supervised),
    settings: &RlSettings,
    version: u32,
    report: &mut StepSums,
) -> Result<(), E::Error> {
    let Minibatch { trained, idle } = minibatch;
    // The first pass still has the weights that sampled. With a correction, all tokens were compared before.
    let compares = report.updates == 0.0 && settings.algorithm.off_policy.is_none();
    let (loss, pass) = (Loss::Policy { flags: &settings.algorithm, version }, pass(settings));
    engine.begin_update()?;
    let found = match &trained[..] {
        [] => Passed::default(),
        trained => engine.accumulate(trained, loss, pass)?,
    };
    let measured = match &idle[..] {
        [] => Passed::default(),
        idle => engine.measure(idle, loss, pass)?,
    };
    let supervised = demonstrations.accumulate(engine, pass)?;
    let mut sums: LossSums = found.sums;
    sums += measured.sums;
    if !trained.is_empty() || supervised.is_some() {
        let bound = settings.step_divergence.filter(|_| engine.shortens_steps()).map(StepBound::new);
        let mut divergence = None;
        let informative = match supervised {
            Some(_) => 1.0,
            None => trained.len() as f64 / (trained.len() + idle.len()) as f64,
        };
        let mut share = |engine: &E| {
            let Some(bound) = bound else { return Ok(1.0) };
            let moved = bound.divergence(engine, &[(trained, &found.log_probs), (idle, &measured.log_probs)], pass)?;
            divergence = Some(moved);
            Ok(bound.share(moved, informative))
        };
        let share = bound.is_some().then_some(&mut share as &mut Share<'_, E>);
        let Stepped::Taken { gradient_norm } = engine.step(&settings.optimizer, share)? else {
            report.skipped += 1.0;
            return Ok(());
        };
        report.step_divergences.extend(divergence);
        report.gradient_norms.extend(gradient_norm);
        report.updates += 1.0;
        report.positions += found.positions as f64;
        report.supervised.extend(supervised);
    }
    report.sums += sums;
    report.tokens += trained.iter().chain(idle).map(|sequence| sequence.stats.originals()).sum::<usize>() as f64;
    if compares {
        report.on_policy += OnPolicy::measured(&sums);
    }
    Ok(())
}

fn pass(settings: &RlSettings) -> Pass {
    let entropies = settings.algorithm.entropy_bonus > 0.0;
    let RlSettings { temperature, micro_batch_tokens, activation_checkpointing, share_beginnings, .. } = *settings;
    Pass { temperature, entropies, micro_batch_tokens, activation_checkpointing, share_beginnings }
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
