//! Good episodes of earlier steps, kept and learnt from again. What is kept is a part of every checkpoint.

use std::collections::VecDeque;

use gymkhana_record::Stream;
use serde::{Deserialize, Serialize};

use super::layout::{Batch, EpisodeLayout};
use crate::advantage::{AdvantageInput, quantile};
use crate::algorithm::Replay;

/// A kept episode: its trajectories, and its contexts with places counted from the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// The weights' version when it was kept.
    version: u32,
    episode: EpisodeLayout,
    trajectories: Vec<AdvantageInput>,
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Buffer {
    episodes: VecDeque<Kept>,
    /// Means of groups, the oldest first.
    baselines: VecDeque<f64>,
}

impl Buffer {
    /// Adds an episode from before to every group in which nobody succeeded, and keeps this step's successes.
    pub fn backfill(&mut self, batch: &mut Batch, capacity: usize, success: f64, version: u32) {
        let good = |trajectory: &&AdvantageInput| trajectory.reward >= success;
        for group in 0..batch.groups {
            let members = || batch.trajectories.iter().filter(move |trajectory| trajectory.group == group);
            let Some(first) = members().next().filter(|_| !members().any(|member| good(&member))) else { continue };
            let task = &batch.episodes[first.episode].task;
            if let Some(kept) = self.episodes.iter().find(|kept| kept.episode.task == *task) {
                kept.join(batch, group);
            }
        }
        for episode in 0..batch.episodes.len() {
            let of_episode = |trajectory: &&AdvantageInput| trajectory.episode == episode;
            if batch.trajectories.iter().filter(of_episode).any(|trajectory| good(&trajectory)) {
                let kept = Kept::of(batch, episode, version);
                self.episodes.retain(|other| other.episode.task != kept.episode.task);
                self.keep(kept, capacity);
            }
        }
    }

    /// What is learnt from once more, with advantages over the median of recent groups, and what it weighs; keeps this
    /// step's episodes with an advantage. To be called when the step's advantages are known.
    pub fn imitate(
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
            let members = batch.trajectories.iter().filter(|trajectory| trajectory.group == group);
            let rewards: Vec<f64> = members.map(|trajectory| trajectory.reward).collect();
            if !rewards.is_empty() {
                self.baselines.push_back(rewards.iter().sum::<f64>() / rewards.len() as f64);
            }
        }
        while self.baselines.len() > baselines {
            self.baselines.pop_front();
        }
        let median = quantile(self.baselines.iter().copied().collect(), 0.5);
        self.episodes.retain(|kept| version.saturating_sub(kept.version) <= stale_steps);
        let mut found = Batch { groups: 1, ..Batch::default() };
        let mut chosen: Vec<&Kept> = self.episodes.iter().filter(|kept| kept.best() > median).collect();
        // As many as the step itself has, so that a full buffer does not multiply its cost.
        stream.shuffle(&mut chosen);
        chosen.into_iter().take(batch.episodes.len()).for_each(|kept| kept.join(&mut found, 0));
        for trajectory in &mut found.trajectories {
            let advantage = trajectory.reward - median;
            for token in trajectory.tokens_mut() {
                token.advantage = advantage;
                token.correction = 1.0;
                token.band = (0.0, 0.0);
                token.learnt = advantage > 0.0;
            }
        }
        for episode in 0..batch.episodes.len() {
            let mut own = batch.trajectories.iter().filter(|trajectory| trajectory.episode == episode);
            if own.any(|trajectory| trajectory.learnt().any(|token| token.advantage > 0.0)) {
                self.keep(Kept::of(batch, episode, version), capacity);
            }
        }
        (found, ramp(step, ramp_steps))
    }

    fn keep(&mut self, kept: Kept, capacity: usize) {
        self.episodes.push_back(kept);
        while self.episodes.len() > capacity {
            self.episodes.pop_front();
        }
    }
}

/// SPEAR's growing weight: half a cosine from 0 to 1 over so many steps.
fn ramp(step: u64, steps: u64) -> f64 {
    if step >= steps {
        return 1.0;
    }
    0.5 * (1.0 - (std::f64::consts::PI * step as f64 / steps as f64).cos())
}

