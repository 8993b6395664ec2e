//! Scores of a group's assessed attempts.

use std::collections::BTreeMap;

use gymkhana_sdk::reward::Score;

use crate::assess::Assessment;
use crate::checklist::Item;
use crate::judge::Account;
use crate::weigh::{self, Normalise, Spread, Weights};
use crate::{Lowest, Options};

/// Assessed attempt of one seat.
pub struct Assessed<'a> {
    /// Seat.
    pub seat: u32,
    /// Index of the trajectory in the group.
    pub trajectory: usize,
    /// Items of its checklist.
    pub items: &'a [Item],
    /// Verdicts.
    pub assessment: Assessment,
    /// Requests to the judge.
    pub account: Account,
}

/// How attempts of a group are scored.
pub struct Scoring<'a> {
    weights: Weights,
    normalise: Normalise,
    /// Spread of each item's values over a seat's attempts, by seat and name.
    spreads: BTreeMap<(u32, &'a str), Spread>,
}

impl<'a> Scoring<'a> {
    /// Scoring by the options in a training step, within a group.
    pub fn new(options: &Options, training_step: u64, group: &'a [Assessed<'a>]) -> Self {
        let &Options { lowest, process_weight, decay_steps, turn_decay, normalise, .. } = options;
        let lowest = if lowest == Lowest::Zero { 0.0 } else { -1.0 };
        let process = weigh::decayed(process_weight, training_step, decay_steps);
        let mut values: BTreeMap<(u32, &str), Vec<f64>> = BTreeMap::new();
        for one in group.iter().filter(|_| normalise == Normalise::Group) {
            for (item, met) in one.items.iter().zip(&one.assessment.met) {
                let values = values.entry((one.seat, &item.name)).or_default();
                values.extend(weigh::values(item, met).into_iter().map(|(_, value)| value));
            }
        }
        let spreads = values.into_iter().map(|(key, values)| (key, Spread::of(&values))).collect();
        let weights = Weights { process, turn_decay, lowest };
        Self { weights, normalise, spreads }
    }

    /// Score of an attempt of the group.
    pub fn score(&self, one: &Assessed<'_>) -> Score {
        let (items, met) = (one.items, &one.assessment.met);
        let Weights { turn_decay, lowest, process: weight } = self.weights;
        let has_process = items.iter().any(|item| item.place.is_process());
        let share = weigh::outcome(items, met);
        let plain = weigh::process(items, met, turn_decay, None);
        let raw = weigh::sum(plain.iter().copied());
        let process = match self.normalise {
            Normalise::Group => weigh::process(items, met, turn_decay, Some(&self.spreads_of(one))),
            Normalise::None | Normalise::Outcome => plain,
        };
        // An essential item that is not met gives the lowest outcome, and at most that as the total.
        let is_missed = |item: &Item, met: &[f64]| item.essential && met.iter().all(|met| *met == 0.0);
        let missed = items.iter().zip(met).filter(|(item, met)| is_missed(item, met)).count();
        let outcome = share.map(|share| if missed > 0 { lowest } else { share.clamp(lowest, 1.0) });
        let reward = weigh::join(outcome, has_process.then_some(process), self.normalise, self.weights);
        let reward = if missed > 0 { reward.at_most(lowest) } else { reward };
        let weight = match (share.is_some(), has_process) {
            (_, false) => 0.0,
            (false, true) => 1.0,
            (true, true) => weight,
        };
        let degree = |(item, met): (&Item, &Vec<f64>)| weigh::degree(item, met);
        let score = Score::new(one.seat, reward.total)
            .component("met", share.unwrap_or(0.0))
            .component("items", items.len() as f64)
            .component("items-met", weigh::sum(items.iter().zip(met).map(degree)))
            .component("essential-missed", missed as f64);
        let score = with_account(score, &one.account, [raw, weight, one.assessment.blocked as f64]);
        let evidence = one.assessment.evidence.iter().cloned();
        let score = evidence.fold(score, |score, (turn, span, note)| score.evidence(turn, span, note));
        Score { turns: reward.turns, ..score }
    }

    fn spreads_of(&self, one: &Assessed<'_>) -> Vec<Spread> {
        let spread = |item: &Item| self.spreads.get(&(one.seat, item.name.as_str())).copied();
        one.items.iter().map(|item| spread(item).unwrap_or(Spread::of(&[]))).collect()
    }
}

/// Adds the components from `asked` on.
fn with_account(score: Score, account: &Account, [process, weight, blocked]: [f64; 3]) -> Score {
    score
        .component("asked", f64::from(account.calls))
        .component("process", process)
        .component("process-weight", weight)
        .component("blocked", blocked)
        .component("prompt-tokens", account.prompt_tokens as f64)
        .component("reply-tokens", account.reply_tokens as f64)
        .component("disagreement", account.disagreement())
        .component("disputed", account.disputed())
}
