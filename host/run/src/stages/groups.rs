//! Rewards of groups, for dynamic sampling and metrics.

use gymkhana_record::EpisodeRecord;

/// Reports whether the rewards of a trained seat vary within the group; a zero-variance group has no learning signal.
pub(crate) fn rewards_differ(group: &[EpisodeRecord], trained: &[u32]) -> bool {
    trained.iter().any(|seat| group.iter().any(|record| reward_of(record, *seat) != reward_of(&group[0], *seat)))
}

/// Reward of a seat; 0 if the episode has none.
pub(crate) fn reward_of(record: &EpisodeRecord, seat: u32) -> f64 {
    record.rewards.get(seat as usize).copied().unwrap_or(0.0)
}
