//! Tic-tac-toe for two seats, `x` and `o`, from positions after a few moves.
//!
//! The seat to move sees the board, whose free squares show their numbers, and says one of them: `5`, or
//! `<move>5</move>` within other words. Any other message is answered by a hint and costs a try; a seat without tries
//! loses. A win pays 1 and a loss -1. The split of a position after opening moves is the same for its rotations and
//! reflections, so the splits share no position. The empty board is only in `train`.

mod board;
mod opening;
mod oracle;
mod picture;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Info, Oracle, Picture, Privileged, Render, ResetResult, Snapshot, Split, StateKey,
    StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, NamedValue, OptionValue, PluginOptions, Rng, Task, hash, named, plugin, text};

pub use board::{Board, Mark};

/// Mark that makes the first move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum First {
    X,
    O,
    Alternate,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Number of moves before the game; each task is a position after that many moves
    #[option(default = 2, range = 0..=opening::MAX_MOVES)]
    opening: u32,
    /// Mark that makes the first move, including the moves before the game
    #[option(default = First::X)]
    first: First,
    /// Number of invalid moves at which a seat loses the game
    #[option(default = 3, range = 1..=100)]
    tries: u64,
    /// Percentage of the oracle's moves that are random free squares
    #[option(default = 0, range = 0..=100)]
    slips: u64,
}

/// State of a game.
#[derive(Debug, Clone, PartialEq)]
pub struct TicTacToe {
    board: Board,
    mover: Mark,
    /// Invalid moves so far, by seat.
    mistakes: [u64; 2],
    /// Number of invalid moves that loses the game.
    tries: u64,
    /// Percentage of the oracle's moves that are random.
    slips: u64,
    seed: u64,
}

/// Outcome of a game.
enum Outcome {
    Won(Mark),
    Drawn,
    Forfeited { by: Mark },
}

impl TicTacToe {
    /// Observation of the seat to move.
    fn view(&self) -> String {
        format!("You are {}.\n{}", self.mover.letter(), self.board.text())
    }

    fn play(&mut self, square: usize) -> StepResult {
        self.board = self.board.with(square, self.mover);
        if self.board.winner().is_some() {
            return self.end(&Outcome::Won(self.mover));
        }
        if self.board.free().next().is_none() {
            return self.end(&Outcome::Drawn);
        }
        self.mover = self.mover.other();
        StepResult::new().show(self.mover.seat(), text(self.view())).next_seat(self.mover.seat())
    }

    fn refuse(&mut self) -> StepResult {
        let seat = self.mover.seat();
        self.mistakes[seat as usize] += 1;
        let left = self.tries.saturating_sub(self.mistakes[seat as usize]);
        if left == 0 {
            return self.end(&Outcome::Forfeited { by: self.mover });
        }
        let tries = if left == 1 { "1 try".to_owned() } else { format!("{left} tries") };
        let answer = format!("Say the number of one free square; {tries} left.\n{}", self.view());
        StepResult::new().show(seat, text(answer)).next_seat(seat)
    }

    fn end(&self, outcome: &Outcome) -> StepResult {
        let (winner, forfeited) = match outcome {
            Outcome::Won(mark) => (Some(*mark), false),
            Outcome::Drawn => (None, false),
            Outcome::Forfeited { by } => (Some(by.other()), true),
        };
        let mut stepped = StepResult::new();
        for mark in Mark::BOTH {
            let (words, reward) = match winner {
                None => ("A draw.", 0.0),
                Some(winner) if winner == mark => ("You won.", 1.0),
                Some(_) => ("You lost.", -1.0),
            };
            let shown = text(format!("{words}\n{}", self.board.text()));
            stepped = stepped.show(mark.seat(), shown).reward_to(mark.seat(), reward);
        }
        let points = |mark| winner.map_or(0.5, |winner| if winner == mark { 1.0 } else { 0.0 });
        let stepped = stepped.extra("success", !forfeited).extra("board", self.board.text());
        stepped.extra("x-points", points(Mark::X)).extra("o-points", points(Mark::O)).end()
    }
}

impl Environment for TicTacToe {
    type Options = Options;

