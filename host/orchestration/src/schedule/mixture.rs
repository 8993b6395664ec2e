//! Tasks of a run with several environments: each position of the run's sequence of groups belongs to one environment.
//!
//! Positions are given out by Tijdeman's chairman assignment (Discrete Mathematics 32, 1980): after any number of
//! positions, each environment has had its share of them, rounded up or down. An environment that is dropped leaves its
//! later positions to the others; the assignment restarts there.

use gymkhana_record::TaskRef;

use crate::schedule::scheduler::GroupTask;
use crate::schedule::tasks::TaskOrder;

/// An environment that gets no position from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedEnvironment {
    /// Index of the environment.
    pub environment: usize,
    /// First position that it does not get.
    pub position: u64,
}

/// Order of the tasks of all environments.
pub struct TaskMixture {
    orders: Vec<TaskOrder>,
    assignment: ShareAssignment,
}

impl TaskMixture {
    /// A mixture of these environments: the order of an environment's tasks, and its share.
    #[must_use]
    pub fn new(environments: Vec<(TaskOrder, f64)>, dropped: &[DroppedEnvironment]) -> Self {
        let (orders, shares) = environments.into_iter().unzip();
        Self { orders, assignment: ShareAssignment::new(shares, dropped) }
    }

    /// Sets the dropped environments.
    pub fn set_dropped(&mut self, dropped: &[DroppedEnvironment]) {
        if self.assignment.dropped != dropped {
            self.assignment = ShareAssignment::new(std::mem::take(&mut self.assignment.shares), dropped);
        }
    }

    /// Tasks at `position..position + length` of the infinite sequence, each with its environment.
    pub fn take(&mut self, position: u64, length: u64) -> Vec<GroupTask> {
        (position..position + length)
            .map(|position| {
                let (environment, own) = self.assignment.at(position);
                GroupTask { environment, task: self.task(environment, own), turns: None, attempts: None }
            })
            .collect()
    }

    fn task(&mut self, environment: usize, own: u64) -> TaskRef {
        self.orders[environment].at(own)
    }
}

/// Assignment of positions to environments, or to others that have shares, computed in order. A position yields the same
/// result whatever was asked before.
pub struct ShareAssignment {
    shares: Vec<f64>,
    dropped: Vec<DroppedEnvironment>,
    /// Next position.
    next: u64,
    /// First position with the present set of environments.
    since: u64,
    /// Positions of each environment so far.
    counts: Vec<u64>,
    /// Positions of each environment since `since`.
    recent: Vec<u64>,
}

/// Tolerance of the comparison of shares.
const ROUNDING: f64 = 1e-9;

impl ShareAssignment {
    /// An assignment by these shares, relative to each other.
    #[must_use]
    pub fn new(shares: Vec<f64>, dropped: &[DroppedEnvironment]) -> Self {
        let none = vec![0; shares.len()];
        Self { shares, dropped: dropped.to_vec(), next: 0, since: 0, counts: none.clone(), recent: none }
    }

    /// The environment of a position, and the number of earlier positions of this environment.
    pub fn at(&mut self, position: u64) -> (usize, u64) {
        if let [_] = self.shares[..] {
            return (0, position);
        }
        self.advance_to(position);
        self.advance()
    }

    /// Number of positions of an environment before this one.
    pub fn count_before(&mut self, position: u64, environment: usize) -> u64 {
        if let [_] = self.shares[..] {
            return position;
        }
        self.advance_to(position);
        self.counts[environment]
    }

    /// Makes this position the next one.
    fn advance_to(&mut self, position: u64) {
        if position < self.next {
            *self = Self::new(std::mem::take(&mut self.shares), &std::mem::take(&mut self.dropped));
        }
        while self.next < position {
            self.advance();
        }
    }

    /// Assigns the next position.
    fn advance(&mut self) -> (usize, u64) {
        if self.next > 0 && self.dropped.iter().any(|dropped| dropped.position == self.next) {
            self.since = self.next;
            self.recent.fill(0);
        }
        let chosen = self.choose();
        let before = self.counts[chosen];
        self.counts[chosen] += 1;
        self.recent[chosen] += 1;
        self.next += 1;
        (chosen, before)
    }

