//! From verdicts to numbers: weighted shares, weights of turns, normalisation within a group, and the decay of the
//! process towards the outcome.

use gymkhana_sdk::OptionValue;

use crate::checklist::Item;

/// Largest distance from the group's mean that counts, in standard deviations.
const MAX_DEVIATIONS: f64 = 3.0;
/// Added to a group's standard deviation, as the trainer does.
const DEVIATION_FLOOR: f64 = 1e-6;

/// Normalisation of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
pub enum Normalise {
    /// Weighted shares as they are.
    None,
    /// The outcome minus 1 is added to the share of each turn (ReNorm).
    Outcome,
    /// Each item is compared with all attempts of the group: mean 0, standard deviation 1.
    Group,
}

/// Weights of one scoring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Weight of the process in the total, from 0 to 1; the outcome has the rest.
    pub process: f64,
    /// Factor of the weight of each turn relative to the turn before it.
    pub turn_decay: f64,
    /// Lowest total without normalisation.
    pub lowest: f64,
}

/// Sum; 0 for no numbers (the standard library's sum is -0).
pub fn sum(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(0.0, |sum, number| sum + number)
}

/// Weight of the process in a training step: `start · (1 − step / steps)`, at least 0; constant for 0 steps.
pub fn decayed(start: f64, step: u64, steps: u64) -> f64 {
    if steps == 0 { start } else { start * (1.0 - step as f64 / steps as f64).max(0.0) }
}

/// Weighted share of the items about the outcome, before clamping; `None` without such items.
pub fn outcome(items: &[Item], met: &[Vec<f64>]) -> Option<f64> {
    let parts = || items.iter().zip(met).filter(|(item, _)| !item.place.is_process());
    let most: f64 = parts().map(|(item, _)| item.weight.max(0.0)).sum();
    (most > 0.0).then(|| parts().map(|(item, met)| item.weight * met[0]).sum::<f64>() / most)
}

/// Value of an item in an attempt and the turn in which it counts: each turn, or for an item that counts once the first
/// of its best turns. The last turn stands for an item that no turn met.
pub fn values(item: &Item, met: &[f64]) -> Vec<(usize, f64)> {
    if !item.once {
        return met.iter().copied().enumerate().collect();
    }
    let best = met.iter().copied().fold(0.0, f64::max);
    let turn = if best == 0.0 { met.len().checked_sub(1) } else { met.iter().position(|met| *met == best) };
    turn.map(|turn| (turn, best)).into_iter().collect()
}

/// Degree to which an item is met in an attempt: that of its best turn if it counts once, else the mean over turns.
pub fn degree(item: &Item, met: &[f64]) -> f64 {
    let values = values(item, met);
    sum(values.iter().map(|(_, value)| *value)) / values.len().max(1) as f64
}

/// Weights of turns, of sum 1, each `decay` times the one before it.
pub fn turn_weights(turns: usize, decay: f64) -> Vec<f64> {
    let raw: Vec<f64> = std::iter::successors(Some(1.0), |weight| Some(weight * decay)).take(turns).collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|weight| weight / sum).collect()
}

/// Mean and standard deviation of an item's values in a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    /// Spread of values, with the sample standard deviation (divisor n − 1).
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }

    fn normalised(self, value: f64) -> f64 {
        let distance = (value - self.mean) / (self.deviation + DEVIATION_FLOOR);
        distance.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
    }
}

/// Process part of an attempt, one number per turn; the sum is the process's reward. `spreads` are those of the items in
/// the group, for items about turns.
pub fn process(items: &[Item], met: &[Vec<f64>], decay: f64, spreads: Option<&[Spread]>) -> Vec<f64> {
    let parts = || items.iter().zip(met).enumerate().filter(|(_, (item, _))| item.place.is_process());
    let turns = parts().map(|(_, (_, met))| met.len()).max().unwrap_or(0);
    let weights = turn_weights(turns, decay);
    // Normalised values have both signs, so the weights of undesired properties count in the divisor as well.
    let size = |weight: f64| if spreads.is_some() { weight.abs() } else { weight.max(0.0) };
    let most: f64 = parts().map(|(_, (item, _))| size(item.weight)).sum();
    let mut rewards = vec![0.0; turns];
    for (index, (item, met)) in parts() {
        for (turn, value) in values(item, met) {
            let value = spreads.map_or(value, |spreads| spreads[index].normalised(value));
            let weight = if item.once { 1.0 } else { weights[turn] };
            rewards[turn] += item.weight / most * weight * value;
        }
    }
    rewards
}

