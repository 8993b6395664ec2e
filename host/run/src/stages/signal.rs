//! Warning about a stage that learns nothing, because no rewards differ.

use gymkhana_record::EpisodeRecord;
use gymkhana_trainer::Algorithm;

use crate::stages::groups::rewards_differ;

/// Consecutive steps without a difference after which the stage warns.
const STEPS: u32 = 3;

/// Counts the steps of a stage in which no rewards differ.
#[derive(Debug, Default)]
pub(crate) struct SignalWatch {
    flat: u32,
    has_warned: bool,
}

impl SignalWatch {
    /// Counts a step; returns the warning of the stage `name`, once.
    pub fn observe(&mut self, name: &str, has_signal: bool) -> Option<String> {
        self.flat = if has_signal { 0 } else { self.flat + 1 };
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
    match algorithm.needs_groups() {
        true => groups.iter().any(|group| differ(group)),
        false => differ(&groups.concat()),
    }
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
    use super::*;

    #[test]
    fn three_flat_steps_in_a_row_warn_once() {
        let mut watch = SignalWatch::default();
        let steps = [false, false, true, false, false, false, false, true, false, false, false];
        let warned: Vec<bool> = steps.iter().map(|signal| watch.observe("rl", *signal).is_some()).collect();
        let expected = [false, false, false, false, false, true, false, false, false, false, false];
        assert_eq!(warned, expected);
        let text = SignalWatch { flat: 2, has_warned: false }.observe("rl", false).unwrap();
        assert!(text.starts_with("stage `rl` learns nothing: no rewards differed in 3 steps\nhint: "), "{text}");
    }
}
