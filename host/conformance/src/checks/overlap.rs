//! Overlap of splits: the first tasks of one split must not all be tasks of another.
//!
//! Tasks are equal if their episodes open with the same functions, tool set-ups and observations. If the tasks of a split
//! open alike, their privileged facts and their snapshots are compared too.

use std::collections::BTreeSet;

use gymkhana_record::{Content, NamedValue, Opening, TaskRef, text_of};
use gymkhana_registry::Digest;
use gymkhana_sandbox::{EnvironmentEpisode, OptionalInterface, ResetResult, SplitInfo};

use crate::finding::{CheckPhase, Stop, short, stop};
use crate::fixture::Fixture;

/// First tasks of a split that are looked for in the others.
const SAMPLED: u64 = 12;
/// Tasks of a split among which they are looked for, at least and at most.
const SEARCHED: (usize, usize) = (64, 4096);
/// The same if starts are costly: the first tasks from both ends, so that equal and reversed splits are found.
const COSTLY_SEARCHED: (usize, usize) = (2 * SAMPLED as usize, 2 * SAMPLED as usize);
/// Instructions after which a search ends between these bounds; about one second's worth.
const SEARCH_FUEL: u64 = 1_000_000_000;

/// Starts a promised task.
pub(super) async fn start(fixture: &Fixture, task: &TaskRef) -> Result<(EnvironmentEpisode, ResetResult), Stop> {
    let start = EnvironmentEpisode::start(&fixture.plugin, task, &fixture.options, fixture.seed("opening")).await;
    start.during(format!("task {task}, which `splits` promises, could not be started"))
}

/// Data that tell tasks apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// What an agent sees at the start.
    Opening,
    /// That, the privileged facts and the snapshot. A snapshot may contain the name of the task, so this alone would
    /// find no equal tasks in such an environment.
    State,
}

/// State behind the opening, as far as the environment shows it.
#[derive(Debug, Default)]
struct EnvironmentState {
    privileged: Option<Vec<NamedValue>>,
    snapshot: Option<Digest>,
}

/// A task as its identity shows it.
struct Identified {
    digest: Digest,
    opening: Opening,
    /// Instructions of the calls.
    fuel: u64,
}

/// Starts a task and reads its identity.
async fn identify(fixture: &Fixture, task: &TaskRef, identity: Identity) -> Result<Identified, Stop> {
    let (mut episode, ResetResult { opening, .. }) = start(fixture, task).await?;
    let mut fuel = episode.cost().fuel.unwrap_or(0);
    let mut state = EnvironmentState::default();
    if identity == Identity::State && fixture.plugin.offers(OptionalInterface::Privileged) {
        let facts = episode.privileged().await.during(format!("the privileged view at the start of task {task}"))?;
        state.privileged = Some(facts);
        fuel += episode.cost().fuel.unwrap_or(0);
    }
    if identity == Identity::State && fixture.plugin.offers(OptionalInterface::Snapshot) {
        let snapshot = episode.snapshot().await.during(format!("the snapshot at the start of task {task}"))?;
        state.snapshot = Some(Digest::of(&snapshot.bytes));
        fuel += episode.cost().fuel.unwrap_or(0);
    }
    Ok(Identified { digest: digest(&opening, &state), opening, fuel })
}

fn digest(opening: &Opening, state: &EnvironmentState) -> Digest {
    Digest::of(format!("{opening:?} {state:?}").as_bytes())
}

/// First tasks of a split.
struct Sample<'a> {
    split: &'a SplitInfo,
    identity: Identity,
    tasks: Vec<Digest>,
    /// Text of the first task's observations.
    shown: String,
}

