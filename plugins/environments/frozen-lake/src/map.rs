//! Maps of the lake: Gymnasium's fixed maps, its rule for random maps, and their split.
//!
//! A random map has a start, a goal and ice with probability 0.8 elsewhere, redrawn until a path of ice connects start
//! and goal. The hash of a map's content determines its split, so the splits share no map.

use std::collections::BTreeSet;

use gymkhana_sdk::{Rng, hash};

/// Probability of ice, as in Gymnasium.
const ICE: f64 = 0.8;
/// Share of maps in the test split, as 1 of this many.
const HELD_OUT: u64 = 8;
/// Maximum number of test tasks, and the number of draws to find them.
const TEST_TASKS: usize = 256;
const TEST_DRAWS: usize = 50_000;

/// Intended direction of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Gymnasium's action 0.
    Left,
    /// Gymnasium's action 1.
    Down,
    /// Gymnasium's action 2.
    Right,
    /// Gymnasium's action 3.
    Up,
}

impl Direction {
    /// All directions, in Gymnasium's order.
    pub const ALL: [Self; 4] = [Self::Left, Self::Down, Self::Right, Self::Up];

    /// Word of the agent for this direction.
    pub fn word(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Down => "down",
            Self::Right => "right",
            Self::Up => "up",
        }
    }

    /// Direction after `quarters` left turns.
    fn turned(self, quarters: usize) -> Self {
        Self::ALL[(self as usize + quarters) % 4]
    }

    /// Possible directions of a move on slippery ice, each with probability 1/3, in Gymnasium's order.
    pub fn slips(self) -> [Self; 3] {
        [self.turned(3), self, self.turned(1)]
    }
}

/// Part of all maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Test,
}

/// Square map. Positions count row by row from the start, 0, to the goal, the last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Map {
    size: usize,
    tiles: Vec<u8>,
}

impl Map {
    /// Map from Gymnasium's letters `S`, `F`, `H` and `G`; `None` if the rows are not square, contain other letters or
    /// lack start and goal at the ends.
    pub fn parse<Row: AsRef<str>>(rows: &[Row]) -> Option<Self> {
        let size = rows.len();
        let tiles: Vec<u8> = rows.iter().flat_map(|row| row.as_ref().bytes()).collect();
        let square = rows.iter().all(|row| row.as_ref().len() == size) && size >= 2;
        let inside = tiles.get(1..tiles.len().max(2) - 1)?;
        let letters = inside.iter().all(|tile| b"FH".contains(tile));
        let ends = tiles.first() == Some(&b'S') && tiles.last() == Some(&b'G');
        (square && letters && ends).then_some(Self { size, tiles })
    }

    /// Gymnasium's map named `4x4` or `8x8`.
    pub fn fixed(name: &str) -> Option<Self> {
        match name {
            "4x4" => Self::parse(&["SFFF", "FHFH", "FFFH", "HFFG"]),
            "8x8" => Self::parse(&[
                "SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG",
            ]),
            _ => None,
        }
    }

    /// Random map at an index of a split; `None` after the end of the split.
    ///
    /// Training maps are unlimited, so probable maps repeat. Test maps are distinct: a fixed stream of random maps
    /// contributes each map once, so success on the first n tasks is success on n maps.
    pub fn random(split: Split, index: u64, size: usize) -> Option<Self> {
        match split {
            Split::Train => {
                let mut rng = Rng::new(hash(format!("train/{index}/{size}").as_bytes()));
                (0..).map(|_| Self::draw(&mut rng, size)).find(|map| map.split() == split && map.is_valid())
            }
            Split::Test => Self::held_out(size).nth(usize::try_from(index).ok()?),
        }
    }

    /// Number of random test maps of this size.
    pub fn held_out_count(size: usize) -> u64 {
        Self::held_out(size).count() as u64
    }

    /// Test maps of this size, without repetition.
    fn held_out(size: usize) -> impl Iterator<Item = Self> {
        let mut rng = Rng::new(hash(format!("test/{size}").as_bytes()));
        let mut seen = BTreeSet::new();
        (0..TEST_DRAWS)
            .map(move |_| Self::draw(&mut rng, size))
            .filter(move |map| map.split() == Split::Test && seen.insert(map.clone()) && map.is_valid())
            .take(TEST_TASKS)
    }

    /// One draw of the rule, with or without a path.
    fn draw(rng: &mut Rng, size: usize) -> Self {
        let mut tiles: Vec<u8> = (0..size * size).map(|_| if rng.unit() < ICE { b'F' } else { b'H' }).collect();
        let goal = tiles.len() - 1;
        tiles[0] = b'S';
        tiles[goal] = b'G';
        Self { size, tiles }
    }

    /// Split of the map.
    pub fn split(&self) -> Split {
        if hash(&self.tiles).is_multiple_of(HELD_OUT) { Split::Test } else { Split::Train }
    }

    /// Whether a path of ice connects start and goal.
    pub fn is_valid(&self) -> bool {
        self.distances()[0].is_some()
    }

    /// Tiles per side.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of tiles.
    pub fn places(&self) -> usize {
        self.tiles.len()
    }

    /// Whether `place` is a hole.
    pub fn is_hole(&self, place: usize) -> bool {
        self.tiles[place] == b'H'
    }

    /// Whether `place` is the goal.
    pub fn is_goal(&self, place: usize) -> bool {
        self.tiles[place] == b'G'
    }

    /// Neighbour of `place`; `place` itself at the edge.
    pub fn neighbour(&self, place: usize, direction: Direction) -> usize {
        let (row, column) = (place / self.size, place % self.size);
        match direction {
            Direction::Left if column > 0 => place - 1,
            Direction::Down if row + 1 < self.size => place + self.size,
            Direction::Right if column + 1 < self.size => place + 1,
            Direction::Up if row > 0 => place - self.size,
            _ => place,
        }
    }

    /// Steps from each position to the goal over firm ice; `None` for holes and positions without a path.
    pub fn distances(&self) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.places()];
        let goal = self.places() - 1;
        distances[goal] = Some(0);
        let mut frontier = vec![goal];
        for distance in 1.. {
            let mut next = Vec::new();
            for place in frontier {
                for neighbour in Direction::ALL.map(|direction| self.neighbour(place, direction)) {
                    if distances[neighbour].is_none() && !self.is_hole(neighbour) {
                        distances[neighbour] = Some(distance);
                        next.push(neighbour);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            frontier = next;
        }
        distances
    }

    /// Rows with `A` at the agent's position, one per line.
    pub fn with_agent(&self, agent: usize) -> String {
        self.lines(|place, tile| if place == agent { b'A' } else { tile })
    }

    /// Rows, one per line.
    pub fn text(&self) -> String {
        self.lines(|_, tile| tile)
    }

    fn lines(&self, show: impl Fn(usize, u8) -> u8) -> String {
        let shown: Vec<char> = self.tiles.iter().enumerate().map(|(place, tile)| show(place, *tile).into()).collect();
        shown.chunks(self.size).map(String::from_iter).collect::<Vec<_>>().join("\n")
    }
}
