//! Rewards of single turns: assigns each number to a turn of its seat.

use gymkhana_record::{EpisodeRecord, PolicyTurn, Turn};

/// Zero for each turn of a seat.
pub(super) fn nothing(record: &EpisodeRecord, seat: u32) -> Vec<f64> {
    vec![0.0; of_seat(record, seat).count()]
}

fn of_seat(record: &EpisodeRecord, seat: u32) -> impl Iterator<Item = &PolicyTurn> {
    record.policy_turns.iter().filter(move |turn| turn.seat == seat)
}

/// Adds the environment's rewards of its steps. A step's reward belongs to the turn that made the step; for other
/// seats, to their last turn before it, or to their first one.
pub(super) fn add_steps(turns: &mut [f64], record: &EpisodeRecord, seat: u32, steps: &[f64], weight: f64) {
    for (step, reward) in steps.iter().enumerate() {
        let taken = of_seat(record, seat).filter(|turn| turn.steps as usize <= step).count();
        if let Some(turn) = turns.get_mut(taken.saturating_sub(1)) {
            *turn += weight * reward;
        }
    }
}

/// Adds a reward's numbers for a seat's messages, one per message. A message belongs to the turn that contains it.
pub(super) fn add_messages(turns: &mut [f64], record: &EpisodeRecord, seat: u32, messages: &[f64], weight: f64) {
    let said = |turn: &Turn| matches!(turn, Turn::Message { seat: by, .. } if *by == seat);
    let places = record.turns.iter().enumerate().filter(|(_, turn)| said(turn)).map(|(place, _)| place);
    for (place, reward) in places.zip(messages) {
        let begun = |turn: &&PolicyTurn| turn.transcript as usize <= place;
        let Some(last) = of_seat(record, seat).filter(|turn| turn.note.is_none()).take_while(begun).last() else {
            continue;
        };
        if let Some(turn) = turns.get_mut(last.turn as usize) {
            *turn += weight * reward;
        }
    }
}
