//! Hostile reward: the option `behaviour` selects a misbehaviour.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use gymkhana_sdk::reward::{Info, Reward, Score, Trajectory, Turn, each_seat};
use gymkhana_sdk::{Error, PluginOptions, plugin};

const BEHAVIOURS: [&str; 16] = [
    "good",
    "as-told",
    "turns",
    "nan",
    "infinite",
    "out-of-range",
    "nan-turn",
    "too-few",
    "too-many",
    "wrong-components",
    "bad-evidence",
    "error",
    "trap",
    "loop",
    "remembers",
    "picky",
];

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Misbehaviour
    #[option(default = "good", choices = BEHAVIOURS)]
    behaviour: String,
}

/// Number of groups that this instance has scored.
static SCORED: AtomicU32 = AtomicU32::new(0);

/// Gives every seat 1 if it behaves well, and with `turns` 1/8, 2/8, 3/8, … for its messages.
pub struct HostileReward;

impl Reward for HostileReward {
    type Options = Options;

    fn info() -> Info {
        Info::new("Hostile reward").component("whole", "the whole score, in points")
    }

    fn score(group: &[Trajectory], options: &Options, _training_step: u64) -> Result<Vec<Vec<Score>>, Error> {
        let give = |total: f64| each_seat(group, |_, seat| Ok(Score::new(seat, total).component("whole", total)));
        let change = |change: fn(&mut Score)| {
            let mut scores = give(1.0)?;
            scores.iter_mut().flatten().for_each(change);
            Ok(scores)
        };
        match options.behaviour.as_str() {
            "as-told" => {
                let told =
                    |trajectory: &Trajectory| trajectory.last_message(0).map(|(_, text)| text).unwrap_or_default();
                group.iter().for_each(|trajectory| obey(told(trajectory).trim()));
                give(0.0)
            }
            "turns" => each_seat(group, |trajectory, seat| {
                let of_seat = |turn: &&Turn| matches!(turn, Turn::Message(message) if message.seat == seat);
                let turns =
                    (1..).zip(trajectory.turns.iter().filter(of_seat)).map(|(number, _)| f64::from(number) / 8.0);
                Ok(Score { turns: turns.collect(), ..Score::new(seat, 1.0).component("whole", 1.0) })
            }),
            "nan" => give(f64::NAN),
            "infinite" => give(f64::INFINITY),
            "out-of-range" => give(1e9),
            "nan-turn" => change(|score| score.turns = vec![f64::NAN]),
            "too-few" => Ok(Vec::new()),
            "too-many" => Ok([give(1.0)?, give(1.0)?].concat()),
            "wrong-components" => change(|score| score.components[0].name = "hole".to_owned()),
            "bad-evidence" => change(|score| *score = score.clone().evidence(usize::MAX, 0..9, "nowhere")),
            "error" => Err(Error::Other("an error, as asked".to_owned())),
            "trap" => panic!("a panic, as asked"),
            "loop" => endless(),
            "remembers" => give(1.0 / f64::from(1 + SCORED.fetch_add(1, Ordering::Relaxed))),
            "picky" => Err(Error::invalid("no episode is good enough")),
            _ => give(1.0),
        }
    }
}

/// Fails in the way that the message names.
fn obey(message: &str) {
    match message {
        "trap score" => panic!("a panic, as asked"),
        "loop score" => endless(),
        "memory score" => take_memory(),
        _ => {}
    }
}

fn take_memory() -> ! {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(black_box(vec![1; 1 << 20]));
    }
}

fn endless() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

plugin! { reward: HostileReward }
