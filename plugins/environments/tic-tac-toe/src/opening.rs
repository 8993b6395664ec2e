//! Tasks are positions after a few moves; those that are one another turned or mirrored are in one split.

use gymkhana_sdk::hash;

use crate::board::{Board, CODES, Mark};

/// One of this many classes of positions is held out.
const HELD_OUT: u64 = 4;
/// The most moves that may have been made: with five somebody may have won.
pub const MOST_MOVES: u32 = 4;

/// Which part of all positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

impl Split {
    /// The names, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["train", "test"];

    /// The split of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "train" => Some(Self::Train),
            "test" => Some(Self::Test),
            _ => None,
        }
    }

    /// Where a position belongs. The empty board is for training: it is the game itself.
    pub fn of(board: &Board) -> Self {
        let code = board.canonical_code();
        let held_out = code != 0 && hash(&(code as u64).to_le_bytes()).is_multiple_of(HELD_OUT);
        if held_out { Self::Test } else { Self::Train }
    }
}

/// The positions of a split after so many moves of which X made the first, each once, in a fixed order.
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
