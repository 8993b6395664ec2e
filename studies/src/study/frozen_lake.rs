//! FrozenLake 8x8 with its plugin's rules: step-level groups (GiGPO) against whole episodes (GRPO).

use anyhow::{Context, Result};
use frozen_lake::{Direction, Map};
use gymkhana_benches::Effort;
use gymkhana_record::{Ending, EpisodeRecord, Seed, Segment};
use gymkhana_trainer::{Optimizer, SftSettings, Trainer};

use super::anchors::walk;
use super::{Row, Study};
use crate::table::{Table, trainer};

pub const STUDY: Study = Study { figure: "success", marks: &[], arms: &["gigpo", "episodes-alone"] };

const STEPS: u64 = 150;
/// Maximum number of turns; the shortest path takes 14.
const TURNS: usize = 50;
/// Steps of demonstrations by a guide whose every second move is random. Without them a policy rarely reaches the goal,
/// and both methods have no signal.
const DEMONSTRATED: u64 = 8;

pub async fn run(arm: &str, seed: Seed, effort: Effort) -> Result<Vec<Row>> {
    let trainer = trainer(seed)?;
    imitate(&trainer, seed, effort.pick(DEMONSTRATED, 1)).await?;
    walk(&trainer, arm, (effort.pick(STEPS, 2), seed), one).await
}

/// The map, which is constant.
fn map() -> Result<Map> {
    Map::fixed("8x8").context("the plugin has a map of eight by eight")
}

/// Observation of the policy: its place as a letter, because the map exceeds the model's context.
fn shown(place: usize) -> char {
    char::from(b'0' + place as u8)
}

/// A walk from the start. A token is a direction by its remainder modulo four.
async fn one(mut table: Table<'_>) -> Result<EpisodeRecord> {
    let (map, mut place) = (map()?, 0);
    for _ in 0..TURNS {
        table.show(0, &shown(place).to_string());
        let direction = Direction::ALL[(table.say(0, 1).await?[0] % 4) as usize];
        place = map.neighbour(place, direction);
        if map.is_goal(place) || map.is_hole(place) {
            let reward = f64::from(u8::from(map.is_goal(place)));
            return Ok(table.end(Ending::Terminated, vec![reward]));
        }
    }
    Ok(table.end(Ending::Truncated, vec![0.0]))
}

async fn imitate(trainer: &Trainer, seed: Seed, steps: u64) -> Result<()> {
    let optimizer = Optimizer { learning_rate: 3e-3, ..Optimizer::default() };
    let settings = SftSettings { optimizer, ..SftSettings::default() };
    let mut attempts = (0_u64..).map(|attempt| guided(&map()?, seed.child("guide").child(attempt)));
    for _ in 0..steps {
        let mut batch = vec![];
        while batch.len() < 32 {
            batch.extend(attempts.next().transpose()?.flatten());
        }
        trainer.sft_step(&batch, &settings).await?;
    }
    Ok(())
}

/// A walk of the partly random guide, if it reaches the goal.
fn guided(map: &Map, seed: Seed) -> Result<Option<Segment>> {
    let (mut stream, distances) = (seed.stream(), map.distances());
    let (mut segment, mut place) = (Segment::default(), 0);
    for turn in 0..TURNS as u32 {
        let nearer = |index: &u64| {
            let next = map.neighbour(place, Direction::ALL[*index as usize]);
            distances[next].is_some_and(|left| Some(left + 1) == distances[place])
        };
        let toward = (0..4).find(nearer).context("every safe place has a path to the goal")?;
        let index = if stream.below(2) == 0 { toward } else { stream.below(4) };
        segment.append_given(&[u32::from(shown(place))], turn);
        segment.append_sampled(&gymkhana_policy::certain(vec![u32::from(b'@') + index as u32]), turn)?;
        place = map.neighbour(place, Direction::ALL[index as usize]);
        if map.is_goal(place) {
            return Ok(Some(segment));
        }
        if map.is_hole(place) {
            return Ok(None);
        }
    }
    Ok(None)
}
