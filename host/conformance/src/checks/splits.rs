//! Splits and tasks: an environment starts the tasks that it lists and refuses others.

use std::collections::BTreeSet;

use gymkhana_record::{FailureKind, TaskRef};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{EnvironmentEpisode, SplitInfo};

use crate::finding::{CheckPhase, Finding, Stop, failed, passed, short, skipped, stop};
use crate::fixture::Fixture;

/// Tasks of two splits that are compared.
const COMPARED: u64 = 12;

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
    for (one, other) in fixture.splits.iter().zip(fixture.splits.iter().skip(1)) {
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

/// Checks that two splits differ. A few equal openings are allowed; if all tasks open alike, the check does not apply.
async fn differ(fixture: &Fixture, one: &SplitInfo, other: &SplitInfo) -> Result<(), Stop> {
    let count = COMPARED.min(one.tasks.unwrap_or(COMPARED)).min(other.tasks.unwrap_or(COMPARED));
    let (mut alike, mut openings) = (0, BTreeSet::new());
    for index in 0..count {
        let first = opening(fixture, &TaskRef { split: one.name.clone(), index }).await?;
        let second = opening(fixture, &TaskRef { split: other.name.clone(), index }).await?;
        alike += u64::from(first == second);
        openings.insert(first);
    }
    // If all tasks open alike, as in some games, openings do not identify tasks.
    if alike == count && openings.len() as u64 > count / 2 && count > 2 {
        let first = openings.first().map_or("", String::as_str);
        return Err(stop(
            format!(
                "the first {count} tasks of `{}` and `{}` begin alike, such as {}",
                one.name,
                other.name,
                short(first)
            ),
            "derive them from the split's name too: training tasks must not be evaluation tasks",
        ));
    }
    Ok(())
}