/// Reward of an attempt: its total, and the part of it that belongs to each turn.
#[derive(Debug, PartialEq)]
pub struct Reward {
    /// Total.
    pub total: f64,
    /// Rewards of turns; empty without items about turns.
    pub turns: Vec<f64>,
}

impl Reward {
    /// The reward, but at most `highest`; then without rewards of turns.
    pub fn at_most(self, highest: f64) -> Self {
        if self.total <= highest {
            return self;
        }
        Self { total: highest, turns: vec![0.0; self.turns.len()] }
    }
}

/// Joins the outcome and the process. `outcome` is between the lowest total and 1; `None` without items about it, and the
/// process then has the whole weight. `process` is `None` without items about turns.
pub fn join(outcome: Option<f64>, process: Option<Vec<f64>>, normalise: Normalise, weights: Weights) -> Reward {
    let Some(mut turns) = process else {
        return Reward { total: outcome.unwrap_or(0.0), turns: vec![] };
    };
    if normalise != Normalise::Group {
        confine(&mut turns, weights.lowest);
    }
    if let (Normalise::Outcome, Some(outcome)) = (normalise, outcome) {
        let each = turn_weights(turns.len(), weights.turn_decay);
        turns.iter_mut().zip(each).for_each(|(turn, weight)| *turn += weight * (outcome - 1.0));
    }
    let weight = if outcome.is_some() { weights.process } else { 1.0 };
    turns.iter_mut().for_each(|turn| *turn *= weight);
    let total = sum(turns.iter().copied()) + (1.0 - weight) * outcome.unwrap_or(0.0);
    // A sum of rounded weights may exceed 1.
    let total = if normalise == Normalise::Group { total } else { total.min(1.0) };
    Reward { total, turns }
}

