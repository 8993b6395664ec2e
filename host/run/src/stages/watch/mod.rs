//! Warnings about stages that learn nothing or the wrong thing.

mod calls;
mod cut;
mod health;
mod worse;

use gymkhana_health::usual::STEPS;
use gymkhana_record::EpisodeRecord;
use gymkhana_trainer::Algorithm;

use crate::stages::groups::rewards_differ;

pub(crate) use calls::CallWatch;
pub(crate) use cut::CutWatch;
pub(crate) use health::HealthWatch;
pub use worse::BetterCheckpoint;

/// The usual remedies.
const REMEDIES: &str = "use easier tasks, a reward of several parts, a higher temperature or more steps of an sft stage \
                        before it, or set dynamic_sampling; check the rewards with `host show --episode`";

/// What a training step had to learn from, and what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepSignal {
    /// Whether rewards differed, or something else can teach.
    pub differs: bool,
    /// Whether weights changed.
    pub updated: bool,
    /// Whether all episodes succeeded, so that nothing is left to learn.
    pub solved: bool,
}

/// Counts the steps of a stage in which no rewards differ or no weights change.
#[derive(Debug, Default)]
pub(crate) struct SignalWatch {
    /// Whether good episodes of earlier steps are replayed, so that one step with a signal serves later ones.
    replays: bool,
    flat: u32,
    /// Whether rewards differed in one of the flat steps.
    differed: bool,
    has_warned: bool,
}

impl SignalWatch {
    /// Watches a stage with this algorithm.
    pub fn new(algorithm: &Algorithm) -> Self {
        Self { replays: algorithm.replay.is_some(), ..Self::default() }
    }

    /// Counts a step; returns the warning of the stage `name`, once. Solved steps do not count.
    pub fn observe(&mut self, name: &str, StepSignal { differs, updated, solved }: StepSignal) -> Option<String> {
        if solved {
            return None;
        }
        let learns = differs && updated;
        self.flat = if learns { 0 } else { self.flat + 1 };
        self.differed = !learns && (differs || (self.differed && self.flat > 1));
        self.has_warned |= learns && self.replays;
        if self.flat < STEPS || self.has_warned {
            return None;
        }
        self.has_warned = true;
        let why = if self.differed { "no weights changed" } else { "no rewards differed" };
        Some(format!("stage `{name}` learns nothing: {why} in {STEPS} steps\nhint: {REMEDIES}"))
    }
}

