//! `mixed-outcome`: spends the attempts of a step where groups with both outcomes are most likely.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gymkhana_config::MixedOutcomeTasks;

use super::choice::{Choice, next_tasks};
use super::memory::SamplerMemory;
use crate::tasks::TaskOrder;

/// Fewest attempts at a task: one alone has no other outcome.
const FEWEST: u32 = 2;

/// The candidates with the highest chance of both outcomes in a group of `group_size`, and the division of all attempts
/// among them.
pub(super) fn choose(
    own: &MixedOutcomeTasks,
    order: &mut TaskOrder,
    memory: &mut SamplerMemory,
    groups: usize,
    group_size: u32,
) -> Vec<Choice> {
    let distinct = order.count().and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let wanted = groups.saturating_mul(own.candidates as usize).min(distinct).max(groups);
    let candidates = next_tasks(order, &mut memory.next, wanted);
    let predict = predictor(memory);
    let mut ranked: Vec<_> = candidates.into_iter().map(|task| (predict(task.index), task)).collect();
    // Stable, so that equal candidates keep their order.
    ranked.sort_by(|(one, _), (other, _)| mixed(*other, group_size).total_cmp(&mixed(*one, group_size)));
    ranked.truncate(groups);
    let chances: Vec<f64> = ranked.iter().map(|(chance, _)| *chance).collect();
    let attempts = divide(&chances, group_size, group_size.saturating_mul(own.most));
    let choice = |((_, task), attempts)| Choice { task, turns: None, attempts: Some(attempts) };
    ranked.into_iter().zip(attempts).map(choice).collect()
}

/// Predicted success rate of a task: its attempts, with two imagined ones at the success rate of all tasks.
fn predictor(memory: &SamplerMemory) -> impl Fn(u64) -> f64 {
    let smooth = |solved: usize, attempts: usize, prior: f64| (solved as f64 + 2.0 * prior) / (attempts as f64 + 2.0);
    let sum = memory.tasks.values().fold((0, 0), |sum, task| (sum.0 + task.solved(), sum.1 + task.attempts()));
    let all = smooth(sum.0, sum.1, 0.5);
    move |index| memory.tasks.get(&index).map_or(all, |task| smooth(task.solved(), task.attempts(), all))
}

/// Probability that `attempts` independent attempts have both outcomes.
fn mixed(success: f64, attempts: u32) -> f64 {
    let n = f64::from(attempts);
    1.0 - success.powf(n) - (1.0 - success).powf(n)
}

/// Divides `group_size` attempts per task so that the sum of [`mixed`] is largest, with at least [`FEWEST`] and at most
/// `most` for each. What another attempt adds falls with their number, so that the next best one is always right.
fn divide(chances: &[f64], group_size: u32, most: u32) -> Vec<u32> {
    let gain = |chance: f64, attempts: u32| mixed(chance, attempts + 1) - mixed(chance, attempts);
    // The bits of numbers from 0 on are ordered as the numbers are.
    let entry = |place: usize, attempts: u32| (gain(chances[place], attempts).max(0.0).to_bits(), Reverse(place));
    let mut attempts = vec![FEWEST; chances.len()];
    let mut next: BinaryHeap<_> = (0..chances.len()).map(|place| entry(place, FEWEST)).collect();
    let mut left = u64::from(group_size.saturating_sub(FEWEST)) * chances.len() as u64;
    while left > 0
        && let Some((_, Reverse(place))) = next.pop()
    {
        if attempts[place] < most {
            attempts[place] += 1;
            left -= 1;
            next.push(entry(place, attempts[place]));
        }
    }
    attempts
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Seed;

    use super::*;
    use crate::sampler::memory::TaskMemory;

    /// For p = 1/2 and n = 2: 1 - 1/4 - 1/4; for p = 1/4 and n = 3: 1 - 1/64 - 27/64.
    #[test]
    fn the_chance_of_both_outcomes() {
        assert!((mixed(0.5, 2) - 0.5).abs() < 1e-12);
        assert!((mixed(0.25, 3) - 36.0 / 64.0).abs() < 1e-12);
        assert_eq!((mixed(0.0, 4), mixed(1.0, 4)), (0.0, 0.0));
    }

    /// All divisions of 12 attempts among three tasks, tried one by one, against the greedy one.
    #[test]
    fn the_division_is_the_best_of_all() {
        for chances in [[0.5, 0.1, 0.02], [0.9, 0.9, 0.3], [0.01, 0.99, 0.5], [0.2, 0.2, 0.2]] {
            let value = |division: [u32; 3]| -> f64 {
                chances.iter().zip(division).map(|(chance, attempts)| mixed(*chance, attempts)).sum()
            };
            let mut best = 0.0_f64;
            for first in 2..=8 {
                for second in 2..=8 {
                    if let Some(third) = 12_u32.checked_sub(first + second).filter(|third| (2..=8).contains(third)) {
                        best = best.max(value([first, second, third]));
                    }
                }
            }
            let found = divide(&chances, 4, 8);
            assert_eq!(found.iter().sum::<u32>(), 12, "{chances:?}: {found:?}");
            assert!((value([found[0], found[1], found[2]]) - best).abs() < 1e-12, "{chances:?}: {found:?}");
        }
    }

    /// Of ten tasks, only 4 is sometimes solved; two of ten are chosen, and it is among them with the most attempts.
    #[test]
    fn tasks_with_both_outcomes_are_preferred() {
        let own = MixedOutcomeTasks { tasks: None, attempts: 8, candidates: 5, most: 2 };
        let known = |index: u64| {
            let outcomes = if index == 4 { "01010101" } else { "11111111" };
            (index, TaskMemory { outcomes: outcomes.to_owned(), last: 1, ..TaskMemory::default() })
        };
        let mut memory = SamplerMemory { tasks: (0..10).map(known).collect(), ..SamplerMemory::default() };
        let mut order = TaskOrder::shuffled("train", Some(10), Seed(1));
        let chosen = choose(&own, &mut order, &mut memory, 2, 4);
        assert_eq!(chosen[0].task.index, 4);
        // The other one has p = (8 + 2 · 78/82) / 10, so 0.99, and a third attempt adds 0.01 there; the third, fourth,
        // fifth and sixth add 1/4, 1/8, 1/16 and 1/32 for p near 1/2.
        let attempts: Vec<Option<u32>> = chosen.iter().map(|choice| choice.attempts).collect();
        assert_eq!(attempts, [Some(6), Some(2)]);
    }
}
