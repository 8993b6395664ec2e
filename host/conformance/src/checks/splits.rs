//! Splits and tasks: an environment starts the tasks that it lists and refuses others.

use gymkhana_record::{FailureKind, TaskRef};
use gymkhana_registry::Kind;
use gymkhana_sandbox::EnvironmentEpisode;

use super::overlap::{self, start};
use crate::finding::{Finding, Stop, failed, passed, skipped, stop};
use crate::fixture::Fixture;

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
        start(fixture, task).await?;
    }
    refused(fixture, TaskRef { split: "no-such-split".to_owned(), index: 0 }).await?;
    for split in &fixture.splits {
        if let Some(count) = split.tasks {
            refused(fixture, TaskRef { split: split.name.clone(), index: count }).await?;
        }
    }
    // At the limits of an option there can be few different tasks.
    if !fixture.is_brief() {
        overlap::check(fixture).await?;
    }
    let shown = fixture.splits.iter().map(|split| match split.tasks {
        Some(count) => format!("{} with {count}", split.name),
        None => format!("{} (generated)", split.name),
    });
    passed(format!("{}; {} tasks were started", shown.collect::<Vec<_>>().join(", "), tasks.len()))
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
