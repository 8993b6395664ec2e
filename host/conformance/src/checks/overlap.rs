//! Overlap of splits: the first tasks of one split must not all be tasks of another.
//!
//! Tasks are equal if their episodes open with the same functions, tool set-ups and observations.

use std::collections::BTreeSet;

use gymkhana_record::{Content, Opening, TaskRef, text_of};
use gymkhana_registry::Digest;
use gymkhana_sandbox::{EnvironmentEpisode, SplitInfo, Started};

use crate::finding::{CheckPhase, Stop, short, stop};
use crate::fixture::Fixture;

/// First tasks of a split that are looked for in the others.
const SAMPLED: u64 = 12;
/// Tasks of a split among which they are looked for, at least and at most.
const SEARCHED: (usize, usize) = (256, 4096);
/// Instructions after which a search ends between these bounds; about one second's worth.
const SEARCH_FUEL: u64 = 1_000_000_000;

/// Starts a promised task.
pub(super) async fn start(fixture: &Fixture, task: &TaskRef) -> Result<(EnvironmentEpisode, Started), Stop> {
    let start = EnvironmentEpisode::start(&fixture.plugin, task, &fixture.options, fixture.seed("opening")).await;
    start.during(format!("task {task}, which `splits` promises, could not be started"))
}

/// First tasks of a split.
struct Sample<'a> {
    split: &'a SplitInfo,
    openings: Vec<Digest>,
    /// Text of the first task's observations.
    shown: String,
}

impl Sample<'_> {
    async fn of<'a>(fixture: &Fixture, split: &'a SplitInfo) -> Result<Sample<'a>, Stop> {
        let mut sample = Sample { split, openings: vec![], shown: String::new() };
        for index in 0..SAMPLED.min(split.tasks.unwrap_or(SAMPLED)) {
            let (_, started) = start(fixture, &TaskRef { split: split.name.clone(), index }).await?;
            sample.openings.push(digest(&started.opening));
            if index == 0 {
                sample.shown = text(&started.opening.observations);
            }
        }
        Ok(sample)
    }

    /// Whether openings identify tasks. In some games, all tasks open alike.
    fn identifies_tasks(&self) -> bool {
        let distinct: BTreeSet<&Digest> = self.openings.iter().collect();
        self.openings.len() > 2 && distinct.len() > self.openings.len() / 2
    }

    /// Whether all its tasks are tasks of another split, whose own sample and tasks these are.
    fn is_within(&self, other: &Sample<'_>, tasks: &BTreeSet<Digest>) -> bool {
        match (self.split.tasks, other.split.tasks) {
            (Some(_), _) => self.openings.iter().all(|opening| tasks.contains(opening)),
            // Generated splits may repeat a task by chance, so that only equal places count.
            (None, None) => self.openings == other.openings,
            // The finite split is looked for in the generated one.
            (None, Some(_)) => false,
        }
    }
}

/// Checks every pair of splits. A few equal tasks are allowed.
pub(super) async fn check(fixture: &Fixture) -> Result<(), Stop> {
    let mut samples = Vec::new();
    for split in &fixture.splits {
        samples.push(Sample::of(fixture, split).await?);
    }
    for (place, whole) in samples.iter().enumerate() {
        let others = samples.iter().enumerate().filter(|(other, sample)| *other != place && sample.identifies_tasks());
        let others: Vec<&Sample<'_>> = others.map(|(_, sample)| sample).collect();
        let is_searched = others.iter().any(|sample| sample.split.tasks.is_some());
        let tasks = if is_searched { tasks(fixture, whole.split).await? } else { BTreeSet::new() };
        if let Some(sample) = others.into_iter().find(|sample| sample.is_within(whole, &tasks)) {
            return Err(stop(
                format!(
                    "the first {} tasks of `{}` are tasks of `{}` too, such as {:?}",
                    sample.openings.len(),
                    sample.split.name,
                    whole.split.name,
                    short(&sample.shown)
                ),
                "derive them from the split's name too: training tasks must not be evaluation tasks",
            ));
        }
    }
    Ok(())
}

/// Tasks of a split, as many as the bounds of the search allow.
async fn tasks(fixture: &Fixture, split: &SplitInfo) -> Result<BTreeSet<Digest>, Stop> {
    let (least, most) = SEARCHED;
    let (mut tasks, mut fuel) = (BTreeSet::new(), 0);
    for (number, index) in searched(split).take(most).enumerate() {
        if number >= least && fuel >= SEARCH_FUEL {
            break;
        }
        let (episode, started) = start(fixture, &TaskRef { split: split.name.clone(), index }).await?;
        fuel += episode.cost().fuel.unwrap_or(0);
        tasks.insert(digest(&started.opening));
    }
    Ok(tasks)
}

/// Indices of tasks in the order of the search: from both ends of a finite split towards its middle.
fn searched(split: &SplitInfo) -> Box<dyn Iterator<Item = u64> + Send> {
    match split.tasks {
        None => Box::new(0..),
        Some(count) => {
            Box::new((0..count).map(move |number| if number % 2 == 0 { number / 2 } else { count - 1 - number / 2 }))
        }
    }
}

fn digest(opening: &Opening) -> Digest {
    Digest::of(format!("{opening:?}").as_bytes())
}

fn text(observations: &[(u32, Content)]) -> String {
    observations.iter().map(|(_, content)| text_of(content)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finite_split_is_searched_from_both_ends() {
        let indices = |tasks| searched(&SplitInfo { name: "test".to_owned(), tasks }).take(6).collect::<Vec<_>>();
        assert_eq!(indices(None), [0, 1, 2, 3, 4, 5]);
        assert_eq!(indices(Some(1_000_000)), [0, 999_999, 1, 999_998, 2, 999_997]);
        assert_eq!(indices(Some(5)), [0, 4, 1, 3, 2]);
        assert_eq!(indices(Some(1)), [0]);
    }
}
