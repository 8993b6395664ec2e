//! An attempt of one seat: its turns and its texts.

use std::cell::OnceCell;
use std::ops::Range;

use gymkhana_sdk::reward::{Trajectory, Turn};
use gymkhana_sdk::text_of;

use crate::checklist::Place;
use crate::rule::Said;
use crate::thought::{Thoughts, thoughts};

/// Maximum length of text that is read, in bytes, so that scoring stays fast for every input.
const LONGEST: usize = 1 << 20;

/// Turn of a seat: a message with the calls and answers up to the seat's next message. The transcript has no message for
/// a reply that consists of calls only: its calls belong to the turn before, or to the first one.
pub struct SeatTurn {
    /// Message.
    pub said: Said,
    /// Thoughts that the host has told from the message.
    thought: Option<Said>,
    /// Indices of the turn in the trajectory.
    pub span: Range<usize>,
    thoughts: OnceCell<Thoughts>,
}

/// Attempt of one seat.
pub struct Attempt<'a> {
    /// The trajectory.
    pub trajectory: &'a Trajectory,
    /// Seat.
    pub seat: u32,
    /// Turns of the seat, one for each of its messages.
    pub turns: Vec<SeatTurn>,
    most_thoughts: usize,
}

impl<'a> Attempt<'a> {
    /// Reads a seat's attempt, with at most `most_thoughts` units of thought in a turn.
    pub fn new(trajectory: &'a Trajectory, seat: u32, most_thoughts: usize) -> Self {
        let messages: Vec<Said> = messages(trajectory, seat).collect();
        let starts: Vec<usize> = messages.iter().map(|said| said.turn).collect();
        let turn = |(index, said): (usize, Said)| {
            let start = if index == 0 { 0 } else { said.turn };
            let end = starts.get(index + 1).copied().unwrap_or(trajectory.turns.len());
            let thought = trajectory.thoughts_before(said.turn);
            let thought = thought.map(|(turn, text)| Said { turn, start: 0, text: cut(text) });
            SeatTurn { span: start..end, said, thought, thoughts: OnceCell::new() }
        };
        let turns = messages.into_iter().enumerate().map(turn).collect();
        Self { trajectory, seat, turns, most_thoughts }
    }

    /// Texts that an item about the whole episode reads: the final message, or all messages of the seat.
    pub fn whole(&self, place: Place) -> Vec<Said> {
        match place {
            Place::Last => {
                let last = self.trajectory.last_message(self.seat);
                last.map(|(turn, text)| Said { turn, start: 0, text: cut(text) }).into_iter().collect()
            }
            _ => self.turns.iter().map(|turn| turn.said.clone()).collect(),
        }
    }

    /// Text with the units of thought of a turn: the thoughts that the host has told from the message, else the message.
    fn thinking(&self, turn: usize) -> &Said {
        let SeatTurn { said, thought, .. } = &self.turns[turn];
        thought.as_ref().unwrap_or(said)
    }

    /// Units of thought of a turn, split at the first use.
    fn thoughts(&self, turn: usize) -> &Thoughts {
        let split = &self.turns[turn].thoughts;
        split.get_or_init(|| thoughts(&self.thinking(turn).text, self.most_thoughts))
    }

    /// Message of a turn behind its units of thought.
    pub fn behind_thoughts(&self, turn: usize) -> &str {
        let SeatTurn { said, thought, .. } = &self.turns[turn];
        match thought {
            Some(_) => said.text.trim(),
            None => said.text[self.thoughts(turn).rest.clone()].trim(),
        }
    }

    /// Texts of one turn that an item reads one by one: the message, or its units of thought.
    pub fn parts(&self, place: Place, turn: usize) -> Vec<Said> {
        let said = &self.turns[turn].said;
        let thinking = self.thinking(turn);
        let unit = |unit: &Range<usize>| {
            let text = thinking.text[unit.clone()].to_owned();
            Said { turn: thinking.turn, start: unit.start, text }
        };
        match place {
            Place::Thought => self.thoughts(turn).units.iter().map(unit).collect(),
            _ => vec![said.clone()],
        }
    }
}

fn messages(trajectory: &Trajectory, seat: u32) -> impl Iterator<Item = Said> {
    trajectory.turns.iter().enumerate().filter_map(move |(turn, made)| match made {
        Turn::Message(message) if message.seat == seat => {
            Some(Said { turn, start: 0, text: cut(text_of(&message.content)) })
        }
        _ => None,
    })
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}
