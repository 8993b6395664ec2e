//! What is said of a model that tried tasks several times each.

use std::collections::BTreeMap;

use serde::Serialize;

/// One attempt that came to an end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Its task's number in the split.
    pub task: u64,
    /// Whether it solved the task.
    pub success: bool,
    /// Replies of the model's.
    pub turns: usize,
    /// Calls that the model made.
    pub calls: usize,
    /// What it earned, summed over the seats that the model played.
    pub reward: f64,
}

/// The attempts that took so many turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtTurn {
    /// How many turns.
    pub turns: usize,
    /// Attempts that ended with this turn.
    pub ended: usize,
    /// Those of them that solved their task.
    pub solved: usize,
    /// The share of all attempts that had solved their task by then.
    pub solved_so_far: f64,
}

/// What is said of them all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// TaskSampler of which an attempt came to an end.
    pub tasks: usize,
    /// Attempts that did.
    pub episodes: usize,
    /// The mean over tasks of the share of attempts that solved them.
    pub success: f64,
    /// Its standard error, by the tasks' differences; none for a single task.
    pub success_error: Option<f64>,
    /// For each k: the probability that one at least of k attempts solves a task.
    pub pass_at: BTreeMap<usize, f64>,
    /// For each k: the probability that all of k attempts do.
    pub pass_hat: BTreeMap<usize, f64>,
    /// The mean reward.
    pub reward: f64,
    /// When tasks were solved.
    pub by_turn: Vec<AtTurn>,
    /// Calls of an attempt that solved its task, in the mean; none if none did.
    pub calls_per_success: Option<f64>,
    /// Calls of any attempt, in the mean.
    pub calls_per_episode: f64,
}

/// The probability that one at least of `k` attempts succeeds, where `right` of `all` did: without bias, as it counts the
/// choices of `k` of them. None if there were fewer than `k`.
pub fn pass_at(all: usize, right: usize, k: usize) -> Option<f64> {
    // The product of the shares that are wrong among those left: C(wrong, k) / C(all, k).
    let none =
        |wrong: usize| (0..k).map(|taken| wrong.saturating_sub(taken) as f64 / (all - taken) as f64).product::<f64>();
    (k <= all).then(|| 1.0 - none(all - right))
}

/// The probability that all of `k` attempts succeed, in the same way.
pub fn pass_hat(all: usize, right: usize, k: usize) -> Option<f64> {
    let every = || (0..k).map(|taken| right.saturating_sub(taken) as f64 / (all - taken) as f64).product();
    (k <= all).then(every)
}

impl Figures {
    /// What `attempts` come to, of which there were up to `samples` a task; none if there is none.
    pub fn of(attempts: &[Attempt], samples: usize) -> Option<Self> {
        let mut tasks: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for attempt in attempts {
            let (all, right) = tasks.entry(attempt.task).or_default();
            (*all, *right) = (*all + 1, *right + usize::from(attempt.success));
        }
        let shares: Vec<f64> = tasks.values().map(|(all, right)| *right as f64 / *all as f64).collect();
        let success = mean(&shares)?;
        let of_tasks = |pass: fn(usize, usize, usize) -> Option<f64>| {
            let at = |k: usize| {
                let passes: Vec<f64> = tasks.values().filter_map(|(all, right)| pass(*all, *right, k)).collect();
                Some((k, mean(&passes)?))
            };
            powers_of_two(samples).filter_map(at).collect()
        };
        let all: Vec<f64> = attempts.iter().map(|attempt| attempt.calls as f64).collect();
        let solved: Vec<f64> =
            attempts.iter().filter(|attempt| attempt.success).map(|attempt| attempt.calls as f64).collect();
        let rewards: Vec<f64> = attempts.iter().map(|attempt| attempt.reward).collect();
        Some(Self {
            tasks: tasks.len(),
            episodes: attempts.len(),
            success,
            success_error: standard_error(&shares, success),
            pass_at: of_tasks(pass_at),
            pass_hat: of_tasks(pass_hat),
            reward: mean(&rewards)?,
            by_turn: by_turn(attempts),
            calls_per_success: mean(&solved),
            calls_per_episode: mean(&all)?,
        })
    }
}

