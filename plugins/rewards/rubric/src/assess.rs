//! Verdicts on all items in one attempt of a seat, in the order of their needs.

use std::ops::Range;

use gymkhana_sdk::Error;

use crate::attempt::Attempt;
use crate::checklist::{Checklist, Item, Place};
use crate::judge::Judge;
use crate::quote::quote;
use crate::rule::{self, Said, Scope};
use crate::weigh;

/// Degree from which an item is met for the items that need it.
const HELD: f64 = 0.5;
/// Maximum number of passages in a score, so that it fits into the host's limit on results.
const MAX_EVIDENCE: usize = 1000;

/// Passage that explains a verdict: the index of its turn in the trajectory, its bytes, and a note.
pub type Passage = (usize, Range<usize>, String);

/// Verdicts on a checklist.
pub struct Assessment {
    /// Degrees from 0 to 1 to which each item is met: one number for an item about the whole episode, one per turn for
    /// the others. An item whose needs are not met has 0.
    pub met: Vec<Vec<f64>>,
    /// Number of items that did not count in any turn because an item that they need was not met.
    pub blocked: usize,
    /// Passages that explain the verdicts.
    pub evidence: Vec<Passage>,
}

/// Decides all items. With `one_by_one`, the judge sees each turn in a request of its own, with the conversation before
/// it; otherwise it sees all turns together.
///
/// # Errors
/// Errors of the judge, and missing facts.
pub fn assess(
    attempt: &Attempt<'_>,
    list: &Checklist,
    judge: &mut Judge<'_>,
    one_by_one: bool,
) -> Result<Assessment, Error> {
    let turns = attempt.turns.len();
    let met = list.items.iter().map(|item| vec![0.0; if item.place.is_process() { turns } else { 1 }]).collect();
    let decided = vec![false; list.items.len()];
    let mut progress = Progress { attempt, list, met, decided, evidence: Vec::new() };
    while progress.decided.contains(&false) {
        for &index in &list.order {
            progress.decide_alone(index, judge)?;
        }
        for place in [Place::Turn, Place::Thought] {
            progress.decide_together(place, judge, one_by_one)?;
        }
    }
    let needy = (0..list.items.len()).filter(|&index| !list.items[index].needs.is_empty());
    let blocked = needy.filter(|&index| !progress.needs_hold(index, usize::MAX)).count();
    let Progress { met, mut evidence, .. } = progress;
    evidence.truncate(MAX_EVIDENCE);
    Ok(Assessment { met, blocked, evidence })
}

/// Verdicts so far.
struct Progress<'a> {
    attempt: &'a Attempt<'a>,
    list: &'a Checklist,
    met: Vec<Vec<f64>>,
    decided: Vec<bool>,
    evidence: Vec<Passage>,
}

