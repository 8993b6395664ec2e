//! Warning about a stage that learns nothing, because no rewards differ.

use gymkhana_record::EpisodeRecord;
use gymkhana_trainer::{Algorithm, GroupBy};

use crate::stages::groups::rewards_differ;

/// Consecutive steps without a difference after which the stage warns.
const STEPS: u32 = 3;

/// Counts the steps of a stage in which no rewards differ.
#[derive(Debug, Default)]
pub(crate) struct SignalWatch {
    /// Whether good episodes of earlier steps are replayed, so that one step with a signal serves later ones.
    replays: bool,
    flat: u32,
    has_warned: bool,
}

impl SignalWatch {
    /// Watches a stage with this algorithm.
    pub fn new(algorithm: &Algorithm) -> Self {
        Self { replays: algorithm.replay.is_some(), ..Self::default() }
    }

    /// Counts a step; returns the warning of the stage `name`, once.
    pub fn observe(&mut self, name: &str, has_signal: bool) -> Option<String> {
        self.flat = if has_signal { 0 } else { self.flat + 1 };
        self.has_warned |= has_signal && self.replays;
        if self.flat < STEPS || self.has_warned {
            return None;
        }
        self.has_warned = true;
        Some(format!(
            "stage `{name}` learns nothing: no rewards differed in {STEPS} steps\nhint: use easier tasks or a \
             higher temperature, put an sft stage before it, or check the rewards with `host show --episode`"
        ))
    }
}

/// Reports whether the episodes of a step can teach anything: always with a teacher or with weights from the rewards
/// themselves, or else if rewards differ. An algorithm that compares no groups compares the whole batch.
pub(crate) fn has_signal(groups: &[Vec<EpisodeRecord>], trained: &[u32], algorithm: &Algorithm) -> bool {
    if algorithm.wants_teacher() || algorithm.reward_temperature.is_some() {
        return true;
    }
    let differ = |group: &[EpisodeRecord]| rewards_differ(group, trained) || turns_differ(group);
    match compares_groups(algorithm) {
        true => groups.iter().any(|group| differ(group)),
        false => differ(&groups.concat()),
    }
}

/// Reports whether the algorithm compares the episodes of a group with each other and not with those of the batch.
fn compares_groups(algorithm: &Algorithm) -> bool {
    algorithm.needs_groups() && algorithm.group_by != GroupBy::All
}

/// Reports whether rewards of single turns vary within the group. Episodes of different lengths do not differ if all of
/// their turns have the reward 0.
fn turns_differ(group: &[EpisodeRecord]) -> bool {
    let turns = |record: &EpisodeRecord| [record.turn_rewards.clone(), record.turn_gains.clone()];
    let paid = |record: &EpisodeRecord| turns(record).iter().flatten().flatten().any(|reward| *reward != 0.0);
    group.iter().any(paid) && group.iter().any(|record| turns(record) != turns(&group[0]))
}

#[cfg(test)]
mod tests {
    use gymkhana_trainer::Preset;

    use super::*;

    #[test]
    fn three_flat_steps_in_a_row_warn_once() {
        let mut watch = SignalWatch::default();
        let steps = [false, false, true, false, false, false, false, true, false, false, false];
        let warned: Vec<bool> = steps.iter().map(|signal| watch.observe("rl", *signal).is_some()).collect();
        let expected = [false, false, false, false, false, true, false, false, false, false, false];
        assert_eq!(warned, expected);
        let text = SignalWatch { flat: 2, ..SignalWatch::default() }.observe("rl", false).unwrap();
        assert!(text.starts_with("stage `rl` learns nothing: no rewards differed in 3 steps\nhint: "), "{text}");
    }

    #[test]
    fn replayed_episodes_are_a_signal_of_later_steps() {
        let spear: Algorithm = Preset::named("spear").unwrap().algorithm().unwrap();
        assert!(spear.replay.is_some());
        let mut watch = SignalWatch::new(&spear);
        let steps = [true, false, false, false, false];
        assert!(steps.iter().all(|signal| watch.observe("rl", *signal).is_none()));
        let mut nothing_to_replay = SignalWatch::new(&spear);
        let warned = [false; 4].map(|signal| nothing_to_replay.observe("rl", signal).is_some());
        assert_eq!(warned, [false, false, true, false]);
    }

    #[test]
    fn groups_are_compared_as_a_batch_if_the_algorithm_says_so() {
        let by_group = Preset::named("grpo").unwrap().algorithm().unwrap();
        assert!(compares_groups(&by_group));
        assert!(!compares_groups(&Algorithm { group_by: GroupBy::All, ..by_group }));
    }
}