    /// Among the environments that may get the next position without exceeding their share, the one whose position is
    /// due first.
    fn choose(&self) -> usize {
        let gone = |environment: usize| {
            self.dropped.iter().any(|dropped| dropped.environment == environment && dropped.position <= self.next)
        };
        let active: Vec<(usize, f64)> =
            self.shares.iter().copied().enumerate().filter(|(index, share)| *share > 0.0 && !gone(*index)).collect();
        let total: f64 = active.iter().map(|(_, share)| share).sum();
        // The bound of the deviation is 1 - slack.
        let slack = 1.0 / (2.0 * active.len() as f64 - 2.0).max(1.0);
        let length = (self.next - self.since + 1) as f64;
        let deficits = active.iter().map(|(index, share)| {
            let share = share / total;
            (*index, share, length * share - self.recent[*index] as f64)
        });
        let may = deficits.clone().filter(|(_, _, deficit)| *deficit >= slack - ROUNDING);
        let due = |share: f64, deficit: f64| (1.0 - slack - deficit) / share;
        let first = may.min_by(|one, other| due(one.1, one.2).total_cmp(&due(other.1, other.2)));
        let first = first.or_else(|| deficits.max_by(|one, other| one.2.total_cmp(&other.2)));
        first.map_or(0, |(index, _, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The environments of the first positions.
    fn sequence(shares: &[f64], dropped: &[DroppedEnvironment], length: u64) -> Vec<usize> {
        let mut assignment = ShareAssignment::new(shares.to_vec(), dropped);
        (0..length).map(|position| assignment.at(position).0).collect()
    }

    /// With shares of 2/3 and 1/3 the deficits before a choice are (2/3, 1/3), (1/3, 2/3), (1, 0), and so on again.
    #[test]
    fn positions_follow_the_shares() {
        assert_eq!(sequence(&[2.0, 1.0], &[], 6), [0, 1, 0, 0, 1, 0]);
        assert_eq!(sequence(&[0.5, 0.5], &[], 4), [0, 1, 0, 1]);
        assert_eq!(sequence(&[0.0, 3.0], &[], 3), [1, 1, 1]);
        assert_eq!(sequence(&[7.0], &[], 3), [0, 0, 0]);
    }

    #[test]
    fn every_prefix_has_each_share_rounded() {
        for shares in
            [vec![1.0, 1.0, 1.0], vec![5.0, 3.0, 1.0, 1.0], vec![0.7, 0.2, 0.1], vec![1.0, 100.0], vec![3.0; 7]]
        {
            let total: f64 = shares.iter().sum();
            let mut counts = vec![0_u64; shares.len()];
            for (before, environment) in sequence(&shares, &[], 3000).into_iter().enumerate() {
                counts[environment] += 1;
                for (count, share) in counts.iter().zip(&shares) {
                    let due = (before + 1) as f64 * share / total;
                    assert!((*count as f64 - due).abs() < 1.0, "{shares:?}: {count} of {} after {due}", before + 1);
                }
            }
        }
    }

    #[test]
    fn a_position_is_the_same_whatever_was_asked_before() {
        let dropped = [DroppedEnvironment { environment: 2, position: 40 }];
        let shares = vec![3.0, 2.0, 1.0];
        let mut in_order = ShareAssignment::new(shares.clone(), &dropped);
        let expected: Vec<(usize, u64)> = (0..100).map(|position| in_order.at(position)).collect();
        for position in [99, 3, 40, 41, 0, 77] {
            let mut fresh = ShareAssignment::new(shares.clone(), &dropped);
            assert_eq!(fresh.at(position), expected[position as usize]);
            assert_eq!(in_order.at(position), expected[position as usize]);
        }
        // Each environment's own positions are 0, 1, 2, …
        for environment in 0..3 {
            let own = expected.iter().filter(|(of, _)| *of == environment).map(|(_, own)| *own);
            assert!(own.eq(0..expected.iter().filter(|(of, _)| *of == environment).count() as u64));
        }
    }

    /// From position 6 on, the shares 2 and 1 are 2/3 and 1/3 of all positions.
    #[test]
    fn a_dropped_environment_leaves_its_positions_to_the_others() {
        let shares = [2.0, 1.0, 3.0];
        let all = sequence(&shares, &[], 6);
        let found = sequence(&shares, &[DroppedEnvironment { environment: 2, position: 6 }], 12);
        assert_eq!(found[..6], all[..]);
        assert_eq!(found[6..], [0, 1, 0, 0, 1, 0]);
        assert_eq!(sequence(&shares, &[DroppedEnvironment { environment: 0, position: 0 }], 4), [2, 1, 2, 2]);
    }
}
