//! Replay buffer: good episodes of earlier steps that are trained on again. Every checkpoint holds it.

use std::collections::VecDeque;

use gymkhana_record::Stream;
use serde::{Deserialize, Serialize};

use crate::advantage::{AdvantageInput, quantile};
use crate::layout::{Batch, EpisodeLayout};
use gymkhana_algorithm::Replay;
use gymkhana_engine::Column;

/// A stored episode: its advantage inputs, and its contexts with positions relative to the first input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stored {
    /// Weight version at the time of storage.
    version: u32,
    episode: EpisodeLayout,
    inputs: Vec<AdvantageInput>,
}

/// The buffer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Buffer {
    episodes: VecDeque<Stored>,
    /// Mean rewards of recent groups, oldest first.
    baselines: VecDeque<f64>,
}

impl Buffer {
    /// Adds a stored success of the same task to every group without a success, and stores this step's successes.
    /// Returns the number of groups that got one.
    pub(crate) fn backfill(&mut self, batch: &mut Batch, capacity: usize, success: f64, version: u32) -> f64 {
        let mut backfilled = 0.0;
        let good = |input: &&AdvantageInput| input.reward >= success;
        for group in 0..batch.groups {
            let members = || batch.inputs.iter().filter(move |input| input.group == group);
            let Some(first) = members().next().filter(|_| !members().any(|member| good(&member))) else { continue };
            let task = &batch.episodes[first.episode].task;
            if let Some(stored) = self.episodes.iter().find(|stored| stored.episode.task == *task) {
                stored.join(batch, group);
                backfilled += 1.0;
            }
        }
        for episode in 0..batch.episodes.len() {
            let of_episode = |input: &&AdvantageInput| input.episode == episode;
            if batch.inputs.iter().filter(of_episode).any(|input| good(&input)) {
                let stored = Stored::of(batch, episode, version);
                self.episodes.retain(|other| other.episode.task != stored.episode.task);
                self.store(stored, capacity);
            }
        }
        backfilled
    }

    /// Stored episodes to train on again, with advantages over the median of recent group means, and their weight.
    /// Stores this step's episodes with a positive advantage. Call it once the step's advantages are set.
    pub(crate) fn imitate(
        &mut self,
        batch: &Batch,
        replay: Replay,
        step: u64,
        version: u32,
        stream: &mut Stream,
    ) -> (Batch, f64) {
        let Replay::SelfImitation { capacity, baselines, stale_steps, ramp_steps } = replay else {
            return (Batch::default(), 0.0);
        };
        for group in 0..batch.groups {
            let members = batch.inputs.iter().filter(|input| input.group == group);
            let rewards: Vec<f64> = members.map(|input| input.reward).collect();
            if !rewards.is_empty() {
                self.baselines.push_back(rewards.iter().sum::<f64>() / rewards.len() as f64);
            }
        }
        while self.baselines.len() > baselines {
            self.baselines.pop_front();
        }
        let median = quantile(self.baselines.iter().copied().collect(), 0.5);
        self.episodes.retain(|stored| version.saturating_sub(stored.version) <= stale_steps);
        let mut found = Batch { groups: 1, ..Batch::default() };
        let mut chosen: Vec<&Stored> = self.episodes.iter().filter(|stored| stored.best() > median).collect();
        // At most as many as the step itself has, so that a full buffer does not multiply its cost.
        stream.shuffle(&mut chosen);
        chosen.into_iter().take(batch.episodes.len()).for_each(|stored| stored.join(&mut found, 0));
        for input in &mut found.inputs {
            let advantage = input.reward - median;
            let in_loss = f64::from(u8::from(advantage > 0.0));
            for (column, number) in [
                (Column::Advantage, advantage),
                (Column::Correction, Column::Correction.neutral()),
                (Column::BandSlope, Column::BandSlope.neutral()),
                (Column::BandOffset, Column::BandOffset.neutral()),
                (Column::LossMask, in_loss),
            ] {
                input.tokens.column_mut(column).fill(number);
            }
        }
        for episode in 0..batch.episodes.len() {
            let mut own = batch.inputs.iter().filter(|input| input.episode == episode);
            if own.any(|input| input.tokens.column_in_loss(Column::Advantage).any(|advantage| advantage > 0.0)) {
                self.store(Stored::of(batch, episode, version), capacity);
            }
        }
        (found, ramp(step, ramp_steps))
    }

    fn store(&mut self, stored: Stored, capacity: usize) {
        self.episodes.push_back(stored);
        while self.episodes.len() > capacity {
            self.episodes.pop_front();
        }
    }
}

