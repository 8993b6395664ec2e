//! Splits and tasks: an environment starts the tasks that it lists and refuses others.

use std::collections::BTreeSet;

use gymkhana_record::{FailureKind, TaskRef};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{EnvironmentEpisode, SplitInfo};

use crate::finding::{CheckPhase, Finding, Stop, failed, passed, short, skipped, stop};
use crate::fixture::Fixture;

/// Tasks of a split that are looked for in another.
const COMPARED: u64 = 12;
/// Tasks of a split among which they are looked for.
const SEARCHED: u64 = 256;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    if !fixture.is(Kind::Environment) {
        return skipped("it is not an environment");
    }
    if fixture.splits.is_empty() {
        return failed("it has no splits", "give at least one in `splits`, such as `train`");
    }
    if let Some(empty) = fixture.splits.iter().find(|split| split.tasks == Some(0)) {
        return failed(
            format!("split `{}` has no tasks", empty.name),
            "omit the split from `splits` under these options",
        );
    }
    let tasks = fixture.some_tasks(&fixture.splits);
    for task in &tasks {
        opening(fixture, task).await?;
    }
    refused(fixture, TaskRef { split: "no-such-split".to_owned(), index: 0 }).await?;
    for split in &fixture.splits {
        if let Some(count) = split.tasks {
            refused(fixture, TaskRef { split: split.name.clone(), index: count }).await?;
        }
    }
    // At the limits of an option there can be few different tasks.
    let pairs = fixture.splits.iter().zip(fixture.splits.iter().skip(1)).filter(|_| !fixture.is_brief());
    for (one, other) in pairs {
        differ(fixture, one, other).await?;
    }
    let shown = fixture.splits.iter().map(|split| match split.tasks {
        Some(count) => format!("{} with {count}", split.name),
        None => format!("{} (generated)", split.name),
    });
    passed(format!("{}; {} tasks were started", shown.collect::<Vec<_>>().join(", "), tasks.len()))
}

async fn opening(fixture: &Fixture, task: &TaskRef) -> Result<String, Stop> {
    let start = EnvironmentEpisode::start(&fixture.plugin, task, &fixture.options, fixture.seed("opening")).await;
    let (_, started) = start.during(format!("task {task}, which `splits` promises, could not be started"))?;
    Ok(format!("{:?}", started.opening))
}

async fn refused(fixture: &Fixture, task: TaskRef) -> Result<(), Stop> {
    match EnvironmentEpisode::start(&fixture.plugin, &task, &fixture.options, fixture.seed("opening")).await {
        Err(error) if error.kind == FailureKind::Refused => Ok(()),
        Err(error) if error.kind.is_hosts() => Err(Stop::Host(error)),
        Err(error) => Err(stop(format!("missing task {task}: {}", error.message), "refuse it with `Error::NotFound`")),
        Ok(_) => Err(stop(
            format!("task {task} was started, but `splits` does not list it"),
            "refuse it with `Error::NotFound`, or correct the number of tasks",
        )),
    }
}

/// Checks that two splits differ. A few equal openings are allowed; if all tasks open alike, as in some games, openings
/// do not identify tasks and the check does not apply.
async fn differ(fixture: &Fixture, one: &SplitInfo, other: &SplitInfo) -> Result<(), Stop> {
    for (sampled, whole) in [(one, other), (other, one)] {
        let sample = openings(fixture, sampled, COMPARED).await?;
        // Generated splits may repeat a task by chance, so that only equal places count.
        let listed = one.tasks.is_some() && other.tasks.is_some();
        let found = openings(fixture, whole, if listed { SEARCHED } else { COMPARED }).await?;
        let is_found = |(place, opening): (usize, &String)| match listed {
            true => found.contains(opening),
            false => found.get(place) == Some(opening),
        };
        let distinct: BTreeSet<&String> = sample.iter().collect();
        if sample.len() > 2 && distinct.len() > sample.len() / 2 && sample.iter().enumerate().all(is_found) {
            return Err(stop(
                format!(
                    "the first {} tasks of `{}` are tasks of `{}` too, such as {}",
                    sample.len(),
                    sampled.name,
                    whole.name,
                    short(&sample[0])
                ),
                "derive them from the split's name too: training tasks must not be evaluation tasks",
            ));
        }
    }
    Ok(())
}

/// Openings of the first tasks of a split, at most `most`.
async fn openings(fixture: &Fixture, split: &SplitInfo, most: u64) -> Result<Vec<String>, Stop> {
    let mut openings = Vec::new();
    for index in 0..most.min(split.tasks.unwrap_or(most)) {
        openings.push(opening(fixture, &TaskRef { split: split.name.clone(), index }).await?);
    }
    Ok(openings)
}
