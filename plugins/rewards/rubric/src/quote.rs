//! A seat's conversation as the judge of turns reads it.

use std::ops::Range;

use gymkhana_sdk::reward::Turn;
use gymkhana_sdk::text_of;

use crate::attempt::Attempt;
use crate::checklist::Place;
use crate::judge::Block;
use crate::rule::Said;

/// Conversation up to some turns of a seat, with the numbered parts that are judged.
#[derive(Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Texts in order.
    pub blocks: Vec<Block>,
    /// Judged parts in order, from part 1: the index of the seat's turn, and the text.
    pub parts: Vec<(usize, Said)>,
}

/// Quotes what the seat heard, said and called, up to the end of the last judged turn.
pub fn quote(attempt: &Attempt<'_>, place: Place, judged: Range<usize>) -> Quoted {
    let mut quoted = Quoted { blocks: Vec::new(), parts: Vec::new() };
    for (index, turn) in attempt.turns.iter().enumerate().take(judged.end) {
        let judged = judged.contains(&index);
        // Calls may precede the message of the first turn.
        let part = quoted.parts.len() + 1;
        for place_in in turn.span.clone() {
            if place_in == turn.said.turn {
                message(&mut quoted, attempt, place, index, judged);
            } else {
                let part = (judged && place == Place::Turn).then_some(part);
                quoted.blocks.extend(other(&attempt.trajectory.turns[place_in], attempt.seat, part));
            }
        }
    }
    quoted
}

/// Quotes the message of a turn: as a part or as its units of thought and the rest, if it is judged.
fn message(quoted: &mut Quoted, attempt: &Attempt<'_>, place: Place, index: usize, judged: bool) {
    let turn = &attempt.turns[index];
    if !judged {
        quoted.blocks.push(block("earlier message", &turn.said.text));
        return;
    }
    for said in attempt.parts(place, index) {
        let number = quoted.parts.len() + 1;
        let label = if place == Place::Turn { format!("part {number}, message") } else { format!("part {number}") };
        quoted.blocks.push(block(&label, &said.text));
        quoted.parts.push((index, said));
    }
    if place == Place::Thought {
        let rest = attempt.behind_thoughts(index);
        quoted.blocks.extend((!rest.is_empty()).then(|| block("message after these thoughts", rest)));
    }
}

/// Quotes a call, an answer or an observation. `part` is the number of the judged part that contains the call.
fn other(turn: &Turn, seat: u32, part: Option<usize>) -> Option<Block> {
    match turn {
        Turn::Call(made) if made.seat == seat => {
            let label = part.map_or_else(|| "call".to_owned(), |part| format!("part {part}, call"));
            Some(block(&label, &format!("{} {}", made.call.name, made.call.arguments)))
        }
        Turn::Answer(answer) if answer.seat == seat => {
            let label = if answer.failed { "failed answer to a call" } else { "answer to a call" };
            Some(block(label, &text_of(&answer.content)))
        }
        Turn::Observation(heard) if heard.seat == seat => Some(block("observation", &text_of(&heard.content))),
        _ => None,
    }
}

fn block(label: &str, text: &str) -> Block {
    Block { label: label.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_sdk::reward::{CallAnswer, Ending, SeatCall, SeatMessage, Trajectory};
    use gymkhana_sdk::{Call, text};

    fn trajectory() -> Trajectory {
        let message = |seat, words: &str| SeatMessage { seat, content: text(words) };
        let call = |seat| Turn::Call(SeatCall { seat, call: Call::advised("look", "{}"), cost: 0.0 });
        let answer = CallAnswer { seat: 0, id: "call-0".to_owned(), content: text("a map"), failed: true };
        let turns = vec![
            Turn::Observation(message(0, "Go.")),
            Turn::Observation(message(1, "Hidden from seat 0.")),
            Turn::Message(message(0, "<think>one\n\ntwo</think>I look.")),
            call(0),
            Turn::Answer(answer),
            Turn::Message(message(1, "Hidden as well.")),
            call(1),
            Turn::Message(message(0, "I go.")),
        ];
        Trajectory { turns, ..Trajectory::new("train", 0, Ending::Terminated) }
    }

    fn shown(place: Place, judged: Range<usize>) -> (Vec<(String, String)>, Vec<usize>) {
        let trajectory = trajectory();
        let quoted = quote(&Attempt::new(&trajectory, 0, 9), place, judged);
        let blocks = quoted.blocks.into_iter().map(|block| (block.label, block.text)).collect();
        (blocks, quoted.parts.into_iter().map(|(turn, _)| turn).collect())
    }

    fn expected(blocks: &[(&str, &str)]) -> Vec<(String, String)> {
        blocks.iter().map(|(label, text)| ((*label).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn turns_are_parts_with_their_calls() {
        let all = [
            ("observation", "Go."),
            ("part 1, message", "<think>one\n\ntwo</think>I look."),
            ("part 1, call", "look {}"),
            ("failed answer to a call", "a map"),
            ("part 2, message", "I go."),
        ];
        assert_eq!(shown(Place::Turn, 0..2), (expected(&all), vec![0, 1]));
        assert_eq!(shown(Place::Turn, 0..1), (expected(&all[..4]), vec![0]));
        let later = [
            ("observation", "Go."),
            ("earlier message", "<think>one\n\ntwo</think>I look."),
            ("call", "look {}"),
            ("failed answer to a call", "a map"),
            ("part 1, message", "I go."),
        ];
        assert_eq!(shown(Place::Turn, 1..2), (expected(&later), vec![1]));
    }

    #[test]
    fn thoughts_are_parts_without_the_calls() {
        let blocks = [
            ("observation", "Go."),
            ("part 1", "one"),
            ("part 2", "two"),
            ("message after these thoughts", "I look."),
            ("call", "look {}"),
            ("failed answer to a call", "a map"),
            ("part 3", "I go."),
        ];
        assert_eq!(shown(Place::Thought, 0..2), (expected(&blocks), vec![0, 0, 1]));
    }
}