impl Progress<'_> {
    fn item(&self, index: usize) -> &Item {
        &self.list.items[index]
    }

    /// Whether the items that an item needs are met, in this turn or an earlier one where they are about turns.
    fn needs_hold(&self, index: usize, turn: usize) -> bool {
        let held = |need: &usize| self.met[*need].iter().take(turn.saturating_add(1)).any(|met| *met >= HELD);
        self.item(index).needs.iter().all(held)
    }

    /// Whether the verdicts on all items that an item needs are known, or will be known together with its own.
    fn is_ready(&self, index: usize, together: &[usize]) -> bool {
        self.item(index).needs.iter().all(|need| self.decided[*need] || together.contains(need))
    }

    /// Decides an item by its rule, or by a question of its own, if its needs are decided.
    fn decide_alone(&mut self, index: usize, judge: &mut Judge<'_>) -> Result<(), Error> {
        let item = &self.list.items[index];
        let waits = item.place.is_process() && item.rule.is_judged();
        if self.decided[index] || waits || !self.is_ready(index, &[]) {
            return Ok(());
        }
        if item.place.is_process() {
            for turn in 0..self.attempt.turns.len() {
                self.decide_turn(index, turn)?;
            }
        } else if self.needs_hold(index, usize::MAX) {
            self.met[index][0] = self.decide_whole(item, judge)?;
        }
        self.decided[index] = true;
        Ok(())
    }

    fn decide_whole(&mut self, item: &Item, judge: &mut Judge<'_>) -> Result<f64, Error> {
        let said = self.attempt.whole(item.place);
        if let Some(met) = self.by_rule(item, &said, 0..self.attempt.trajectory.turns.len())? {
            return Ok(met);
        }
        // Without a message the model is not called.
        if said.is_empty() {
            return Ok(0.0);
        }
        let words: Vec<&str> = said.iter().map(|said| said.text.as_str()).collect();
        judge.whole(item, &words.join("\n\n"))
    }

    /// Decides a rule in one turn: the mean over its parts.
    fn decide_turn(&mut self, index: usize, turn: usize) -> Result<(), Error> {
        if !self.needs_hold(index, turn) {
            return Ok(());
        }
        let item = &self.list.items[index];
        let mut verdicts = Vec::new();
        for said in self.attempt.parts(item.place, turn) {
            verdicts.extend(self.by_rule(item, &[said], self.attempt.turns[turn].span.clone())?);
        }
        self.met[index][turn] = mean(&verdicts);
        Ok(())
    }

    /// Verdict of a rule with its evidence; `None` for an item that a model judges.
    fn by_rule(&mut self, item: &Item, said: &[Said], turns: Range<usize>) -> Result<Option<f64>, Error> {
        let Attempt { trajectory, seat, .. } = *self.attempt;
        let found = rule::decide(&item.rule, &Scope { trajectory, seat, turns, said })?;
        Ok(found.map(|found| {
            let verdict = if found.met { "met" } else { "not met" };
            let passage = found.span.map(|(turn, span)| (turn, span, format!("{}: {verdict}", item.name)));
            self.evidence.extend(passage);
            f64::from(u8::from(found.met))
        }))
    }

    /// Judges all items of turns, or of thoughts, whose needs are decided or judged together with them.
    fn decide_together(&mut self, place: Place, judge: &mut Judge<'_>, one_by_one: bool) -> Result<(), Error> {
        let mut together: Vec<usize> = Vec::new();
        for &index in &self.list.order {
            let item = self.item(index);
            let open = !self.decided[index] && item.place == place && item.rule.is_judged();
            if open && self.is_ready(index, &together) {
                together.push(index);
            }
        }
        if together.is_empty() {
            return Ok(());
        }
        let turns = self.attempt.turns.len();
        if one_by_one {
            for turn in 0..turns {
                self.judge_turns(place, turn..turn + 1, &together, judge)?;
            }
        } else {
            self.judge_turns(place, 0..turns, &together, judge)?;
        }
        together.iter().for_each(|&index| self.decided[index] = true);
        Ok(())
    }

    /// One request about some turns. Items that cannot count there are left out.
    fn judge_turns(
        &mut self,
        place: Place,
        turns: Range<usize>,
        together: &[usize],
        judge: &mut Judge<'_>,
    ) -> Result<(), Error> {
        let asked: Vec<usize> = together.iter().copied().filter(|&index| self.may_count(index, &turns)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let quoted = quote(self.attempt, place, turns.clone());
        if quoted.parts.is_empty() {
            return Ok(());
        }
        let items: Vec<&Item> = asked.iter().map(|&index| self.item(index)).collect();
        let verdicts = judge.parts(&items, &quoted.blocks, quoted.parts.len())?;
        let list = self.list;
        for turn in turns {
            // An item follows those that it needs, so their verdicts in this turn are known.
            for (&index, verdicts) in asked.iter().zip(&verdicts) {
                let counts = self.needs_hold(index, turn);
                let of_turn = quoted.parts.iter().zip(verdicts).filter(|((of, _), _)| *of == turn);
                let of_turn: Vec<(&Said, f64)> = of_turn.map(|((_, said), verdict)| (said, *verdict)).collect();
                for (said, verdict) in &of_turn {
                    let note = if counts { in_words(*verdict) } else { "not counted".to_owned() };
                    let span = said.start..said.start + said.text.len();
                    self.evidence.push((said.turn, span, format!("{}: {note}", list.items[index].name)));
                }
                if counts {
                    self.met[index][turn] = mean(&of_turn.iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>());
                }
            }
        }
        Ok(())
    }

    /// Whether an item can count in one of the turns: its decided needs are met, and it is not one that counts once and
    /// was fully met before.
    fn may_count(&self, index: usize, turns: &Range<usize>) -> bool {
        let item = self.item(index);
        let over = item.once && self.met[index][..turns.start].contains(&1.0);
        let last = turns.end.saturating_sub(1);
        let held = |need: usize| self.met[need].iter().take(last + 1).any(|met| *met >= HELD);
        !over && item.needs.iter().all(|&need| !self.decided[need] || held(need))
    }
}

/// Mean; 0 for no numbers.
fn mean(numbers: &[f64]) -> f64 {
    weigh::sum(numbers.iter().copied()) / numbers.len().max(1) as f64
}

/// Degree in words, for evidence.
fn in_words(met: f64) -> String {
    if met == 1.0 {
        "met".to_owned()
    } else if met == 0.0 {
        "not met".to_owned()
    } else {
        format!("met to {met:.2}")
    }
}