impl Kept {
    fn of(batch: &Batch, episode: usize, version: u32) -> Self {
        let own = |trajectory: &&AdvantageInput| trajectory.episode == episode;
        let first = batch.trajectories.iter().position(|trajectory| own(&trajectory)).unwrap_or(0);
        let mut laid = batch.episodes[episode].clone();
        for place in laid.contexts.iter_mut().flat_map(|context| &mut context.places) {
            place.trajectory -= first;
        }
        Self { version, episode: laid, trajectories: batch.trajectories.iter().filter(own).cloned().collect() }
    }

    fn best(&self) -> f64 {
        self.trajectories.iter().map(|trajectory| trajectory.reward).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Appends the episode to a batch, as one of a group.
    fn join(&self, batch: &mut Batch, group: usize) {
        let (first, episode) = (batch.trajectories.len(), batch.episodes.len());
        let mut laid = self.episode.clone();
        for place in laid.contexts.iter_mut().flat_map(|context| &mut context.places) {
            place.trajectory += first;
        }
        batch.episodes.push(laid);
        batch.trajectories.extend(self.trajectories.iter().map(|trajectory| {
            let mut trajectory = AdvantageInput { group, episode, ..trajectory.clone() };
            trajectory.tokens_mut().for_each(|token| token.learnt = true);
            trajectory.turns.iter_mut().for_each(|turn| turn.shared_with = None);
            trajectory
        }));
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;
    use crate::advantage::{Token, TurnPart};

    fn batch(rewards: &[f64]) -> Batch {
        let mut batch = Batch { groups: 1, ..Batch::default() };
        for (episode, reward) in rewards.iter().enumerate() {
            let tokens = vec![Token { advantage: reward - 0.5, ..Token::default() }];
            let turns = vec![TurnPart { tokens, ..TurnPart::default() }];
            batch.trajectories.push(AdvantageInput { episode, reward: *reward, turns, ..AdvantageInput::default() });
            batch.episodes.push(EpisodeLayout { task: "train 3".to_owned(), contexts: vec![] });
        }
        batch
    }

    fn rewards(batch: &Batch) -> Vec<f64> {
        batch.trajectories.iter().map(|trajectory| trajectory.reward).collect()
    }

    #[test]
    fn failed_groups_get_a_success_of_their_task() {
        let mut buffer = Buffer::default();
        let mut solved = batch(&[0.0, 1.0]);
        buffer.backfill(&mut solved, 4, 1.0, 0);
        assert_eq!(rewards(&solved), [0.0, 1.0], "a group with a success needs none");
        let mut failed = batch(&[0.0, 0.5]);
        buffer.backfill(&mut failed, 4, 1.0, 1);
        assert_eq!(rewards(&failed), [0.0, 0.5, 1.0]);
        assert_eq!((failed.trajectories[2].episode, failed.episodes.len()), (2, 3));
        let mut other = batch(&[0.0]);
        other.episodes[0].task = "train 4".to_owned();
        buffer.backfill(&mut other, 4, 1.0, 1);
        assert_eq!(rewards(&other), [0.0], "another task's success is no help");
    }

    #[test]
    fn what_beats_the_median_is_imitated_until_it_is_stale() {
        let replay = Replay::SelfImitation { capacity: 2, baselines: 3, stale_steps: 1, ramp_steps: 4 };
        let (mut buffer, mut stream) = (Buffer::default(), Seed(1).stream());
        let mut imitate =
            |rewards: &[f64], step: u64| buffer.imitate(&batch(rewards), replay, step, step as u32, &mut stream);
        let (found, weight) = imitate(&[0.0, 1.0], 0);
        assert_eq!((rewards(&found).len(), weight), (0, 0.0));
        // Means so far 0.5 and 0.25: their median is 0.375.
        let (found, weight) = imitate(&[0.0, 0.5], 1);
        assert_eq!(rewards(&found), [1.0]);
        assert_eq!(found.trajectories[0].turns[0].tokens[0].advantage, 1.0 - 0.375);
        assert!((weight - 0.5 * (1.0 - (std::f64::consts::PI / 4.0).cos())).abs() < 1e-12);
        let (found, _) = imitate(&[0.0, 0.0], 2);
        assert!(rewards(&found).is_empty(), "it is two steps old");
        assert_eq!(ramp(4, 4), 1.0);
    }
}
