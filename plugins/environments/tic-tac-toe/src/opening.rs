//! Tasks: positions after a few moves. Rotations and reflections of a position are in the same split.

use gymkhana_sdk::hash;

use crate::board::{Board, CODES, Mark};

/// Share of classes of positions in the test split, as 1 of this many.
const HELD_OUT: u64 = 4;
/// Maximum number of opening moves; after five moves a game may be won.
pub const MAX_MOVES: u32 = 4;

/// Part of all positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

impl Split {
    /// Names, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["train", "test"];

    /// Split of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "train" => Some(Self::Train),
            "test" => Some(Self::Test),
            _ => None,
        }
    }

    /// Split of a position. The empty board is in the training split, because it is the game itself.
    pub fn of(board: &Board) -> Self {
        let code = board.canonical_code();
        let held_out = code != 0 && hash(&(code as u64).to_le_bytes()).is_multiple_of(HELD_OUT);
        if held_out { Self::Test } else { Self::Train }
    }
}

/// Distinct positions of a split after this many moves, of which X made the first, in a fixed order.
pub fn positions(split: Split, moves: u32) -> Vec<Board> {
    let mut boards = vec![Board::default()];
    for made in 0..moves {
        let mark = if made % 2 == 0 { Mark::X } else { Mark::O };
        let mut seen = [false; CODES];
        let next = boards.iter().flat_map(|board| board.free().map(|square| board.with(square, mark)));
        boards = next.filter(|board| !std::mem::replace(&mut seen[board.code()], true)).collect();
    }
    boards.retain(|board| Split::of(board) == split);
    boards
}
