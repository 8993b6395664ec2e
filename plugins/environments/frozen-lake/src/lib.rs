//! FrozenLake with the rules of Gymnasium's FrozenLake-v1: cross the ice from the start to the goal without falling
//! into a hole.
//!
//! The agent sees the whole map with itself as `A` and answers with one word: left, down, right or up. Any other
//! message is answered by that hint and counts as a turn. The content of a random map determines its split, `train` or
//! `test`; a fixed map is a single task in `train`.

mod map;
mod oracle;
mod picture;

use gymkhana_sdk::environment::{
    Action, Advice, Environment, Guidance, Info, Oracle, Picture, Privileged, Render, ResetResult, Snapshot, Split,
    StateKey, StepResult,
};
use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Content, Error, NamedValue, OptionValue, PluginOptions, Rng, Task, named, plugin, text};

pub use map::{Direction, Map};

/// Gymnasium truncates after 100 turns on 4x4 and after 200 on 8x8: 25 per tile of a side.
const TURNS_PER_TILE: u64 = 25;
/// Start of every map.
const START: usize = 0;
const HINT: &str = "Say left, down, right or up.";

/// Choice of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, OptionValue)]
enum Chosen {
    Random,
    #[option(name = "4x4")]
    Small,
    #[option(name = "8x8")]
    Large,
}

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Which map
    #[option(default = Chosen::Random)]
    map: Chosen,
    /// Side length of random maps, in tiles
    #[option(default = 4, range = 2..=16)]
    size: usize,
    /// Slippery ice: two of three moves are deflected
    #[option(default = false)]
    slippery: bool,
    /// Turn limit; 0 means 25 per tile of a side
    #[option(default = 0, range = 0..=1_000_000)]
    turns: u64,
}

/// Episode: the agent on its map.
#[derive(Debug, Clone, PartialEq)]
pub struct FrozenLake {
    map: Map,
    place: usize,
    slippery: bool,
    turns: u64,
    turn_limit: u64,
    rng: Rng,
}

impl FrozenLake {
    /// Agent at the start of `map`. The seed determines its slips on slippery ice.
    #[must_use]
    pub fn new(map: Map, slippery: bool, turn_limit: u64, seed: u64) -> Self {
        Self { map, place: START, slippery, turns: 0, turn_limit, rng: Rng::new(seed) }
    }

    /// Moves the agent; slippery ice may deflect the move.
    fn walk(&mut self, direction: Direction) {
        let direction = if self.slippery { *self.rng.pick(&direction.slips()) } else { direction };
        self.place = self.map.neighbour(self.place, direction);
    }
}

impl Environment for FrozenLake {
    type Options = Options;

    fn info() -> Info {
        Info::new("Cross the ice from S to G without falling into a hole; say left, down, right or up", ["agent"])
            .reward_range(0.0, 1.0)
    }

    fn splits(options: &Options) -> Result<Vec<Split>, Error> {
        if options.map != Chosen::Random {
            return Ok(vec![Split::of("train", 1)]);
        }
        // The few maps of size 2 all belong to `train`.
        let held_out = Map::held_out_count(options.size);
        let test = (held_out > 0).then(|| Split::of("test", held_out));
        Ok([Split::endless("train")].into_iter().chain(test).collect())
    }

    fn reset(task: &Task, options: &Options, seed: u64) -> Result<(Self, ResetResult), Error> {
        let map = map_of(task, options)?;
        let turn_limit = match options.turns {
            0 => TURNS_PER_TILE * map.size() as u64,
            turns => turns,
        };
        let lake = Self::new(map, options.slippery, turn_limit, seed);
        let started = ResetResult::observe(lake.map.with_agent(lake.place));
        Ok((lake, started))
    }

    fn step(&mut self, action: Action) -> Result<StepResult, Error> {
        self.turns += 1;
        let direction = direction_in(&action.text());
        if let Some(direction) = direction {
            self.walk(direction);
        }
        let shown = self.map.with_agent(self.place);
        let stepped = StepResult::observe(if direction.is_some() { shown } else { format!("{HINT}\n{shown}") });
        let success = self.map.is_goal(self.place);
        let ended = if success || self.map.is_hole(self.place) {
            stepped.reward(f64::from(u8::from(success))).end()
        } else if self.turns >= self.turn_limit {
            stepped.truncate()
        } else {
            return Ok(stepped);
        };
        Ok(ended.extra("success", success).extra("map", self.map.text()))
    }
}

