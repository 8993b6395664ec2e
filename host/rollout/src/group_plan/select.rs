//! Selection among the episodes of an oversampled group.

use gymkhana_record::{Ending, EpisodeRecord, Turn};
use gymkhana_rules::Selection;

/// Marks the episodes to train on: `size` episodes that were not dropped, or all if there are fewer.
pub(super) fn select(records: &mut [EpisodeRecord], size: usize, keep: Selection) {
    let counted = |record: &EpisodeRecord| record.ending != Ending::Dropped;
    let places = |solved: bool| -> Vec<usize> {
        let wanted = |&at: &usize| counted(&records[at]) && records[at].success == solved;
        (0..records.len()).filter(wanted).collect()
    };
    let (mut solved, unsolved) = (places(true), places(false));
    let kept = match keep {
        Selection::Clean => {
            solved.sort_by(|one, other| trouble(&records[*one]).total_cmp(&trouble(&records[*other])));
            proportional(solved.len(), unsolved.len(), size)
        }
        Selection::Balanced => shares(size / 2 + size % 2, solved.len(), unsolved.len(), size),
    };
    for record in records.iter_mut() {
        record.selected = false;
    }
    for at in solved.into_iter().take(kept.0).chain(unsolved.into_iter().take(kept.1)) {
        records[at].selected = true;
    }
}

/// Numbers of solved and unsolved episodes to keep: in proportion, but at least two of each.
fn proportional(solved: usize, unsolved: usize, size: usize) -> (usize, usize) {
    let all = (solved + unsolved).max(1);
    let fair = (solved * size + all / 2) / all;
    let least = fair.max(solved.min(2)).min(size.saturating_sub(unsolved.min(2)));
    shares(least, solved, unsolved, size)
}

/// `wanted` solved episodes and the rest unsolved; a side with too few episodes is filled from the other.
fn shares(wanted: usize, solved: usize, unsolved: usize, size: usize) -> (usize, usize) {
    let others = unsolved.min(size - wanted.min(solved).min(size));
    (solved.min(size - others), others)
}

/// GRPO-RoC's penalty: the share of failed calls (one half without calls), plus the number of messages beyond the first
/// per turn, at most 1.
fn trouble(record: &EpisodeRecord) -> f64 {
    let answers = record.turns.iter().filter_map(|turn| match turn {
        Turn::Answer { failed, .. } => Some(*failed),
        _ => None,
    });
    let (mut calls, mut failed) = (0_u32, 0_u32);
    for answer in answers {
        calls += 1;
        failed += u32::from(answer);
    }
    let errors = if calls == 0 { 0.5 } else { f64::from(failed) / f64::from(calls) };
    let messages = record.turns.iter().filter(|turn| matches!(turn, Turn::Message { .. })).count() as f64;
    let turns = record
        .segments
        .iter()
        .flat_map(|segment| segment.turns().last())
        .max()
        .map_or(1.0, |last| f64::from(*last) + 1.0);
    errors + ((messages - 1.0).max(0.0) / turns).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_proportional_and_leave_two_of_each() {
        // 32 to 16, as in rStar2-Agent.
        assert_eq!(proportional(16, 16, 16), (8, 8));
        assert_eq!(proportional(8, 24, 16), (4, 12));
        assert_eq!(proportional(1, 31, 16), (1, 15));
        assert_eq!(proportional(31, 1, 16), (15, 1));
        assert_eq!(proportional(30, 2, 16), (14, 2));
        assert_eq!(proportional(2, 30, 16), (2, 14));
        assert_eq!(proportional(32, 0, 16), (16, 0));
        assert_eq!(proportional(3, 0, 16), (3, 0));
        assert_eq!(proportional(0, 0, 16), (0, 0));
    }

    #[test]
    fn balanced_shares_are_filled_from_the_larger_side() {
        assert_eq!(shares(4, 10, 6, 8), (4, 4));
        assert_eq!(shares(4, 1, 15, 8), (1, 7));
        assert_eq!(shares(4, 15, 1, 8), (7, 1));
        assert_eq!(shares(4, 2, 2, 8), (2, 2));
    }
}
