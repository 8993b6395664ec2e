//! What a seat says: an offer, an answer to one, or talk.

use crate::situation::{KINDS, PerKind};

/// What a message does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// To keep these and leave the rest.
    Offer(PerKind),
    /// Takes the other's offer.
    Accept,
    /// Turns the other's offer down.
    Reject,
    /// Words alone.
    Talk,
    /// Meant as an offer, and none.
    Malformed,
}

/// What a message does and the words beside it. A move is the whole message, or stands in `<move>…</move>` among words.
pub fn read(message: &str) -> (Move, String) {
    let message = message.trim();
    if let Some((before, rest)) = message.split_once("<move>") {
        let (inside, after) = rest.split_once("</move>").unwrap_or((rest, ""));
        let words = [before.trim(), after.trim()].join(" ").trim().to_owned();
        return match read_move(inside) {
            Some(made) => (made, words),
            None => (Move::Malformed, words),
        };
    }
    match read_move(message) {
        Some(made) => (made, String::new()),
        None => (Move::Talk, message.to_owned()),
    }
}

/// A move without words; none for anything else.
fn read_move(text: &str) -> Option<Move> {
    let text = text.trim().to_lowercase();
    let mut words = text.split_whitespace();
    match (words.next()?, words.clone().next()) {
        ("accept", None) => Some(Move::Accept),
        ("reject", None) => Some(Move::Reject),
        ("offer", _) => {
            let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok().unwrap_or_default();
            Some(<[u64; KINDS]>::try_from(numbers).map_or(Move::Malformed, Move::Offer))
        }
        _ => None,
    }
}
