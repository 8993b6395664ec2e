//! What Python sees of a step or a start: observation, reward, flags and info.

use gymkhana_driver::{LiveEpisode, TurnResult};
use gymkhana_record::{Content, Ending, Failure, Turn, text_of};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::convert::from_named;
use crate::errors::{FunctionFault, word};

/// Observation, reward, terminated, truncated and info.
pub type Transition<'py> = (Bound<'py, PyString>, f64, bool, bool, Bound<'py, PyDict>);

/// The numbers and the text of a step.
pub struct StepOutcome {
    /// Text for the seat that moves next or, at the end, that moved last.
    pub observation: String,
    /// Reward of the seat that moved.
    pub reward: f64,
    /// Whether the environment ended the episode.
    pub terminated: bool,
    /// Whether the episode ended otherwise.
    pub truncated: bool,
}

impl StepOutcome {
    /// The outcome of a step.
    pub fn of(live: &LiveEpisode, step: &TurnResult) -> Self {
        let data = &live.episode.data;
        let seat = if step.ending.is_some() { step.seat } else { data.seat };
        Self {
            observation: seen_by(seat, &data.turns[step.before.turns..]),
            reward: earned(live, step, step.seat),
            terminated: step.ending == Some(Ending::Terminated),
            truncated: step.ending.is_some_and(|ending| ending != Ending::Terminated),
        }
    }

    /// The outcome of a start.
    pub fn of_start(live: &LiveEpisode) -> Self {
        Self { observation: first_text(live), reward: 0.0, terminated: false, truncated: false }
    }
}

/// What the seat to move sees at the start.
pub fn first_text(live: &LiveEpisode) -> String {
    seen_by(live.episode.data.seat, &live.episode.data.turns)
}

/// Text that turns show to a seat.
fn seen_by(seat: u32, turns: &[Turn]) -> String {
    let mut text = String::new();
    for (_, content) in turns.iter().filter_map(shown).filter(|(to, content)| *to == seat && !content.is_empty()) {
        append(&mut text, content);
    }
    text
}

/// Seat and content of a turn that shows something.
fn shown(turn: &Turn) -> Option<(u32, &Content)> {
    match turn {
        Turn::Observation { seat, content } | Turn::Answer { seat, content, .. } => Some((*seat, content)),
        Turn::Thought { .. } | Turn::Message { .. } | Turn::Call { .. } | Turn::MalformedCall { .. } => None,
    }
}

fn append(text: &mut String, content: &Content) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&text_of(content));
}

/// Sum of a seat's rewards in a step.
fn earned(live: &LiveEpisode, step: &TurnResult, seat: u32) -> f64 {
    let rewards = live.episode.data.rewards.get(seat as usize);
    rewards.map_or(0.0, |rewards| rewards.rewards[step.before.steps..].iter().fold(0.0, |sum, reward| sum + reward))
}

/// The five values of Gymnasium's `step`.
///
/// # Errors
/// If a value cannot be built.
pub fn of_step<'py>(py: Python<'py>, live: &LiveEpisode, step: &TurnResult) -> PyResult<Transition<'py>> {
    let data = &live.episode.data;
    let StepOutcome { observation, reward, terminated, truncated } = StepOutcome::of(live, step);
    let info = info(py, live, step.before.turns, data.failures.get(step.before.failures..).unwrap_or_default())?;
    let rewards = PyDict::new(py);
    for seat in &data.rewards {
        rewards.set_item(seat.seat, earned(live, step, seat.seat))?;
    }
    info.set_item(intern!(py, "rewards"), rewards)?;
    Ok((PyString::new(py, &observation), reward, terminated, truncated, info))
}

/// The failure of the environment in a step that ended the episode with it.
pub fn failure_of(live: &LiveEpisode, step: &TurnResult) -> Option<FunctionFault> {
    let at = live.episode.boundary();
    let failures = live.episode.data.failures.get(step.before.failures..)?;
    let fatal = |failure: &&Failure| failure.at == at || failure.kind.is_hosts();
    let failed = failures.iter().rev().find(fatal)?;
    (step.ending == Some(Ending::EnvironmentFailed) || failed.kind.is_hosts()).then(|| failed.clone().into())
}

/// The two values of Gymnasium's `reset`.
///
/// # Errors
/// If a value cannot be built.
pub fn of_start<'py>(py: Python<'py>, live: &LiveEpisode) -> PyResult<(Bound<'py, PyString>, Bound<'py, PyDict>)> {
    let info = info(py, live, 0, &[])?;
    info.set_item(intern!(py, "rewards"), PyDict::new(py))?;
    info.set_item(intern!(py, "seed"), live.seed.0)?;
    Ok((PyString::new(py, &first_text(live)), info))
}

/// The info of the turns from `first` on.
fn info<'py>(py: Python<'py>, live: &LiveEpisode, first: usize, failures: &[Failure]) -> PyResult<Bound<'py, PyDict>> {
    let data = &live.episode.data;
    let turns = &data.turns[first..];
    let mut texts: Vec<(u32, String)> = Vec::with_capacity(1);
    let calls = PyList::empty(py);
    for turn in turns {
        if let Turn::Answer { id, content, failed, .. } = turn {
            calls.append(answer(py, turns, id, content, *failed)?)?;
        }
        let Some((seat, content)) = shown(turn).filter(|(_, content)| !content.is_empty()) else { continue };
        match texts.iter_mut().find(|(to, _)| *to == seat) {
            Some((_, text)) => append(text, content),
            None => texts.push((seat, text_of(content))),
        }
    }
    let observations = PyDict::new(py);
    for (seat, text) in texts {
        observations.set_item(seat, text)?;
    }
    let info = PyDict::new(py);
    info.set_item(intern!(py, "seat"), data.seat)?;
    info.set_item(intern!(py, "observations"), observations)?;
    info.set_item(intern!(py, "extras"), from_named(py, &data.extras)?)?;
    info.set_item(intern!(py, "task"), task(py, live)?)?;
    info.set_item(intern!(py, "calls"), calls)?;
    info.set_item(intern!(py, "failures"), failed(py, failures)?)?;
    Ok(info)
}

/// An answered call.
fn answer<'py>(
    py: Python<'py>,
    turns: &[Turn],
    id: &str,
    content: &Content,
    failed: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let name = turns.iter().find_map(|turn| match turn {
        Turn::Call { call, .. } if call.id == id => Some(call.name.as_str()),
        _ => None,
    });
    let answer = PyDict::new(py);
    answer.set_item(intern!(py, "id"), id)?;
    answer.set_item(intern!(py, "name"), name.unwrap_or_default())?;
    answer.set_item(intern!(py, "content"), text_of(content))?;
    answer.set_item(intern!(py, "failed"), failed)?;
    Ok(answer)
}

/// The task as a mapping.
///
/// # Errors
/// If a value cannot be built.
pub fn task<'py>(py: Python<'py>, live: &LiveEpisode) -> PyResult<Bound<'py, PyDict>> {
    let task = PyDict::new(py);
    task.set_item(intern!(py, "split"), &live.task().split)?;
    task.set_item(intern!(py, "index"), live.task().index)?;
    Ok(task)
}

/// Failures as mappings.
///
/// # Errors
/// If a value cannot be built.
pub fn failed<'py>(py: Python<'py>, failures: &[Failure]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for failure in failures {
        let entry = PyDict::new(py);
        entry.set_item(intern!(py, "plugin"), failure.at.plugin())?;
        entry.set_item(intern!(py, "kind"), word(failure.kind))?;
        entry.set_item(intern!(py, "message"), &failure.message)?;
        list.append(entry)?;
    }
    Ok(list)
}
