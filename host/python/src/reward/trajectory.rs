//! Prompts and completions of trainers as the episodes that rewards score.

use gymkhana_record::{Call, Ending, NamedValue, Part, SeatRewards, TaskRef, Turn};
use gymkhana_sandbox::Trajectory;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};
use serde_json::Value as Json;

use crate::convert::{to_json, to_value};
use crate::errors::FunctionFault;
use crate::reply::without_thoughts;

/// Arguments of trainers that are not columns of a task.
const NOT_COLUMNS: [&str; 8] = [
    "completion_ids",
    "prompt_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
    "environments",
    "environment_reward",
    "images",
];

/// A finished episode of one seat.
pub struct SeatTrajectory {
    task: TaskRef,
    turns: Vec<Turn>,
    rewards: Vec<SeatRewards>,
    privileged: Vec<NamedValue>,
    views: Vec<NamedValue>,
}

impl SeatTrajectory {
    /// The episode as a reward sees it.
    pub fn trajectory(&self) -> Trajectory<'_> {
        Trajectory {
            task: &self.task,
            turns: &self.turns,
            ending: Ending::Terminated,
            environment_rewards: &self.rewards,
            extras: &[],
            privileged: &self.privileged,
            views: &self.views,
        }
    }

    /// Reads a prompt and a completion: texts, or lists of messages.
    ///
    /// # Errors
    /// If a message has another form.
    pub fn read(prompt: Option<&Bound<'_, PyAny>>, completion: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut turns = Vec::new();
        if let Some(prompt) = prompt.filter(|prompt| !prompt.is_none()) {
            messages(prompt, "user", &mut turns)?;
        }
        messages(completion, "assistant", &mut turns)?;
        Ok(Self {
            task: TaskRef { split: "train".to_owned(), index: 0 },
            turns,
            rewards: vec![SeatRewards { seat: 0, rewards: vec![] }],
            privileged: vec![],
            views: vec![],
        })
    }

    /// Adds a field of the task. A name with a dot is that of a tool's view.
    pub fn add(&mut self, field: NamedValue) {
        let fields = if field.name.contains('.') { &mut self.views } else { &mut self.privileged };
        fields.push(field);
    }
}

/// Adds the turns of a text of this role, or of messages.
fn messages(given: &Bound<'_, PyAny>, role: &str, turns: &mut Vec<Turn>) -> PyResult<()> {
    if let Ok(text) = given.cast::<PyString>() {
        let content = vec![Part::Text(text.to_string_lossy().into_owned())];
        match role {
            "assistant" => say(None, text.to_string_lossy().into_owned(), turns),
            _ => turns.push(Turn::Observation { seat: 0, content }),
        }
        return Ok(());
    }
    for message in given.try_iter()? {
        add_message(&message?, turns)?;
    }
    Ok(())
}

/// Adds a message of the policy, with its thoughts before it.
fn say(thoughts: Option<String>, text: String, turns: &mut Vec<Turn>) {
    let (found, message) = match thoughts {
        None => without_thoughts(text),
        thoughts => (thoughts, text),
    };
    turns.extend(found.filter(|text| !text.is_empty()).map(|text| Turn::Thought { seat: 0, text }));
    turns.push(Turn::Message { seat: 0, content: vec![Part::Text(message)] });
}

fn wrong(why: &str) -> PyErr {
    FunctionFault::Option(format!("a message cannot be scored: {why}\nhint: give {{\"role\": str, \"content\": str}}"))
        .into()
}

fn add_message(message: &Bound<'_, PyAny>, turns: &mut Vec<Turn>) -> PyResult<()> {
    let message = message.cast::<PyMapping>().map_err(|_| wrong("it is not a mapping"))?;
    let field = |name: &str| message.get_item(name).ok().filter(|value| !value.is_none());
    let role = field("role").ok_or_else(|| wrong("it has no role"))?;
    let role = role.cast::<PyString>().map_err(|_| wrong("its role is not a str"))?.to_string_lossy().into_owned();
    let content = field("content").map(|content| text(&content)).transpose()?;
    let calls = field("tool_calls").map(|calls| to_json("tool_calls", &calls)).transpose()?;
    match role.as_str() {
        "assistant" => {
            let calls = calls.as_ref().and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
            let content = content.unwrap_or_default();
            if calls.is_empty() || !content.is_empty() {
                let thoughts = ["reasoning_content", "reasoning"].into_iter().find_map(&field);
                say(thoughts.map(|thoughts| text(&thoughts)).transpose()?, content, turns);
            }
            for call in calls {
                let call = read_call(call, turns.len()).ok_or_else(|| wrong("a call has no name"))?;
                turns.push(Turn::Call { seat: 0, call, cost: 0.0 });
            }
        }
        "tool" => {
            let id = field("tool_call_id").map(|id| id.extract::<String>()).transpose()?;
            let id = id.or_else(|| unanswered(turns)).unwrap_or_default();
            let content = vec![Part::Text(content.unwrap_or_default())];
            turns.push(Turn::Answer { seat: 0, id, content, failed: false });
        }
        _ => turns.push(Turn::Observation { seat: 0, content: vec![Part::Text(content.unwrap_or_default())] }),
    }
    Ok(())
}

/// The id of the first call without an answer.
fn unanswered(turns: &[Turn]) -> Option<String> {
    let answered = |id: &str| turns.iter().any(|turn| matches!(turn, Turn::Answer { id: other, .. } if other == id));
    turns.iter().find_map(|turn| match turn {
        Turn::Call { call, .. } if !answered(&call.id) => Some(call.id.clone()),
        _ => None,
    })
}

/// A call in OpenAI's form, with or without the wrapper `function`.
fn read_call(call: &Json, place: usize) -> Option<Call> {
    let function = call.get("function").unwrap_or(call);
    let name = function.get("name")?.as_str()?.to_owned();
    let arguments = match function.get("arguments") {
        Some(Json::String(text)) => text.clone(),
        Some(object) => object.to_string(),
        None => "{}".to_owned(),
    };
    let id = call.get("id").and_then(Json::as_str).map_or_else(|| format!("call-{place}"), str::to_owned);
    Some(Call { id, name, arguments })
}

/// The text of a content: a text, or parts of which some are texts.
fn text(content: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = content.cast::<PyString>() {
        return Ok(text.to_string_lossy().into_owned());
    }
    let parts = to_json("the content", content)?;
    let parts = parts.as_array().ok_or_else(|| wrong("its content is neither a str nor a list"))?;
    Ok(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect())
}

/// The fields of row `row` that a column gives; none if the argument is not a column.
///
/// # Errors
/// If the value has no form for plugins.
pub fn cell(name: &str, column: &Bound<'_, PyAny>, rows: usize, row: usize) -> PyResult<Option<NamedValue>> {
    let is_text = column.is_instance_of::<PyString>();
    if NOT_COLUMNS.contains(&name)
        || is_text
        || column.len().is_ok_and(|length| length != rows)
        || column.len().is_err()
    {
        return Ok(None);
    }
    let Ok(value) = column.get_item(row) else { return Ok(None) };
    if value.is_none() {
        return Ok(None);
    }
    Ok(Some(NamedValue { name: name.to_owned(), value: to_value(&format!("column `{name}`"), &value)? }))
}
