//! Rewards of a group, as dynamic sampling and the metrics look at them.

use gymkhana_record::EpisodeRecord;

/// Whether a group's rewards of a seat differ that is trained, so that something can be learnt from them.
pub(crate) fn rewards_differ(group: &[EpisodeRecord], trained: &[u32]) -> bool {
    trained.iter().any(|seat| group.iter().any(|record| reward_of(record, *seat) != reward_of(&group[0], *seat)))
}

/// A seat's reward; 0 in an episode that has none.
pub(crate) fn reward_of(record: &EpisodeRecord, seat: u32) -> f64 {
    record.rewards.get(seat as usize).copied().unwrap_or(0.0)
}