impl Sample<'_> {
    async fn of<'a>(fixture: &Fixture, split: &'a SplitInfo) -> Result<Sample<'a>, Stop> {
        let sample = Sample::read(fixture, split, Identity::Opening).await?;
        let reads = [OptionalInterface::Privileged, OptionalInterface::Snapshot];
        // A small game may have all of its few hands in every split.
        let is_small = split.tasks.is_some_and(|tasks| tasks < SAMPLED);
        if sample.identifies_tasks() || is_small || !reads.into_iter().any(|read| fixture.plugin.offers(read)) {
            return Ok(sample);
        }
        Sample::read(fixture, split, Identity::State).await
    }

    async fn read<'a>(fixture: &Fixture, split: &'a SplitInfo, identity: Identity) -> Result<Sample<'a>, Stop> {
        let mut sample = Sample { split, identity, tasks: vec![], shown: String::new() };
        for index in 0..SAMPLED.min(split.tasks.unwrap_or(SAMPLED)) {
            let task = TaskRef { split: split.name.clone(), index };
            let Identified { digest, opening, .. } = identify(fixture, &task, identity).await?;
            sample.tasks.push(digest);
            if index == 0 {
                sample.shown = text(&opening.observations);
            }
        }
        Ok(sample)
    }

    /// Whether the identity tells tasks apart. In some games, all tasks are alike at the start.
    fn identifies_tasks(&self) -> bool {
        let distinct: BTreeSet<&Digest> = self.tasks.iter().collect();
        self.tasks.len() > 2 && distinct.len() > self.tasks.len() / 2
    }

    /// Whether all its tasks are tasks of another split, whose own sample and tasks these are.
    fn is_within(&self, other: &Sample<'_>, tasks: &BTreeSet<Digest>) -> bool {
        match (self.split.tasks, other.split.tasks) {
            (Some(_), _) => self.tasks.iter().all(|task| tasks.contains(task)),
            // Generated splits may repeat a task by chance, so that only equal places count.
            (None, None) => self.tasks == other.tasks,
            // The finite split is looked for in the generated one.
            (None, Some(_)) => false,
        }
    }

    /// The finding that its tasks are tasks of another split.
    fn overlap(&self, other: &str) -> Stop {
        let (count, name) = (self.tasks.len(), &self.split.name);
        let (same, change) = match self.identity {
            Identity::Opening => (format!("such as {:?}", short(&self.shown)), "derive them from the split's name too"),
            Identity::State => (
                format!("by privileged facts and snapshots; all open alike, such as {:?}", short(&self.shown)),
                "divide the hidden values between the splits, such as every third number to `test`",
            ),
        };
        stop(
            format!("the first {count} tasks of `{name}` are tasks of `{other}` too, {same}"),
            &format!("{change}: training tasks must not be evaluation tasks"),
        )
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
        for identity in [Identity::Opening, Identity::State] {
            let others: Vec<&Sample<'_>> = others.iter().copied().filter(|each| each.identity == identity).collect();
            let is_searched = others.iter().any(|sample| sample.split.tasks.is_some());
            let tasks = if is_searched { tasks(fixture, whole.split, identity).await? } else { BTreeSet::new() };
            if let Some(sample) = others.into_iter().find(|sample| sample.is_within(whole, &tasks)) {
                return Err(sample.overlap(&whole.split.name));
            }
        }
    }
    Ok(())
}

/// Tasks of a split, as many as the bounds of the search allow.
async fn tasks(fixture: &Fixture, split: &SplitInfo, identity: Identity) -> Result<BTreeSet<Digest>, Stop> {
    let (least, most) = if fixture.one_in() > 1 { COSTLY_SEARCHED } else { SEARCHED };
    let (mut tasks, mut fuel) = (BTreeSet::new(), 0);
    for (number, index) in searched(split).take(most).enumerate() {
        if number >= least && fuel >= SEARCH_FUEL {
            break;
        }
        let task = identify(fixture, &TaskRef { split: split.name.clone(), index }, identity).await?;
        fuel += task.fuel;
        tasks.insert(task.digest);
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

    fn opening(shown: &str) -> Opening {
        let content = vec![gymkhana_record::Part::Text(shown.to_owned())];
        Opening { observations: vec![(0, content)], functions: vec![], setup: vec![] }
    }

    fn answer(value: i64) -> EnvironmentState {
        let value = gymkhana_record::Value::Integer(value);
        EnvironmentState { privileged: Some(vec![NamedValue { name: "answer".to_owned(), value }]), snapshot: None }
    }

    #[test]
    fn tasks_that_open_alike_differ_by_facts_and_snapshots() {
        let begin = opening("Begin.");
        let of = |state: &EnvironmentState| digest(&begin, state);
        assert_eq!(of(&answer(1)), of(&answer(1)));
        assert_ne!(of(&answer(1)), of(&answer(2)));
        let saved = |byte: u8| EnvironmentState { snapshot: Some(Digest::of(&[byte])), ..answer(1) };
        assert_ne!(of(&saved(1)), of(&saved(2)));
        assert_ne!(of(&answer(1)), digest(&opening("Go on."), &answer(1)));
    }

    #[test]
    fn a_finite_split_overlaps_if_all_its_tasks_are_elsewhere_in_any_order() {
        let split = |name: &str| SplitInfo { name: name.to_owned(), tasks: Some(100) };
        let (train, test) = (split("train"), split("test"));
        let digests = |answers: std::ops::Range<i64>| -> Vec<Digest> {
            answers.map(|value| digest(&opening("Begin."), &answer(value))).collect()
        };
        let sample = |split, tasks| Sample { split, identity: Identity::State, tasks, shown: "Begin.".to_owned() };
        let whole = sample(&train, digests(0..12));
        let all: BTreeSet<Digest> = digests(0..50).into_iter().collect();
        let within = sample(&test, digests(30..42).into_iter().rev().collect());
        assert!(within.identifies_tasks() && within.is_within(&whole, &all));
        let mostly = sample(&test, digests(39..51));
        assert!(!mostly.is_within(&whole, &all));
        let Stop::Plugin(defect) = within.overlap("train") else { panic!("a finding about the plugin") };
        let words = "the first 12 tasks of `test` are tasks of `train` too, by privileged facts and snapshots; all open \
                     alike, such as \"Begin.\"";
        assert!(defect.to_string().starts_with(words), "{defect}");
        // The same tasks by their openings alone are not told apart.
        let alike = vec![digest(&opening("Begin."), &EnvironmentState::default()); 12];
        assert!(!sample(&test, alike).identifies_tasks());
    }
}
