//! Arguments of the tools with handles, and of requests for the URL of an episode.

use gymkhana_driver::Reply;
use gymkhana_record::{Seed, WrittenCall};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::catalog::{ServedEnvironment, named_values};
use crate::endpoints::detail::fields;
use crate::endpoints::lookup::opening;
use crate::error::ServeError;
use crate::session::{NextEpisode, SessionTarget, TurnRequest};

/// What an episode begins with.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenArguments {
    /// Name of the environment; the first one by name if there is none, or the tools alone.
    pub(super) environment: Option<String>,
    split: Option<String>,
    task: Option<u64>,
    seed: Option<u64>,
    #[serde(default)]
    options: Map<String, Json>,
}

/// A turn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Act {
    /// The handle.
    pub(super) episode: String,
    text: Option<String>,
    #[serde(default)]
    calls: Vec<CallOfTurn>,
    seat: Option<u32>,
    turn: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallOfTurn {
    name: String,
    #[serde(default)]
    arguments: Map<String, Json>,
}

/// The end of an episode.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CloseArguments {
    /// The handle.
    pub(super) episode: String,
}

/// Reads arguments.
///
/// # Errors
/// If one is missing, has a wrong type or is not known.
pub(super) fn read<T: DeserializeOwned>(json: &Json) -> Result<T, ServeError> {
    fields(json).map_err(|fault| ServeError::bad_input(format!("the arguments are invalid: {}", fault.message)))
}

impl OpenArguments {
    /// The session and its first episode.
    ///
    /// # Errors
    /// If options are given for the tools alone.
    pub(super) fn session(self, served: &ServedEnvironment) -> Result<(SessionTarget, NextEpisode), ServeError> {
        let Self { split, task, seed, options, .. } = self;
        let begin = NextEpisode { split, task, seed: seed.map(Seed) };
        match opening(served) {
            SessionTarget::Environment { name, .. } => {
                Ok((SessionTarget::Environment { name, options: named_values(&options) }, begin))
            }
            tools if options.is_empty() => Ok((tools, begin)),
            SessionTarget::Tools { .. } => {
                let message = "options cannot be set: they are those of an environment, and the session has none\nhint: \
                               open it without options";
                Err(ServeError::bad_input(message))
            }
        }
    }
}

impl Act {
    /// The turn.
    ///
    /// # Errors
    /// If it has neither text nor calls.
    pub(super) fn action(self) -> Result<TurnRequest, ServeError> {
        let Self { text, calls, seat, turn, .. } = self;
        if text.is_none() && calls.is_empty() {
            return Err(ServeError::bad_input("the turn is empty\nhint: give `text`, `calls`, or both"));
        }
        let written = |call: CallOfTurn| {
            let arguments = Json::Object(call.arguments).to_string();
            WrittenCall::Sound { name: call.name, arguments }
        };
        let calls = calls.into_iter().map(written).collect();
        Ok(TurnRequest { seat, reply: Reply { thoughts: None, message: text.unwrap_or_default(), calls }, turn })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn act(json: &Json) -> Result<TurnRequest, ServeError> {
        read::<Act>(json)?.action()
    }

    #[test]
    fn a_turn_has_text_or_calls() {
        let said = act(&json!({ "episode": "e", "text": "up", "seat": 1, "turn": 3 }));
        assert_eq!(said, Ok(TurnRequest::say("up").by(1).as_turn(3)));
        let called = act(&json!({ "episode": "e", "calls": [{ "name": "move", "arguments": { "to": "up" } }] }));
        assert_eq!(called, Ok(TurnRequest::call("move", &json!({ "to": "up" }))));
        let without = act(&json!({ "episode": "e", "calls": [{ "name": "pass" }] }));
        assert_eq!(without, Ok(TurnRequest::call("pass", &json!({}))));
    }

    #[test]
    fn other_arguments_are_refused_with_the_reason() {
        for (json, reason) in [
            (json!({ "episode": "e" }), "the turn is empty"),
            (json!({ "text": "up" }), "missing field `episode`"),
            (json!({ "episode": 3, "text": "up" }), "invalid type: integer `3`"),
            (json!({ "episode": "e", "text": "up", "reward": 1 }), "unknown field `reward`"),
            (json!({ "episode": "e", "text": "up", "turn": -1 }), "invalid value: integer `-1`"),
            (json!({ "episode": "e", "calls": [{ "name": "a", "arguments": [] }] }), "invalid type: sequence"),
            (json!([]), "valid dictionary"),
        ] {
            let error = act(&json).unwrap_err();
            assert!(error.message.contains(reason), "{json}: {error}");
        }
    }
}
