//! Credit assignment: from the rewards of an episode to the advantages of its turns.

use std::collections::BTreeMap;

use super::comparison::ComparisonRule;
use super::input::AdvantageInput;
use gymkhana_algorithm::Credit;

/// Advantage of each turn of each member; members are compared with one another.
#[must_use]
pub(super) fn turns(
    members: &[&AdvantageInput],
    rewards: &[Vec<f64>],
    credit: Credit,
    comparison: ComparisonRule,
) -> Vec<Vec<f64>> {
    let whole = |values: Vec<f64>| spread(&comparison.of(&values), members);
    let last = || rewards.iter().map(|rewards| rewards.last().copied().unwrap_or(0.0)).collect();
    // Turns of equal index are compared; last turns are compared with last turns.
    let is_last = |member: usize, turn: usize| turn + 1 == rewards[member].len();
    let by_turn = |member: usize, turn: usize| Some(if is_last(member, turn) { u64::MAX } else { turn as u64 });
    match credit {
        Credit::Episode {} => whole(members.iter().map(|member| member.reward).collect()),
        Credit::Outcome {} => whole(last()),
        Credit::Teacher {} => members.iter().map(|member| vec![0.0; member.turns.len()]).collect(),
        Credit::Immediate {} => pooled(rewards, by_turn, comparison),
        Credit::Returns { discount } => pooled(&returns(rewards, discount), |_, _| Some(0), comparison),
        Credit::Rewards { discount, jointly, skip_zero_gains } => {
            let pool = |member: usize, turn: usize| match is_last(member, turn) {
                false if skip_zero_gains && rewards[member][turn] == 0.0 => None,
                last => Some(u64::from(!jointly && last)),
            };
            returns(&pooled(rewards, pool, comparison), discount)
        }
        Credit::Turns { turn_weight, outcome_weight } => {
            let mut found = pooled(rewards, by_turn, comparison);
            for turns in &mut found {
                if let Some((outcome, before)) = turns.split_last_mut() {
                    for advantage in before {
                        *advantage = turn_weight * *advantage + outcome_weight * *outcome;
                    }
                }
            }
            found
        }
        Credit::Anchors { discount, weight } => {
            let anchor = |member: usize, turn: usize| Some(members[member].turns[turn].anchor);
            let among = pooled(&returns(rewards, discount), anchor, comparison);
            let mut found = whole(members.iter().map(|member| member.reward).collect());
            for (found, among) in found.iter_mut().flatten().zip(among.iter().flatten()) {
                *found += weight * among;
            }
            found
        }
    }
}

/// Repeats each member's number for all of its turns.
fn spread(values: &[f64], members: &[&AdvantageInput]) -> Vec<Vec<f64>> {
    values.iter().zip(members).map(|(value, member)| vec![*value; member.turns.len()]).collect()
}

/// Discounted return from each turn on.
fn returns(rewards: &[Vec<f64>], discount: f64) -> Vec<Vec<f64>> {
    let sums = |rewards: &Vec<f64>| {
        let mut sums = rewards.clone();
        for turn in (1..sums.len()).rev() {
            sums[turn - 1] += discount * sums[turn];
        }
        sums
    };
    rewards.iter().map(sums).collect()
}

/// Compares turns within pools: turns with equal pool keys are compared with one another. Turns without a pool get 0.
fn pooled(
    values: &[Vec<f64>],
    pool: impl Fn(usize, usize) -> Option<u64>,
    comparison: ComparisonRule,
) -> Vec<Vec<f64>> {
    let mut pools: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
    for (member, turns) in values.iter().enumerate() {
        for turn in 0..turns.len() {
            if let Some(key) = pool(member, turn) {
                pools.entry(key).or_default().push((member, turn));
            }
        }
    }
    let mut found: Vec<Vec<f64>> = values.iter().map(|turns| vec![0.0; turns.len()]).collect();
    for places in pools.values() {
        let together: Vec<f64> = places.iter().map(|(member, turn)| values[*member][*turn]).collect();
        for ((member, turn), advantage) in places.iter().zip(comparison.of(&together)) {
            found[*member][*turn] = advantage;
        }
    }
    found
}
