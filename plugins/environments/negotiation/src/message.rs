//! Parser of messages: offers, answers and talk.

use crate::situation::{KINDS, PerKind};

/// Move of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Offer to keep these items and leave the rest.
    Offer(PerKind),
    /// Accepts the opponent's offer.
    Accept,
    /// Rejects the opponent's offer.
    Reject,
    /// Talk without a move.
    Talk,
    /// Malformed offer.
    Malformed,
}

/// Move and accompanying words of a message. A move is the whole message or a part of it in `<move>…</move>`.
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

/// Move without words; `None` for other texts.
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