/// Scales turn rewards so that their sum is at least `lowest`, if undesired properties outweigh the others.
fn confine(turns: &mut [f64], lowest: f64) {
    let sum: f64 = turns.iter().sum();
    if sum < lowest {
        turns.iter_mut().for_each(|turn| *turn *= lowest / sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checklist::{Place, Rule};

    const WEIGHTS: Weights = Weights { process: 0.5, turn_decay: 1.0, lowest: 0.0 };

    fn item(weight: f64, once: bool) -> Item {
        let rule = Rule::Contains("x".to_owned());
        Item { name: "a".to_owned(), weight, essential: false, place: Place::Turn, needs: vec![], once, rule }
    }

    fn near(found: &[f64], expected: &[f64]) {
        let close = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5);
        assert!(close && found.len() == expected.len(), "{found:?}, not {expected:?}");
    }

    #[test]
    fn the_weight_of_the_process_falls_linearly() {
        let found: Vec<f64> = [0, 50, 100, 150].map(|step| decayed(0.5, step, 100)).to_vec();
        assert_eq!(found, [0.5, 0.25, 0.0, 0.0]);
        assert_eq!(decayed(0.5, 1_000_000, 0), 0.5);
    }

    #[test]
    fn weights_of_turns_fall_and_have_the_sum_1() {
        near(&turn_weights(3, 0.5), &[4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]);
        near(&turn_weights(4, 1.0), &[0.25; 4]);
        near(&turn_weights(0, 0.5), &[]);
        assert!(turn_weights(10_000, 0.01).iter().all(|weight| weight.is_finite()));
    }

    /// Weights 3 and 1, four turns: each turn has 3/4 · 1/4 of the first item, and one turn has 1/4 of the second.
    #[test]
    fn an_item_counts_in_each_turn_or_once() {
        let items = [item(3.0, false), item(1.0, true)];
        let each = vec![1.0, 0.0, 1.0, 0.0];
        let expected = [0.1875, 0.25, 0.1875, 0.0];
        // Meeting the second item again earns nothing.
        for once in [vec![0.0, 1.0, 0.0, 0.0], vec![0.0, 1.0, 1.0, 1.0]] {
            near(&process(&items, &[each.clone(), once], 1.0, None), &expected);
        }
        assert_eq!(values(&items[1], &[0.3, 0.8, 0.8]), [(1, 0.8)]);
        assert_eq!(values(&items[1], &[0.0, 0.0]), [(1, 0.0)]);
        assert!(values(&items[1], &[]).is_empty());
        assert_eq!((degree(&items[0], &each), degree(&items[1], &[0.3, 0.8]), degree(&items[1], &[])), (0.5, 0.8, 0.0));
    }

    #[test]
    fn process_and_outcome_share_the_total() {
        let turns = || Some(vec![0.1875, 0.25, 0.1875, 0.0]);
        let joined = join(Some(1.0), turns(), Normalise::None, WEIGHTS);
        assert_eq!(joined, Reward { total: 0.8125, turns: vec![0.09375, 0.125, 0.09375, 0.0] });
        let joined = join(Some(1.0), turns(), Normalise::None, Weights { process: 0.0, ..WEIGHTS });
        assert_eq!(joined, Reward { total: 1.0, turns: vec![0.0; 4] });
        let rounded = turn_weights(11, 1.0);
        let joined = join(None, Some(rounded.clone()), Normalise::None, WEIGHTS);
        assert!(sum(rounded) > 1.0 && joined.total == 1.0, "{joined:?}");
        // Alone, each has the whole weight.
        assert_eq!(join(None, turns(), Normalise::None, WEIGHTS).total, 0.625);
        assert_eq!(join(Some(0.4), None, Normalise::None, WEIGHTS), Reward { total: 0.4, turns: vec![] });
        // Beside an outcome, an attempt without turns earns nothing by its process.
        assert_eq!(join(Some(0.4), Some(vec![]), Normalise::None, WEIGHTS), Reward { total: 0.2, turns: vec![] });
    }

    /// r = process + outcome − 1 in each turn: the same sum for every number of turns.
    #[test]
    fn the_outcome_calibrates_the_process() {
        let joined = |outcome, turns: Vec<f64>| join(Some(outcome), Some(turns), Normalise::Outcome, WEIGHTS);
        let turns = || vec![0.1875, 0.25, 0.1875, 0.0];
        near(&joined(0.0, turns()).turns, &[-0.03125, 0.0, -0.03125, -0.125]);
        near(&[joined(0.0, turns()).total, joined(1.0, turns()).total], &[-0.1875, 0.8125]);
        near(&[joined(0.0, vec![0.25; 2]).total, joined(0.0, vec![0.05; 10]).total], &[-0.25, -0.25]);
    }

    /// Values 1, 0 and 0, 0: mean 1/4, sample variance (9 + 3) / 16 / 3 = 1/4.
    #[test]
    fn items_are_compared_within_the_group() {
        let items = [item(1.0, false)];
        let spread = Spread::of(&[1.0, 0.0, 0.0, 0.0]);
        assert_eq!(spread, Spread { mean: 0.25, deviation: 0.5 });
        near(&process(&items, &[vec![1.0, 0.0]], 1.0, Some(&[spread])), &[0.75, -0.25]);
        near(&process(&items, &[vec![0.0, 0.0]], 1.0, Some(&[spread])), &[-0.25, -0.25]);
        // An undesired property of three times the weight: (1.5 − 3 · 1.5) / 4 and (−0.5 + 3 · 0.5) / 4.
        let both = [item(1.0, false), item(-3.0, false)];
        let met = [vec![1.0], vec![1.0]];
        near(&process(&both, &met, 1.0, Some(&[spread, spread])), &[-0.75]);
        near(&process(&both, &[vec![0.0], vec![0.0]], 1.0, Some(&[spread, spread])), &[0.25]);
        // Equal values, a single one, and one of a hundred, which is 9.9 deviations above the mean.
        near(&[Spread::of(&[0.7, 0.7]).normalised(0.7), Spread::of(&[0.7]).normalised(0.7)], &[0.0, 0.0]);
        let rare: Vec<f64> = std::iter::once(1.0).chain([0.0; 99]).collect();
        assert_eq!(Spread::of(&rare).normalised(1.0), 3.0);
    }

    #[test]
    fn undesired_properties_do_not_lower_the_process_below_the_lowest_total() {
        let items = [item(1.0, false), item(-3.0, false)];
        let joined = |good: [f64; 2], bad: [f64; 2], lowest| {
            let process = process(&items, &[good.to_vec(), bad.to_vec()], 1.0, None);
            join(None, Some(process), Normalise::None, Weights { lowest, ..WEIGHTS })
        };
        let lowest = joined([0.0, 0.0], [1.0, 1.0], -1.0);
        near(&[lowest.total, lowest.turns[0], lowest.turns[1]], &[-1.0, -0.5, -0.5]);
        assert_eq!(joined([0.0, 0.0], [1.0, 1.0], 0.0).total, 0.0);
        assert_eq!(joined([1.0, 1.0], [0.0, 1.0], -1.0), Reward { total: -0.5, turns: vec![0.5, -1.0] });
        let reward = joined([1.0, 1.0], [0.0, 0.0], 0.0);
        assert_eq!(reward, Reward { total: 1.0, turns: vec![0.5, 0.5] });
        assert_eq!(reward.at_most(0.0), Reward { total: 0.0, turns: vec![0.0, 0.0] });
        let low = Reward { total: -2.0, turns: vec![-2.0] };
        assert_eq!(low.at_most(0.0), Reward { total: -2.0, turns: vec![-2.0] });
    }
}
