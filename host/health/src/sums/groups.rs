//! Sums over the members of a group, and totals over groups.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use gymkhana_record::{Ending, EpisodeRecord, Turn, text_of};

/// Most members of which tokens and actions are compared.
const MOST_MEMBERS: usize = 1024;

/// One group: rewards, tokens and actions of its members, as digests.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupSums {
    members: u64,
    solved: u64,
    rewards: HashSet<u64>,
    tokens: HashSet<u64>,
    actions: HashSet<u64>,
}

impl GroupSums {
    /// Adds a member. Dropped ones and those that training did not select are left out.
    pub fn add(&mut self, record: &EpisodeRecord) {
        if record.ending == Ending::Dropped || !record.selected || self.members as usize >= MOST_MEMBERS {
            return;
        }
        self.members += 1;
        self.solved += u64::from(record.success);
        self.rewards.insert(digest_of_rewards(record));
        let actions = digest_of_actions(record);
        self.tokens.insert(digest_of_tokens(record).unwrap_or(actions));
        self.actions.insert(actions);
    }
}

/// Totals over groups of at least two members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupTotals {
    pub groups: u64,
    /// Groups whose rewards are equal and that not all members solve.
    pub without_signal: u64,
    /// Groups that all members solve.
    pub solved: u64,
    /// Members of the groups that not all members solve.
    pub members: u64,
    /// Distinct sequences of tokens in these groups.
    pub distinct_tokens: u64,
    /// Distinct sequences of actions in these groups.
    pub distinct_actions: u64,
}

impl GroupTotals {
    pub fn add(&mut self, group: &GroupSums) {
        if group.members < 2 {
            return;
        }
        self.groups += 1;
        if group.solved == group.members {
            self.solved += 1;
            return;
        }
        self.without_signal += u64::from(group.rewards.len() == 1);
        self.members += group.members;
        self.distinct_tokens += group.tokens.len() as u64;
        self.distinct_actions += group.actions.len() as u64;
    }

    /// Groups that not all members solve.
    pub fn unsolved(self) -> u64 {
        self.groups - self.solved
    }
}

/// Digest of all rewards: of the seats, and of single turns where they are not 0.
fn digest_of_rewards(record: &EpisodeRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Both zeros are equal rewards.
    let bits = |reward: &f64| (reward + 0.0).to_bits();
    record.rewards.iter().map(bits).for_each(|reward| reward.hash(&mut hasher));
    for by_seat in [&record.turn_rewards, &record.turn_gains] {
        for (seat, rewards) in by_seat.iter().enumerate() {
            for (turn, reward) in rewards.iter().enumerate().filter(|(_, reward)| **reward != 0.0) {
                (seat, turn, bits(reward)).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

/// Digest of the sampled tokens; `None` of an episode without any.
fn digest_of_tokens(record: &EpisodeRecord) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut has_tokens = false;
    for segment in &record.segments {
        for place in segment.replies() {
            has_tokens = true;
            (segment.seat(), &segment.tokens()[place]).hash(&mut hasher);
        }
    }
    has_tokens.then(|| hasher.finish())
}

/// Digest of the sequence of calls, or of messages if the episode made no call.
fn digest_of_actions(record: &EpisodeRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    let has_calls = record.calls() > 0;
    for turn in &record.turns {
        match turn {
            Turn::Call { seat, call, .. } => (seat, &call.name, &call.arguments).hash(&mut hasher),
            Turn::MalformedCall { seat, text, .. } => (seat, text).hash(&mut hasher),
            Turn::Message { seat, content } if !has_calls => (seat, text_of(content)).hash(&mut hasher),
            Turn::Message { .. } | Turn::Thought { .. } | Turn::Answer { .. } | Turn::Observation { .. } => {}
        }
    }
    hasher.finish()
}
