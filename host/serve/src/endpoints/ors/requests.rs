//! Bodies of requests.

use gymkhana_record::{NamedValue, Seed};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::catalog::named_values;
use crate::endpoints::detail::{FieldFault, fields};
use crate::session::NextEpisode;

/// `POST /create`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Create {
    /// Name of the environment; the default one if there is none.
    pub(super) env_name: Option<String>,
    task_spec: Option<Json>,
    split: Option<String>,
    index: Option<u64>,
    toolset_name: Option<String>,
}

/// A task as the task API gives it, possibly with a seed and options.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskSpec {
    split: String,
    index: u64,
    seed: Option<u64>,
    #[serde(default)]
    options: Map<String, Json>,
}

impl Create {
    /// What the episode begins with, and the options of the environment.
    ///
    /// # Errors
    /// If it names no task or two, or a set of tools that belongs to another program.
    pub(super) fn beginning(&self) -> Result<(NextEpisode, Vec<NamedValue>), FieldFault> {
        if let Some(name) = &self.toolset_name {
            let message = format!("toolset `{name}` is not known: this server's tools are plugins");
            return Err(FieldFault::of(message, &Json::from(name.as_str())).at("toolset_name"));
        }
        match (&self.task_spec, &self.split, self.index) {
            (Some(spec), None, None) => {
                let spec: TaskSpec = fields(spec).map_err(|fault| fault.at("task_spec"))?;
                let begin = NextEpisode { split: Some(spec.split), task: Some(spec.index), seed: spec.seed.map(Seed) };
                Ok((begin, named_values(&spec.options)))
            }
            (None, Some(split), Some(index)) => {
                Ok((NextEpisode { split: Some(split.clone()), task: Some(index), seed: None }, vec![]))
            }
            _ => Err(FieldFault::of("Provide either task_spec or both split and index, not both/neither", &Json::Null)),
        }
    }
}

/// `POST /{env}/call`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallRequest {
    /// Name of the function.
    pub(super) name: String,
    /// Its arguments.
    pub(super) input: Map<String, Json>,
    /// Id of the call whose answer was lost.
    pub(super) task_id: Option<String>,
}

/// `POST /{env}/score_group`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScoreGroup {
    candidates: Vec<Candidate>,
    /// Id of the request whose answer was lost.
    pub(super) task_id: Option<String>,
}

/// One attempt. What was said is in the session's record: only the session is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Candidate {
    #[serde(rename = "messages")]
    _messages: Json,
    #[serde(default)]
    metadata: Json,
}

impl ScoreGroup {
    /// The sessions of the candidates.
    ///
    /// # Errors
    /// If a candidate names none.
    pub(super) fn sessions(&self) -> Result<Vec<String>, FieldFault> {
        let session = |(place, candidate): (usize, &Candidate)| {
            let id = candidate.metadata.get("session_id").and_then(Json::as_str);
            id.map(str::to_owned).ok_or_else(|| {
                let message = "a candidate needs the id of its session, whose record is scored\nhint: set \
                               metadata.session_id";
                FieldFault::of(message, &candidate.metadata).at(&place.to_string()).at("candidates")
            })
        };
        self.candidates.iter().enumerate().map(session).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn create(json: &Json) -> Result<(NextEpisode, Vec<NamedValue>), FieldFault> {
        fields::<Create>(json)?.beginning()
    }

    #[test]
    fn a_session_begins_with_one_task() {
        let begin = NextEpisode { split: Some("train".to_owned()), task: Some(3), seed: None };
        assert_eq!(create(&json!({ "split": "train", "index": 3 })), Ok((begin.clone(), vec![])));
        let spec = json!({ "task_spec": { "split": "train", "index": 3, "seed": 9 }, "env_name": "x" });
        assert_eq!(create(&spec), Ok((NextEpisode { seed: Some(Seed(9)), ..begin }, vec![])));
    }

    #[test]
    fn a_session_without_a_task_is_refused() {
        assert!(create(&json!({})).is_err());
        assert!(create(&json!({ "split": "train" })).is_err());
        assert!(create(&json!({ "split": "train", "index": -1 })).is_err());
        assert!(create(&json!({ "task_spec": {}, "split": "train", "index": 1 })).is_err());
        assert_eq!(create(&json!({ "task_spec": { "q": 1 } })).unwrap_err().place, ["task_spec"]);
        assert_eq!(
            create(&json!({ "split": "a", "index": 1, "toolset_name": "codex" })).unwrap_err().place,
            ["toolset_name"]
        );
    }

    #[test]
    fn a_candidate_names_its_session() {
        let group = |metadata| json!({ "candidates": [{ "messages": [], "metadata": metadata }] });
        let sessions = |json| fields::<ScoreGroup>(&json).unwrap().sessions();
        assert_eq!(sessions(group(json!({ "session_id": "a" }))), Ok(vec!["a".to_owned()]));
        assert_eq!(sessions(group(json!(null))).unwrap_err().place, ["candidates", "0"]);
    }
}
