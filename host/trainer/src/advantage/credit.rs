//! How what an episode earned becomes credit of its turns.

use std::collections::BTreeMap;

use super::comparison::Comparison;
use super::input::AdvantageInput;
use crate::algorithm::Credit;

/// The advantage of each turn of each of these trajectories, which are compared with one another.
#[must_use]
pub(super) fn turns(
    members: &[&AdvantageInput],
    earned: &[Vec<f64>],
    credit: Credit,
    compare: Comparison,
) -> Vec<Vec<f64>> {
    let whole = |values: Vec<f64>| spread(&compare.of(&values), members);
    let last = || earned.iter().map(|earned| earned.last().copied().unwrap_or(0.0)).collect();
    // Turns of one number are compared, last ones with last ones.
    let by_turn = |member: usize, turn: usize| if turn + 1 == earned[member].len() { u64::MAX } else { turn as u64 };
    match credit {
        Credit::Episode => whole(members.iter().map(|member| member.reward).collect()),
        Credit::Outcome => whole(last()),
        Credit::Teacher => members.iter().map(|member| vec![0.0; member.turns.len()]).collect(),
        Credit::Immediate => pooled(earned, by_turn, compare),
        Credit::Returns { discount } => pooled(&returns(earned, discount), |_, _| 0, compare),
        Credit::Rewards { discount, jointly } => {
            let pool = |member: usize, turn: usize| u64::from(!jointly && turn + 1 == earned[member].len());
            returns(&pooled(earned, pool, compare), discount)
        }
        Credit::Turns { outcome_weight } => {
            let mut found = pooled(earned, by_turn, compare);
            for turns in &mut found {
                if let Some((outcome, before)) = turns.split_last_mut() {
                    before.iter_mut().for_each(|advantage| *advantage += outcome_weight * *outcome);
                }
            }
            found
        }
        Credit::Anchors { discount, weight } => {
            let among = pooled(&returns(earned, discount), |member, turn| members[member].turns[turn].anchor, compare);
            let mut found = whole(members.iter().map(|member| member.reward).collect());
            for (found, among) in found.iter_mut().flatten().zip(among.iter().flatten()) {
                *found += weight * among;
            }
            found
        }
    }
}

/// One number of each trajectory for all its turns.
fn spread(values: &[f64], members: &[&AdvantageInput]) -> Vec<Vec<f64>> {
    values.iter().zip(members).map(|(value, member)| vec![*value; member.turns.len()]).collect()
}

/// What comes from each turn on, discounted.
fn returns(earned: &[Vec<f64>], discount: f64) -> Vec<Vec<f64>> {
    let sums = |rewards: &Vec<f64>| {
        let mut sums = rewards.clone();
        for turn in (1..sums.len()).rev() {
            sums[turn - 1] += discount * sums[turn];
        }
        sums
    };
    earned.iter().map(sums).collect()
}

/// Compares numbers of turns in pools: those of equal names are compared with one another.
fn pooled(values: &[Vec<f64>], pool: impl Fn(usize, usize) -> u64, compare: Comparison) -> Vec<Vec<f64>> {
    let mut pools: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
    for (member, turns) in values.iter().enumerate() {
        for turn in 0..turns.len() {
            pools.entry(pool(member, turn)).or_default().push((member, turn));
        }
    }
    let mut found: Vec<Vec<f64>> = values.iter().map(|turns| vec![0.0; turns.len()]).collect();
    for places in pools.values() {
        let together: Vec<f64> = places.iter().map(|(member, turn)| values[*member][*turn]).collect();
        for ((member, turn), advantage) in places.iter().zip(compare.of(&together)) {
            found[*member][*turn] = advantage;
        }
    }
    found
}
