//! Oracle: never loses from a drawn position, wins as early and loses as late as possible.

use crate::board::{Board, CODES, Mark};

/// Mark of a position without a computed value.
const UNKNOWN: i8 = i8::MIN;

/// Outcome of perfect play for the seat to move: positive for a win (larger if earlier), 0 for a draw.
pub fn value(board: Board, mover: Mark) -> i8 {
    search(board, mover, &mut vec![UNKNOWN; CODES])
}

/// Best squares of the seat to move.
pub fn best(board: Board, mover: Mark) -> Vec<usize> {
    let mut known = vec![UNKNOWN; CODES];
    let worth: Vec<(usize, i8)> =
        board.free().map(|square| (square, -search(board.with(square, mover), mover.other(), &mut known))).collect();
    let most = worth.iter().map(|(_, worth)| *worth).max();
    worth.into_iter().filter(|(_, worth)| Some(*worth) == most).map(|(square, _)| square).collect()
}

/// Exhaustive search. Within one search the board determines the seat to move, so the board alone is the cache key.
fn search(board: Board, mover: Mark, known: &mut [i8]) -> i8 {
    if known[board.code()] != UNKNOWN {
        return known[board.code()];
    }
    let free = board.free().count() as i8;
    let value = if board.winner().is_some() {
        // The opponent made the last move. More free squares mean an earlier end.
        -1 - free
    } else {
        let moves = board.free().map(|square| -search(board.with(square, mover), mover.other(), known));
        moves.max().unwrap_or(0)
    };
    known[board.code()] = value;
    value
}
