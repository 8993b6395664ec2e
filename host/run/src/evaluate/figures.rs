//! Statistics of attempts at tasks: success rate, pass@k, pass^k and cost in calls.

use std::collections::BTreeMap;

use serde::Serialize;

/// A finished attempt at a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// Number of the task in the evaluation.
    pub task: u64,
    /// Whether the attempt solved the task.
    pub success: bool,
    /// Number of replies by the model.
    pub turns: usize,
    /// Number of replies and notes by the model.
    pub replies: usize,
    /// Number of these that a limit of tokens cut.
    pub cut_replies: usize,
    /// Number of calls by the model that could be read.
    pub calls: usize,
    /// Number of calls by the model that could not be read.
    pub malformed_calls: usize,
    /// Sum of the rewards of the model's seats.
    pub reward: f64,
}

/// Attempts with the same number of turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtTurn {
    /// Number of turns.
    pub turns: usize,
    /// Attempts that ended with this turn.
    pub ended: usize,
    /// Attempts among them that solved their task.
    pub solved: usize,
    /// Share of all attempts that had solved their task by this turn.
    pub solved_so_far: f64,
}

/// Statistics of all attempts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Tasks with at least one finished attempt.
    pub tasks: usize,
    /// Finished attempts.
    pub episodes: usize,
    /// Success rate: mean over tasks of the share of successful attempts.
    pub success: f64,
    /// Standard error of the success rate across tasks; absent for a single task.
    pub success_error: Option<f64>,
    /// pass@k: probability that at least one of k attempts solves a task.
    pub pass_at: BTreeMap<usize, f64>,
    /// pass^k: probability that all of k attempts solve a task.
    pub pass_hat: BTreeMap<usize, f64>,
    /// Mean reward.
    pub reward: f64,
    /// Attempts by number of turns.
    pub by_turn: Vec<AtTurn>,
    /// Mean number of calls of successful attempts, without malformed ones; absent without any success.
    pub calls_per_success: Option<f64>,
    /// Mean number of calls of all attempts, without malformed ones.
    pub calls_per_episode: f64,
    /// Mean number of malformed calls of all attempts.
    pub malformed_calls_per_episode: f64,
    /// Share of all replies that a limit of tokens cut, 0 to 1.
    pub cut_replies: f64,
}

/// Unbiased estimate of the probability that at least one of `k` attempts succeeds, given `right` successes among
/// `all`. `None` for fewer than `k` attempts.
pub fn pass_at(all: usize, right: usize, k: usize) -> Option<f64> {
    // 1 - C(wrong, k) / C(all, k), as a product of shares.
    let none =
        |wrong: usize| (0..k).map(|taken| wrong.saturating_sub(taken) as f64 / (all - taken) as f64).product::<f64>();
    (k <= all).then(|| 1.0 - none(all - right))
}

/// Unbiased estimate of the probability that all of `k` attempts succeed. `None` for fewer than `k` attempts.
pub fn pass_hat(all: usize, right: usize, k: usize) -> Option<f64> {
    let every = || (0..k).map(|taken| right.saturating_sub(taken) as f64 / (all - taken) as f64).product();
    (k <= all).then(every)
}

impl Figures {
    /// Statistics of `attempts`, with up to `samples` per task; `None` without attempts.
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
        let malformed: Vec<f64> = attempts.iter().map(|attempt| attempt.malformed_calls as f64).collect();
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
            malformed_calls_per_episode: mean(&malformed)?,
            cut_replies: cut_share(attempts),
        })
    }
}

/// 1, 2, 4 … below the last number, then the last number.
fn powers_of_two(last: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1), |power: &usize| power.checked_mul(2));
    powers.take_while(move |power| *power < last).chain([last])
}

fn cut_share(attempts: &[Attempt]) -> f64 {
    let sum = |of: fn(&Attempt) -> usize| attempts.iter().map(of).sum::<usize>() as f64;
    sum(|attempt| attempt.cut_replies) / sum(|attempt| attempt.replies).max(1.0)
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

    /// Share of the subsets of `k` attempts that hold, by enumeration; the first `right` attempts succeed.
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
            replies: turns,
            cut_replies: turns - 1,
            calls,
            malformed_calls: turns - 1,
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
        // Shares 2/3, 1/3 and 0.
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
        // One less than its turns in each attempt: 0, 1, 2, 2, 1, 0, 2, 2.
        near(figures.malformed_calls_per_episode, 1.25);
        // All but one of the 18 replies' 8 attempts.
        near(figures.cut_replies, 10.0 / 18.0);
        let turns: Vec<_> = figures.by_turn.iter().map(|row| (row.turns, row.ended, row.solved)).collect();
        assert_eq!(turns, [(1, 2, 1), (2, 2, 2), (3, 4, 0)]);
        near(figures.by_turn[1].solved_so_far, 3.0 / 8.0);
        assert_eq!(Figures::of(&[], 3), None);
        assert_eq!(powers_of_two(6).collect::<Vec<_>>(), [1, 2, 4, 6]);
        assert_eq!(powers_of_two(1).collect::<Vec<_>>(), [1]);
    }
}
