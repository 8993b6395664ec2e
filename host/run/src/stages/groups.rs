//! Rewards of groups, for dynamic sampling, warnings and metrics.

use gymkhana_record::EpisodeRecord;
use gymkhana_trainer::GroupBy;

/// Sets of seats whose rewards are compared within a group, from the seats of each trained model: single seats, or all
/// seats of a model.
pub(crate) fn compared_seats(models: &[Vec<u32>], group_by: GroupBy) -> Vec<Vec<u32>> {
    match group_by {
        GroupBy::Seat => models.iter().flatten().map(|seat| vec![*seat]).collect(),
        GroupBy::All => models.to_vec(),
    }
}

/// Reports whether rewards that are compared vary within the group; a zero-variance group has no learning signal.
pub(crate) fn rewards_differ<'a>(
    group: &(impl Iterator<Item = &'a EpisodeRecord> + Clone),
    compared: &[Vec<u32>],
) -> bool {
    compared.iter().any(|seats| {
        let rewards = |record| seats.iter().map(|seat| reward_of(record, *seat)).collect::<Vec<f64>>();
        let rewards: Vec<f64> = group.clone().flat_map(rewards).collect();
        rewards.iter().any(|reward| *reward != rewards[0])
    })
}

/// Reward of a seat; 0 if the episode has none.
pub(crate) fn reward_of(record: &EpisodeRecord, seat: u32) -> f64 {
    record.rewards.get(seat as usize).copied().unwrap_or(0.0)
}
