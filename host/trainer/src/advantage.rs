//! Advantages: how much better an episode did than its group, from rewards alone and without tensors.

use gymkhana_episode::{Ending, EpisodeId, EpisodeRecord, Fork};

use crate::algorithm::{Baseline, Scale};

/// Keeps the division by a group's standard deviation finite (verl and TRL use such a number, too).
const SCALE_EPSILON: f64 = 1e-6;

/// The advantages of a group's rewards: each reward less its baseline, over its scale.
///
/// A group of one has nothing to be compared with: its leave-one-out advantage is 0.
#[must_use]
pub fn advantages(rewards: &[f64], baseline: Baseline, scale: Scale) -> Vec<f64> {
    let count = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / count;
    let centred = rewards.iter().map(|reward| match baseline {
        Baseline::None => *reward,
        Baseline::GroupMean => reward - mean,
        // r - (sum - r) / (n - 1) = (r - mean) * n / (n - 1)
        Baseline::LeaveOneOut if rewards.len() > 1 => (reward - mean) * count / (count - 1.0),
        Baseline::LeaveOneOut => 0.0,
    });
    let divisor = match scale {
        Scale::None => 1.0,
        Scale::GroupStd => standard_deviation(rewards, mean) + SCALE_EPSILON,
    };
    centred.map(|advantage| advantage / divisor).collect()
}

/// The sample standard deviation, over n - 1; 0 for a group of one.
fn standard_deviation(rewards: &[f64], mean: f64) -> f64 {
    if rewards.len() < 2 {
        return 0.0;
    }
    let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
    (squares / (rewards.len() - 1) as f64).sqrt()
}

/// The advantages of one group: for each episode that counts, the episode and an advantage for each of its seats.
/// Dropped episodes are left out, as if the group had been smaller. Seats are compared with the same seat of others.
#[must_use]
pub fn group_advantages(group: &[EpisodeRecord], baseline: Baseline, scale: Scale) -> Vec<(&EpisodeRecord, Vec<f64>)> {
    let counted: Vec<&EpisodeRecord> = group.iter().filter(|episode| episode.ending != Ending::Dropped).collect();
    let seats = counted.iter().map(|episode| episode.rewards.len()).max().unwrap_or(0);
    let mut table: Vec<Vec<f64>> = vec![Vec::with_capacity(seats); counted.len()];
    for seat in 0..seats {
        let of_seat: Vec<f64> =
            counted.iter().map(|episode| episode.rewards.get(seat).copied().unwrap_or(0.0)).collect();
        for (row, advantage) in table.iter_mut().zip(advantages(&of_seat, baseline, scale)) {
            row.push(advantage);
        }
    }
    counted.into_iter().zip(table).collect()
}

/// The advantage of what a seat said in one of its turns: the mean over all episodes of the group that went through
/// that turn, which are several where paths part behind it (ARPO's advantage of shared tokens).
#[must_use]
pub fn turn_advantage(group: &[(&EpisodeRecord, Vec<f64>)], episode: EpisodeId, seat: u32, turn: u32) -> f64 {
    let shares = |record: &EpisodeRecord| {
        let said = |fork: &Fork| fork.turns.get(seat as usize).is_some_and(|turns| turn < *turns);
        record.id == episode || record.forks.iter().any(|fork| fork.parent == episode && said(fork))
    };
    let through = group.iter().filter(|(record, _)| shares(record));
    let (mut sum, mut count) = (0.0, 0.0);
    for advantage in through.map(|(_, advantages)| advantages.get(seat as usize).copied().unwrap_or(0.0)) {
        sum += advantage;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }

    #[test]
    fn by_hand() {
        let rewards = [1.0, 0.0, 0.0, 1.0, 0.5];
        near(&advantages(&rewards, Baseline::None, Scale::None), &rewards);
        near(&advantages(&rewards, Baseline::GroupMean, Scale::None), &[0.5, -0.5, -0.5, 0.5, 0.0]);
        // Without the first, the mean is 1.5 / 4 = 0.375; without the second, 2.5 / 4 = 0.625.
        near(&advantages(&rewards, Baseline::LeaveOneOut, Scale::None), &[0.625, -0.625, -0.625, 0.625, 0.0]);
        // Squares sum to 1; the sample deviation is sqrt(1 / 4) = 0.5.
        near(&advantages(&rewards, Baseline::GroupMean, Scale::GroupStd), &[1.0, -1.0, -1.0, 1.0, 0.0]);
    }

    #[test]
    fn groups_without_difference_teach_nothing() {
        for scale in [Scale::None, Scale::GroupStd] {
            near(&advantages(&[1.0; 4], Baseline::GroupMean, scale), &[0.0; 4]);
            near(&advantages(&[0.7], Baseline::LeaveOneOut, scale), &[0.0]);
            near(&advantages(&[], Baseline::LeaveOneOut, scale), &[]);
        }
    }
}
