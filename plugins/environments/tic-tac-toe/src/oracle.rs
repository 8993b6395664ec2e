//! The expert: never loses, wins as soon as it can, and loses as late as it must.

use crate::board::{Board, CODES, Mark};

/// No value: a position that has not been looked at.
const UNKNOWN: i8 = i8::MIN;

/// The outcome for the mover under perfect play: above 0 if it wins, and the sooner the larger; 0 for a draw.
pub fn value(board: Board, mover: Mark) -> i8 {
    search(board, mover, &mut vec![UNKNOWN; CODES])
}

/// The mover's best squares.
pub fn best(board: Board, mover: Mark) -> Vec<usize> {
    let mut known = vec![UNKNOWN; CODES];
    let worth: Vec<(usize, i8)> =
        board.free().map(|square| (square, -search(board.with(square, mover), mover.other(), &mut known))).collect();
    let most = worth.iter().map(|(_, worth)| *worth).max();
    worth.into_iter().filter(|(_, worth)| Some(*worth) == most).map(|(square, _)| square).collect()
}

/// Searches all that may come. In one search a board has one mover, so that boards alone name positions.
fn search(board: Board, mover: Mark, known: &mut [i8]) -> i8 {
    if known[board.code()] != UNKNOWN {
        return known[board.code()];
    }
    let free = board.free().count() as i8;
    let value = if board.winner().is_some() {
        // The last move was the opponent's. With more squares left it came sooner.
        -1 - free
    } else {
        let moves = board.free().map(|square| -search(board.with(square, mover), mover.other(), known));
        moves.max().unwrap_or(0)
    };
    known[board.code()] = value;
    value
}