/// 1, 2, 4 … and the last number itself.
fn powers_of_two(last: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1), |power: &usize| power.checked_mul(2));
    powers.take_while(move |power| *power < last).chain([last])
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn standard_error(values: &[f64], mean: f64) -> Option<f64> {
    let count = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
}

fn by_turn(attempts: &[Attempt]) -> Vec<AtTurn> {
    let mut counts: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for attempt in attempts {
        let (ended, solved) = counts.entry(attempt.turns).or_default();
        (*ended, *solved) = (*ended + 1, *solved + usize::from(attempt.success));
    }
    let mut so_far = 0;
    let row = |(turns, (ended, solved)): (usize, (usize, usize))| {
        so_far += solved;
        AtTurn { turns, ended, solved, solved_so_far: so_far as f64 / attempts.len() as f64 }
    };
    counts.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every choice of `k` of `all` attempts, of which the first `right` succeed, looked at one by one.
    fn by_choices(all: usize, right: usize, k: usize, holds: impl Fn(u32, u32) -> bool) -> f64 {
        let choices = (0..1_u32 << all).filter(|choice| choice.count_ones() as usize == k);
        let (held, count) = choices.fold((0, 0), |(held, count), choice| {
            let good = (choice & ((1 << right) - 1)).count_ones();
            (held + u32::from(holds(good, k as u32)), count + 1)
        });
        f64::from(held) / f64::from(count)
    }

    #[test]
    fn estimators_count_choices() {
        for all in 1..=8 {
            for right in 0..=all {
                for k in 1..=all {
                    let any = by_choices(all, right, k, |good, _| good > 0);
                    let every = by_choices(all, right, k, |good, k| good == k);
                    assert!((pass_at(all, right, k).expect("enough") - any).abs() < 1e-12, "{all} {right} {k}");
                    assert!((pass_hat(all, right, k).expect("enough") - every).abs() < 1e-12, "{all} {right} {k}");
                }
                assert_eq!((pass_at(all, right, all + 1), pass_hat(all, right, all + 1)), (None, None));
            }
        }
    }

    #[test]
    fn figures_are_those_computed_by_hand() {
        let attempt = |task, success, turns, calls| Attempt {
            task,
            success,
            turns,
            calls,
            reward: f64::from(u8::from(success)) - 0.25 * calls as f64,
        };
        let attempts = [
            attempt(3, true, 1, 0),
            attempt(3, true, 2, 2),
            attempt(3, false, 3, 4),
            attempt(5, false, 3, 3),
            attempt(5, true, 2, 1),
            attempt(5, false, 1, 0),
            // The third attempt at this task was dropped.
            attempt(8, false, 3, 1),
            attempt(8, false, 3, 1),
        ];
        let figures = Figures::of(&attempts, 3).expect("attempts");
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        assert_eq!((figures.tasks, figures.episodes), (3, 8));
        // 2/3, 1/3 and 0.
        near(figures.success, 1.0 / 3.0);
        near(figures.success_error.expect("three tasks"), (1.0_f64 / 27.0).sqrt());
        assert_eq!(figures.pass_at.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        near(figures.pass_at[&1], 1.0 / 3.0);
        near(figures.pass_at[&2], (1.0 + 2.0 / 3.0 + 0.0) / 3.0);
        near(figures.pass_at[&3], 1.0);
        near(figures.pass_hat[&2], (1.0 / 3.0 + 0.0 + 0.0) / 3.0);
        near(figures.pass_hat[&3], 0.0);
        near(figures.reward, (3.0 - 0.25 * 12.0) / 8.0);
        near(figures.calls_per_success.expect("three solved"), 1.0);
        near(figures.calls_per_episode, 1.5);
        let turns: Vec<_> = figures.by_turn.iter().map(|row| (row.turns, row.ended, row.solved)).collect();
        assert_eq!(turns, [(1, 2, 1), (2, 2, 2), (3, 4, 0)]);
        near(figures.by_turn[1].solved_so_far, 3.0 / 8.0);
        assert_eq!(Figures::of(&[], 3), None);
        assert_eq!(powers_of_two(6).collect::<Vec<_>>(), [1, 2, 4, 6]);
        assert_eq!(powers_of_two(1).collect::<Vec<_>>(), [1]);
    }
}