/// Reports whether the episodes of a step can teach anything: always with a teacher, with weights from the rewards
/// themselves, or with a loss of each episode alone; or else if rewards differ between `compared` seats. An algorithm that compares no groups compares the
/// whole batch.
pub(crate) fn has_signal(groups: &[Vec<EpisodeRecord>], compared: &[Vec<u32>], algorithm: &Algorithm) -> bool {
    let is_alone = algorithm.of_whole_episodes() && !algorithm.pairs();
    if algorithm.wants_teacher() || algorithm.reward_temperature.is_some() || is_alone {
        return true;
    }
    let differ = |group: &[EpisodeRecord]| rewards_differ(&group.iter(), compared) || turns_differ(group);
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
    use gymkhana_record::{Ending, EpisodeId, Phase, Seed, TaskRef};
    use gymkhana_trainer::{GroupBy, Preset};

    use super::*;
    use crate::stages::groups::compared_seats;

    #[test]
    fn three_flat_steps_in_a_row_warn_once() {
        let mut watch = SignalWatch::default();
        let steps = [false, false, true, false, false, false, false, true, false, false, false];
        let warned: Vec<bool> = steps.map(|differs| watch.observe("rl", step(differs)).is_some()).to_vec();
        let expected = [false, false, false, false, false, true, false, false, false, false, false];
        assert_eq!(warned, expected);
        let text = SignalWatch { flat: 2, ..SignalWatch::default() }.observe("rl", step(false)).unwrap();
        assert!(text.starts_with("stage `rl` learns nothing: no rewards differed in 3 steps\nhint: "), "{text}");
        assert!(text.contains("a reward of several parts") && text.contains("set dynamic_sampling"), "{text}");
    }

    /// Rewards that differ teach nothing if masks leave no token in the loss.
    #[test]
    fn steps_that_change_no_weights_warn() {
        let mut watch = SignalWatch::default();
        let masked = StepSignal { differs: true, updated: false, solved: false };
        assert_eq!([masked; 2].map(|step| watch.observe("rl", step)), [None, None]);
        let text = watch.observe("rl", masked).unwrap();
        assert!(text.starts_with("stage `rl` learns nothing: no weights changed in 3 steps\n"), "{text}");
    }

    fn step(differs: bool) -> StepSignal {
        StepSignal { differs, updated: true, solved: false }
    }

    /// A policy that solves every task has equal rewards and no updates.
    #[test]
    fn solved_steps_do_not_warn() {
        let mut watch = SignalWatch::default();
        let solved = StepSignal { differs: false, updated: false, solved: true };
        assert!((0..9).all(|_| watch.observe("rl", solved).is_none()));
        assert!((0..2).all(|_| watch.observe("rl", step(false)).is_none()));
        assert!(watch.observe("rl", solved).is_none() && watch.observe("rl", step(false)).is_some());
    }

    #[test]
    fn replayed_episodes_are_a_signal_of_later_steps() {
        let spear: Algorithm = Preset::named("spear").unwrap().algorithm().unwrap();
        assert!(spear.replay.is_some());
        let mut watch = SignalWatch::new(&spear);
        let steps = [true, false, false, false, false];
        assert!(steps.iter().all(|differs| watch.observe("rl", step(*differs)).is_none()));
        let mut nothing_to_replay = SignalWatch::new(&spear);
        let warned = [false; 4].map(|differs| nothing_to_replay.observe("rl", step(differs)).is_some());
        assert_eq!(warned, [false, false, true, false]);
    }

    /// Equal rewards in each group, which differ between groups, teach only if no groups are compared.
    #[test]
    fn rewards_must_differ_where_they_are_compared() {
        let groups = [0.0, 1.0].map(|reward| vec![episode(&[reward]); 2]);
        let has = |name: &str, groups: &[Vec<EpisodeRecord>]| {
            let algorithm = Preset::named(name).unwrap().algorithm().unwrap();
            has_signal(groups, &[vec![0]], &algorithm)
        };
        for (name, expected) in
            [("loop", false), ("spear", false), ("dpo", false), ("kto", true), ("reinforce++", true)]
        {
            assert_eq!(has(name, &groups), expected, "{name}");
            assert!(has(name, &[groups.concat()]), "{name}");
        }
        assert!(!has("reinforce++", &groups[..1]));
        assert!(has("distill", &groups[..1]) && has("rise", &groups[..1]));
    }

    /// Seat 0 always wins: each seat by itself has equal rewards.
    #[test]
    fn seats_of_a_model_are_compared_if_the_algorithm_compares_all() {
        let game = [vec![episode(&[1.0, -1.0]); 2]];
        let has = |models: &[Vec<u32>], group_by| {
            let algorithm = Algorithm { group_by, ..Algorithm::default() };
            has_signal(&game, &compared_seats(models, group_by), &algorithm)
        };
        assert!(has(&[vec![0, 1]], GroupBy::All));
        assert!(!has(&[vec![0, 1]], GroupBy::Seat));
        assert!(!has(&[vec![0], vec![1]], GroupBy::All), "two models are not compared");
        assert!(!has(&[vec![0]], GroupBy::All), "the other seat is not trained");
        // Groups are not compared with each other.
        let one_seat = [0.0, 1.0].map(|reward| vec![episode(&[reward]); 2]);
        let algorithm = Algorithm { group_by: GroupBy::All, ..Algorithm::default() };
        assert!(!has_signal(&one_seat, &[vec![0]], &algorithm));
    }

    fn episode(rewards: &[f64]) -> EpisodeRecord {
        EpisodeRecord {
            turn_limit: 8,
            rewards: rewards.to_vec(),
            ..EpisodeRecord::new(
                EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 },
                TaskRef { split: "train".to_owned(), index: 0 },
                Seed(0),
                Ending::Terminated,
            )
        }
    }
}