/// SPEAR's weight: half a cosine from 0 to 1 over `steps` steps.
fn ramp(step: u64, steps: u64) -> f64 {
    if step >= steps {
        return 1.0;
    }
    0.5 * (1.0 - (std::f64::consts::PI * step as f64 / steps as f64).cos())
}

impl Stored {
    fn of(batch: &Batch, episode: usize, version: u32) -> Self {
        let own = |input: &&AdvantageInput| input.episode == episode;
        let first = batch.inputs.iter().position(|input| own(&input)).unwrap_or(0);
        let mut layout = batch.episodes[episode].clone();
        for position in layout.contexts.iter_mut().flat_map(|context| &mut context.positions) {
            position.input -= first;
        }
        Self { version, episode: layout, inputs: batch.inputs.iter().filter(own).cloned().collect() }
    }

    fn best(&self) -> f64 {
        self.inputs.iter().map(|input| input.reward).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Appends the episode to a batch as a member of a group.
    fn join(&self, batch: &mut Batch, group: usize) {
        let (first, episode) = (batch.inputs.len(), batch.episodes.len());
        let mut layout = self.episode.clone();
        for position in layout.contexts.iter_mut().flat_map(|context| &mut context.positions) {
            position.input += first;
        }
        batch.episodes.push(layout);
        batch.inputs.extend(self.inputs.iter().map(|input| {
            let mut input = AdvantageInput { group, episode, ..input.clone() };
            input.tokens.column_mut(Column::LossMask).fill(1.0);
            input.turns.iter_mut().for_each(|turn| turn.shared_with = None);
            input
        }));
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;
    use crate::advantage::TurnPart;
    use gymkhana_engine::TokenStats;

    fn batch(rewards: &[f64]) -> Batch {
        let mut batch = Batch { groups: 1, ..Batch::default() };
        for (episode, reward) in rewards.iter().enumerate() {
            let mut input = AdvantageInput { episode, reward: *reward, ..AdvantageInput::default() };
            let mut tokens = TokenStats::default();
            tokens.push(&[(Column::Advantage, reward - 0.5)]);
            input.push_turn(TurnPart::default(), &tokens);
            batch.inputs.push(input);
            batch.episodes.push(EpisodeLayout { task: "train/3".to_owned(), contexts: vec![] });
        }
        batch
    }

    fn rewards(batch: &Batch) -> Vec<f64> {
        batch.inputs.iter().map(|input| input.reward).collect()
    }

    #[test]
    fn groups_without_a_success_are_backfilled() {
        let mut buffer = Buffer::default();
        let mut solved = batch(&[0.0, 1.0]);
        assert_eq!(buffer.backfill(&mut solved, 4, 1.0, 0), 0.0);
        assert_eq!(rewards(&solved), [0.0, 1.0], "a group with a success stays as it is");
        let mut failed = batch(&[0.0, 0.5]);
        assert_eq!(buffer.backfill(&mut failed, 4, 1.0, 1), 1.0);
        assert_eq!(rewards(&failed), [0.0, 0.5, 1.0]);
        assert_eq!((failed.inputs[2].episode, failed.episodes.len()), (2, 3));
        let mut other = batch(&[0.0]);
        other.episodes[0].task = "train/4".to_owned();
        assert_eq!(buffer.backfill(&mut other, 4, 1.0, 1), 0.0);
        assert_eq!(rewards(&other), [0.0], "a success of another task does not count");
    }

    #[test]
    fn episodes_above_the_median_are_imitated_until_they_are_stale() {
        let replay = Replay::SelfImitation { capacity: 2, baselines: 3, stale_steps: 1, ramp_steps: 4 };
        let (mut buffer, mut stream) = (Buffer::default(), Seed(1).stream());
        let mut imitate =
            |rewards: &[f64], step: u64| buffer.imitate(&batch(rewards), replay, step, step as u32, &mut stream);
        let (found, weight) = imitate(&[0.0, 1.0], 0);
        assert_eq!((rewards(&found).len(), weight), (0, 0.0));
        // Means so far 0.5 and 0.25: their median is 0.375.
        let (found, weight) = imitate(&[0.0, 0.5], 1);
        assert_eq!(rewards(&found), [1.0]);
        assert_eq!(found.inputs[0].tokens.get(Column::Advantage, 0), 1.0 - 0.375);
        assert!((weight - 0.5 * (1.0 - (std::f64::consts::PI / 4.0).cos())).abs() < 1e-12);
        let (found, _) = imitate(&[0.0, 0.0], 2);
        assert!(rewards(&found).is_empty(), "it is two steps old");
        assert_eq!(ramp(4, 4), 1.0);
    }
}