    fn info() -> Info {
        Info::new("Tic-tac-toe; say the number of a free square, such as 5 or <move>5</move>", ["x", "o"])
            .reward_range(-1.0, 1.0)
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        let moves = options.opening;
        let sides = if options.first == First::Alternate { 2 } else { 1 };
        let count = |split| sides * opening::positions(split, moves).len() as u64;
        let all = opening::Split::NAMES.iter().filter_map(|name| Some((name, count(opening::Split::named(name)?))));
        Ok(all.filter(|(_, tasks)| *tasks > 0).map(|(name, tasks)| Split::of(*name, tasks)).collect())
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let split = opening::Split::named(&task.split).ok_or_else(|| Error::no_split(task, &opening::Split::NAMES))?;
        let moves = options.opening;
        let (place, first) = match options.first {
            First::X => (task.index, Mark::X),
            First::O => (task.index, Mark::O),
            First::Alternate => (task.index / 2, Mark::of_seat((task.index % 2) as u32)),
        };
        let positions = opening::positions(split, moves);
        let board = usize::try_from(place).ok().and_then(|place| positions.get(place)).ok_or_else(|| {
            let (Task { split, index }, count) = (task, positions.len());
            Error::not_found(format!(
                "unknown task {split}/{index}: split `{split}` has {count} positions after {moves} moves"
            ))
        })?;
        let game = Self {
            board: if first == Mark::X { *board } else { board.swapped() },
            mover: if moves.is_multiple_of(2) { first } else { first.other() },
            mistakes: [0; 2],
            tries: options.tries,
            slips: options.slips,
            seed,
        };
        let started = ResetResult::default().show(game.mover.seat(), text(game.view())).next_seat(game.mover.seat());
        Ok((game, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        let square = square_in(&action.text()).filter(|square| self.board.at(*square).is_none());
        Ok(match square {
            Some(square) => self.play(square),
            None => self.refuse(),
        })
    }
}

/// Single square named in `words`: inside the last `<move>` if present, else anywhere.
fn square_in(words: &str) -> Option<usize> {
    let words = words.rsplit_once("<move>").map_or(words, |(_, after)| after.split("</move>").next().unwrap_or(after));
    let mut numbers = words.split(|symbol: char| !symbol.is_ascii_digit()).filter(|number| !number.is_empty());
    let number: usize = numbers.next()?.parse().ok()?;
    let alone = numbers.next().is_none();
    (alone && (1..=board::SQUARES).contains(&number)).then(|| number - 1)
}

impl Snapshot for TicTacToe {
    fn snapshot(&self) -> Vec<u8> {
        let game = Writer::new().text(&self.board.text()).flag(self.mover == Mark::O);
        let game = game.integer(self.mistakes[0]).integer(self.mistakes[1]);
        game.integer(self.tries).integer(self.slips).integer(self.seed).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let board =
            Board::parse(reader.text()?).ok_or_else(|| Error::bad_snapshot("the snapshot's board is invalid"))?;
        let mover = Mark::of_seat(u32::from(reader.flag()?));
        let mistakes = [reader.integer()?, reader.integer()?];
        let (tries, slips, seed) = (reader.integer()?, reader.integer()?, reader.integer()?);
        reader.end()?;
        Ok(Self { board, mover, mistakes, tries, slips, seed })
    }
}

impl StateKey for TicTacToe {
    /// Board and seat to move. The key omits tries, so states are equal if the same view offers the same choices.
    fn state_key(&self) -> Vec<u8> {
        Writer::new().text(&self.board.text()).flag(self.mover == Mark::O).finish()
    }
}

impl Privileged for TicTacToe {
    /// Facts of perfect play: `value`, the outcome for X from -1 to 1, and `best`, the best squares of the seat to
    /// move.
    fn privileged(&self) -> Vec<NamedValue> {
        if self.board.winner().is_some() || self.board.free().next().is_none() {
            return vec![];
        }
        let for_mover = i64::from(oracle::value(self.board, self.mover).signum());
        let value = if self.mover == Mark::X { for_mover } else { -for_mover };
        let best =
            oracle::best(self.board, self.mover).iter().map(|square| (square + 1).to_string()).collect::<Vec<_>>();
        vec![named("value", value), named("best", best.join(" "))]
    }
}

impl Oracle for TicTacToe {
    /// One of the best squares, chosen by the episode's seed, or a random free square in a slip.
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        let mut rng = Rng::new(self.seed ^ hash(&self.state_key()));
        let squares = if rng.below(100) < self.slips {
            self.board.free().collect()
        } else {
            oracle::best(self.board, self.mover)
        };
        if squares.is_empty() {
            return Err(Error::invalid("the board is full: the oracle has no advice"));
        }
        Ok(Advice::Message((rng.pick(&squares) + 1).to_string()))
    }
}

impl Render for TicTacToe {
    fn render(&self) -> Picture {
        Picture::Svg(picture::svg(&self.board))
    }
}

plugin! { environment: TicTacToe { snapshot, state_key, privileged, oracle, render } }
