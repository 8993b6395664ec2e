//! Rewards of single turns: to which of a seat's turns a number belongs.

use gymkhana_record::{EpisodeRecord, PolicyTurn, Turn};

/// Nothing for each turn of a seat.
pub(super) fn nothing(record: &EpisodeRecord, seat: u32) -> Vec<f64> {
    vec![0.0; of_seat(record, seat).count()]
}

fn of_seat(record: &EpisodeRecord, seat: u32) -> impl Iterator<Item = &PolicyTurn> {
    record.policy_turns.iter().filter(move |turn| turn.seat == seat)
}

/// Adds what the environment gave for its steps. A step belongs to the turn that brought it about; for another seat, to
/// the last turn that this one has taken, or to its first, if it has taken none.
pub(super) fn add_steps(turns: &mut [f64], record: &EpisodeRecord, seat: u32, steps: &[f64], weight: f64) {
    for (step, reward) in steps.iter().enumerate() {
        let taken = of_seat(record, seat).filter(|turn| turn.steps as usize <= step).count();
        if let Some(turn) = turns.get_mut(taken.saturating_sub(1)) {
            *turn += weight * reward;
        }
    }
}

/// Adds what a reward gave for a seat's messages, one number each. A message belongs to the turn in which it was said.
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