/// Map of a task.
fn map_of(task: &Task, options: &Options) -> Result<Map, Error> {
    let fixed = match options.map {
        Chosen::Random => None,
        Chosen::Small => Some("4x4"),
        Chosen::Large => Some("8x8"),
    };
    if let Some((name, map)) = fixed.and_then(|name| Some((name, Map::fixed(name)?))) {
        return match (task.split.as_str(), task.index) {
            ("train", 0) => Ok(map),
            ("train", index) => Err(Error::NotFound(format!("map `{name}` is one task: train/0, not train/{index}"))),
            _ => Err(Error::no_split(task, &["train"])),
        };
    }
    let split = match task.split.as_str() {
        "train" => map::Split::Train,
        "test" => map::Split::Test,
        _ => return Err(Error::no_split(task, &["train", "test"])),
    };
    let size = options.size;
    Map::random(split, task.index, size).ok_or_else(|| {
        let tasks = Map::held_out_count(size);
        Error::NotFound(format!("unknown task test/{}: split `test` has {tasks} maps of size {size}", task.index))
    })
}

/// Single direction named in `words`; `None` if the text names no direction or several.
fn direction_in(words: &str) -> Option<Direction> {
    let words = words.to_lowercase();
    let mut named = words
        .split(|symbol: char| !symbol.is_alphabetic())
        .filter_map(|word| Direction::ALL.into_iter().find(|direction| direction.word() == word));
    let direction = named.next();
    if named.next().is_some() { None } else { direction }
}

impl Snapshot for FrozenLake {
    fn snapshot(&self) -> Vec<u8> {
        let lake = Writer::new().text(&self.map.text()).integer(self.place as u64).flag(self.slippery);
        lake.integer(self.turns).integer(self.turn_limit).integer(self.rng.state()).finish()
    }

    fn restore(snapshot: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(snapshot);
        let rows: Vec<&str> = reader.text()?.lines().collect();
        let map = Map::parse(&rows).ok_or_else(|| Error::bad_snapshot("the snapshot's map is invalid"))?;
        let place = usize::try_from(reader.integer()?).ok().filter(|place| *place < map.places());
        let place = place.ok_or_else(|| Error::bad_snapshot("the snapshot's agent is off its map"))?;
        let slippery = reader.flag()?;
        let (turns, turn_limit, seed) = (reader.integer()?, reader.integer()?, reader.integer()?);
        reader.end()?;
        Ok(Self { turns, place, ..Self::new(map, slippery, turn_limit, seed) })
    }
}

impl StateKey for FrozenLake {
    /// Map and position. The key omits turns and the random state, so states are equal if the same view offers the same
    /// choices; grouping by state relies on this.
    fn state_key(&self) -> Vec<u8> {
        Writer::new().text(&self.map.text()).integer(self.place as u64).flag(self.slippery).finish()
    }
}

impl Privileged for FrozenLake {
    /// `distance`: steps to the goal over firm ice; absent in a hole.
    fn privileged(&self) -> Vec<NamedValue> {
        let distance = self.map.distances()[self.place];
        distance.map(|steps| named("distance", i64::from(steps))).into_iter().collect()
    }
}

impl Oracle for FrozenLake {
    fn advise(&self, _tools: &[String], _results: &[String]) -> Result<Advice, Error> {
        Ok(Advice::Message(oracle::advise(&self.map, self.slippery, self.place).word().to_owned()))
    }
}

impl Guidance for FrozenLake {
    /// Length of the way and its first step.
    fn guidance(&self) -> Content {
        let steps = self.map.distances()[START].unwrap_or_default();
        let first = oracle::advise(&self.map, self.slippery, START).word();
        text(format!("A hint: the goal is {steps} steps from the start, and the way begins with {first}."))
    }
}

impl Render for FrozenLake {
    fn render(&self) -> Picture {
        Picture::Svg(picture::svg(&self.map, self.place))
    }
}

plugin! { environment: FrozenLake { snapshot, state_key, privileged, oracle, guidance, render } }
