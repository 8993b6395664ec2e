//! Arguments of the contract as plain Python values, in the forms that `gymkhana_rl._local_code` states.

use gymkhana_record::{Call, NamedValue, Part, Turn, Value};
use gymkhana_sandbox::Trajectory;
use gymkhana_sandbox::unsandboxed::contract::Ending;
use gymkhana_sandbox::unsandboxed::contract_ending;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// Id, name and arguments of a call.
pub type CallTuple<'a> = (&'a str, &'a str, &'a str);

/// A call.
pub fn called(call: &Call) -> CallTuple<'_> {
    (&call.id, &call.name, &call.arguments)
}

/// Named values: pairs of name and value.
pub struct NamedValues<'a>(pub &'a [NamedValue]);

/// Content: texts, and media as their kind, MIME type and bytes.
pub struct ContentParts<'a>(pub &'a [Part]);

/// Finished episodes of one task.
pub struct Group<'a>(pub &'a [Trajectory<'a>]);

/// Converts a slice to a list.
fn list<'py, T>(
    py: Python<'py>,
    items: &[T],
    convert: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, items.iter().map(|item| convert(py, item)).collect::<PyResult<Vec<_>>>()?)
}

impl<'py> IntoPyObject<'py> for NamedValues<'_> {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        list(py, self.0, |py, named| (named.name.as_str(), value(py, &named.value)?).into_bound_py_any(py))
    }
}

impl<'py> IntoPyObject<'py> for ContentParts<'_> {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        list(py, self.0, part)
    }
}

impl<'py> IntoPyObject<'py> for Group<'_> {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        list(py, self.0, trajectory)
    }
}

fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Flag(flag) => flag.into_bound_py_any(py),
        Value::Integer(integer) => integer.into_bound_py_any(py),
        Value::Number(number) => number.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        Value::Other(json) => (json,).into_bound_py_any(py),
    }
}

fn part<'py>(py: Python<'py>, part: &Part) -> PyResult<Bound<'py, PyAny>> {
    let (kind, media) = match part {
        Part::Text(text) => return Ok(PyString::new(py, text).into_any()),
        Part::Image(media) => ("image", media),
        Part::Audio(media) => ("audio", media),
        Part::Video(media) => ("video", media),
        Part::Other(media) => ("other", media),
    };
    (kind, &media.mime, PyBytes::new(py, &media.bytes)).into_bound_py_any(py)
}

fn trajectory<'py>(py: Python<'py>, trajectory: &Trajectory<'_>) -> PyResult<Bound<'py, PyAny>> {
    let Trajectory { task, turns, environment_rewards, extras, privileged, views, .. } = trajectory;
    let rewards: Vec<(u32, &[f64])> =
        environment_rewards.iter().map(|own| (own.seat, own.rewards.as_slice())).collect();
    (
        (&task.split, task.index),
        // Rewards of the caller's own process do not ask for thoughts.
        list(py, &turns.iter().filter(|turn| !matches!(turn, Turn::Thought { .. })).collect::<Vec<_>>(), |py, one| {
            turn(py, one)
        })?,
        ending(contract_ending(trajectory.ending)),
        rewards,
        NamedValues(extras),
        NamedValues(privileged),
        NamedValues(views),
    )
        .into_bound_py_any(py)
}

/// Kind, seat, content, call, cost, id and failure of a turn.
fn turn<'py>(py: Python<'py>, turn: &Turn) -> PyResult<Bound<'py, PyAny>> {
    let no_call: Option<CallTuple<'_>> = None;
    match turn {
        Turn::Message { seat, content } => {
            ("message", seat, ContentParts(content), no_call, 0.0, "", false).into_bound_py_any(py)
        }
        Turn::Thought { seat, text } => {
            let text = [Part::Text(text.clone())];
            ("other", seat, ContentParts(&text), no_call, 0.0, "", false).into_bound_py_any(py)
        }
        Turn::Observation { seat, content } => {
            ("observation", seat, ContentParts(content), no_call, 0.0, "", false).into_bound_py_any(py)
        }
        Turn::Answer { seat, id, content, failed } => {
            ("answer", seat, ContentParts(content), no_call, 0.0, id, failed).into_bound_py_any(py)
        }
        Turn::Call { seat, call, cost } => {
            ("call", seat, ContentParts(&[]), Some(called(call)), cost, "", false).into_bound_py_any(py)
        }
        // As for components: a call without a name, whose arguments are the text.
        Turn::MalformedCall { seat, id, text } => {
            let call: Option<CallTuple<'_>> = Some((id, "", text));
            ("call", seat, ContentParts(&[]), call, 0.0, "", false).into_bound_py_any(py)
        }
    }
}

/// The value of the SDK's `Ending`.
fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Terminated => "terminated",
        Ending::Truncated => "truncated",
        Ending::TurnLimit => "turn-limit",
        Ending::TokenLimit => "token-limit",
        Ending::CallLimit => "call-limit",
        Ending::TimeLimit => "time-limit",
        Ending::Failed => "failed",
        Ending::Other => "other",
    }
}
