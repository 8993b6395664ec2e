//! The task API, which OpenEnv and ORS share: environments, splits and tasks.
//!
//! A task is `{"split", "index"}`: what both protocols take back to begin an episode.

use std::ops::Range;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use gymkhana_sandbox::SplitInfo;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::detail::{Detail, JsonResult, ReadBody, parse};
use super::lookup;
use crate::catalog::ServedEnvironment;
use crate::session::SessionTable;
use gymkhana_http::Client;

/// Number of tasks that is reported for a split without end, since the protocols have no word for it.
pub(super) const ENDLESS: u64 = 1_000_000;

/// Largest number of tasks in one list.
const LISTED: u64 = 100_000;

/// Types that the protocols know for splits.
const SPLIT_TYPES: [&str; 3] = ["train", "validation", "test"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSplit {
    split: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneTask {
    split: String,
    index: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskRange {
    split: String,
    #[serde(default)]
    start: Option<i64>,
    #[serde(default)]
    stop: Option<i64>,
}

/// The environment that a path names; the default one for paths without a name.
type PathEnvironment = Option<Path<String>>;

/// The routes, with and without the name of an environment.
pub(super) fn router(sessions: &SessionTable) -> Router {
    let mut router = Router::new().route("/list_environments", get(environments));
    for prefix in ["", "/{env}"] {
        let path = |name: &str| format!("{prefix}/{name}");
        router = router
            .route(&path("splits"), get(splits))
            .route(&path("tasks"), post(tasks))
            .route(&path("num_tasks"), post(num_tasks))
            .route(&path("task"), post(task))
            .route(&path("task_range"), post(task_range));
    }
    router.with_state(sessions.clone())
}

/// The environment of a path.
pub(super) fn served(sessions: &SessionTable, name: &PathEnvironment) -> Result<Arc<ServedEnvironment>, Detail> {
    let name = name.as_ref().map(|Path(name)| name.as_str());
    Ok(lookup::environment(sessions.catalog(), name)?)
}

async fn environments(State(sessions): State<SessionTable>, _: Client) -> axum::Json<Vec<String>> {
    axum::Json(lookup::names(sessions.catalog()))
}

async fn splits(State(sessions): State<SessionTable>, name: PathEnvironment, _: Client) -> JsonResult {
    let served = served(&sessions, &name)?;
    let splits = served.described().splits().iter().map(|split| {
        let known = SPLIT_TYPES.contains(&split.name.as_str());
        json!({ "name": split.name, "type": if known { &split.name } else { "validation" } })
    });
    Ok(axum::Json(splits.collect()))
}

async fn tasks(State(sessions): State<SessionTable>, name: PathEnvironment, _: Client, body: ReadBody) -> JsonResult {
    let served = served(&sessions, &name)?;
    let OfSplit { split } = parse(body)?;
    let split = split_of(&served, &split)?;
    let listed = Listed::of(split, 0..count(split))?;
    Ok(listed.answer(&served))
}

async fn num_tasks(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    _: Client,
    body: ReadBody,
) -> JsonResult {
    let served = served(&sessions, &name)?;
    let OfSplit { split } = parse(body)?;
    Ok(axum::Json(json!({ "num_tasks": count(split_of(&served, &split)?) })))
}

async fn task(State(sessions): State<SessionTable>, name: PathEnvironment, _: Client, body: ReadBody) -> JsonResult {
    let served = served(&sessions, &name)?;
    let OneTask { split, index } = parse(body)?;
    let split = split_of(&served, &split)?;
    let index = place(split, index);
    let task = served.described().task(Some(&split.name), index.unwrap_or(u64::MAX)).map_err(bad_request)?;
    Ok(axum::Json(json!({ "task": spec(&task.split, task.index), "env_name": served.name() })))
}

async fn task_range(
    State(sessions): State<SessionTable>,
    name: PathEnvironment,
    _: Client,
    body: ReadBody,
) -> JsonResult {
    let served = served(&sessions, &name)?;
    let TaskRange { split, start, stop } = parse(body)?;
    let split = split_of(&served, &split)?;
    let start = start.map_or(0, |start| clamped(split, start));
    let stop = stop.map_or(count(split), |stop| clamped(split, stop));
    let listed = Listed::of(split, start..stop.max(start))?;
    Ok(listed.answer(&served))
}

/// A list of tasks that is short enough.
struct Listed<'a> {
    split: &'a SplitInfo,
    places: Range<u64>,
}

impl<'a> Listed<'a> {
    fn of(split: &'a SplitInfo, places: Range<u64>) -> Result<Self, Detail> {
        if places.end - places.start > LISTED {
            let message = format!(
                "split `{}` cannot be listed: it has more than {LISTED} tasks\nhint: ask for the number of tasks and a \
                 range",
                split.name
            );
            return Err(Detail::new(StatusCode::BAD_REQUEST, message));
        }
        Ok(Self { split, places })
    }

    fn answer(self, served: &ServedEnvironment) -> axum::Json<Json> {
        let tasks = self.places.map(|index| spec(&self.split.name, index)).collect::<Vec<_>>();
        axum::Json(json!({ "tasks": tasks, "env_name": served.name() }))
    }
}

/// A task as JSON.
pub(super) fn spec(split: &str, index: u64) -> Json {
    json!({ "split": split, "index": index })
}

fn split_of<'a>(served: &'a ServedEnvironment, name: &str) -> Result<&'a SplitInfo, Detail> {
    served.described().split(Some(name)).map_err(bad_request)
}

fn count(split: &SplitInfo) -> u64 {
    split.tasks.unwrap_or(ENDLESS)
}

/// The place of an index, which counts from the end if it is negative.
fn place(split: &SplitInfo, index: i64) -> Option<u64> {
    u64::try_from(index).ok().or_else(|| count(split).checked_sub(index.unsigned_abs()))
}

/// As [`place`], within the split, as slices of Python.
fn clamped(split: &SplitInfo, index: i64) -> u64 {
    place(split, index).unwrap_or(0).min(count(split))
}

/// ORS answers unknown splits and tasks with the status 400.
fn bad_request(error: gymkhana_driver::TaskError) -> Detail {
    Detail::from(crate::error::ServeError::from(error)).with_status(StatusCode::BAD_REQUEST)
}

#[cfg(test)]
mod tests {
    use super::super::detail::fields;
    use super::*;

    fn split(tasks: Option<u64>) -> SplitInfo {
        SplitInfo { name: "train".to_owned(), tasks }
    }

    #[test]
    fn ranges_are_those_of_python() {
        let three = split(Some(3));
        assert_eq!([-1, -9, 1, 9].map(|index| clamped(&three, index)), [2, 0, 1, 3]);
        assert_eq!(place(&three, -4), None);
        assert_eq!(clamped(&split(None), -1), ENDLESS - 1);
    }

    #[test]
    fn long_lists_are_refused() {
        assert!(Listed::of(&split(None), 0..ENDLESS).is_err());
        assert!(Listed::of(&split(None), 5..7).is_ok());
    }

    #[test]
    fn requests_have_known_fields_only() {
        assert!(fields::<TaskRange>(&json!({ "split": "train" })).is_ok());
        assert!(fields::<OneTask>(&json!({ "split": "train" })).is_err());
        assert!(fields::<OfSplit>(&json!({ "split": "train", "x": 1 })).is_err());
    }
}
