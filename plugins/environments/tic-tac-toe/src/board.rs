//! Board: nine squares, numbered row by row from 1, and the winning lines.

/// Mark on a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Mark of seat 0.
    X,
    /// Mark of seat 1.
    O,
}

impl Mark {
    /// Both marks, in the order of their seats.
    pub const BOTH: [Self; 2] = [Self::X, Self::O];

    /// Mark of a seat.
    #[must_use]
    pub fn of_seat(seat: u32) -> Self {
        if seat == 0 { Self::X } else { Self::O }
    }

    /// Seat of the mark.
    #[must_use]
    pub fn seat(self) -> u32 {
        self as u32
    }

    /// Mark of the opponent.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::X => Self::O,
            Self::O => Self::X,
        }
    }

    /// Letter in board texts.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::X => 'X',
            Self::O => 'O',
        }
    }
}

/// Number of squares.
pub const SQUARES: usize = 9;
/// Winning lines of three squares.
const LINES: [[usize; 3]; 8] = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

/// Nine squares, counted from 0 (agents count from 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Board {
    squares: [Option<Mark>; SQUARES],
}

impl Board {
    /// Mark on a square.
    #[must_use]
    pub fn at(&self, square: usize) -> Option<Mark> {
        self.squares[square]
    }

    /// Board with an additional mark.
    #[must_use]
    pub fn with(mut self, square: usize, mark: Mark) -> Self {
        self.squares[square] = Some(mark);
        self
    }

    /// Free squares.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        let squares = self.squares;
        (0..SQUARES).filter(move |square| squares[*square].is_none())
    }

    /// Mark with three in a row.
    #[must_use]
    pub fn winner(&self) -> Option<Mark> {
        let owner = |line: &[usize; 3]| {
            self.squares[line[0]].filter(|mark| line.iter().all(|square| self.squares[*square] == Some(*mark)))
        };
        LINES.iter().find_map(owner)
    }

    /// Three rows; a free square shows its number.
    #[must_use]
    pub fn text(&self) -> String {
        let symbol = |square: usize| self.squares[square].map_or((b'1' + square as u8) as char, Mark::letter);
        let row = |row: usize| (3 * row..3 * row + 3).map(symbol).collect::<String>();
        [row(0), row(1), row(2)].join("\n")
    }

    /// Board from its text; `None` for other texts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut board = Self::default();
        for (square, symbol) in text.chars().filter(|symbol| *symbol != '\n').enumerate() {
            if let Some(mark) = Mark::BOTH.into_iter().find(|mark| mark.letter() == symbol) {
                *board.squares.get_mut(square)? = Some(mark);
            }
        }
        (board.text() == text).then_some(board)
    }

    /// Board with exchanged marks.
    #[must_use]
    pub fn swapped(mut self) -> Self {
        self.squares = self.squares.map(|mark| mark.map(Mark::other));
        self
    }

    /// Board rotated by 90 degrees.
    fn turned(&self) -> Self {
        let square = |square: usize| self.squares[3 * (2 - square % 3) + square / 3];
        Self { squares: std::array::from_fn(square) }
    }

    /// Mirrored board.
    fn mirrored(&self) -> Self {
        Self { squares: std::array::from_fn(|square| self.squares[square - square % 3 + 2 - square % 3]) }
    }

    /// Code that is equal for all rotations and reflections of the board.
    #[must_use]
    pub fn canonical_code(&self) -> usize {
        let mut board = *self;
        let mut least = usize::MAX;
        for _ in 0..4 {
            least = least.min(board.code()).min(board.mirrored().code());
            board = board.turned();
        }
        least
    }

    /// Unique number of the board, below `CODES`.
    #[must_use]
    pub fn code(&self) -> usize {
        self.squares.iter().fold(0, |code, mark| 3 * code + mark.map_or(0, |mark| 1 + mark as usize))
    }
}

/// Upper bound of codes, exclusive.
pub const CODES: usize = 19_683;
