//! The request of VerlTool's client: lists of one entry for each trajectory.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::error::ServeError;

/// Most trajectories in one request.
const MAX_BATCH: usize = 4096;

/// Longest id of a trajectory in bytes.
const MAX_ID: usize = 512;

/// The request as it is sent.
#[derive(Debug, Deserialize)]
struct SentRequest {
    trajectory_ids: Ids,
    actions: Vec<Option<String>>,
    #[serde(default)]
    finish: Option<Vec<bool>>,
    #[serde(default)]
    is_last_step: Option<Vec<bool>>,
    #[serde(default)]
    extra_fields: Option<Vec<Option<Map<String, Json>>>>,
}

/// A list, or the one id that older clients send with the end of a trajectory.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ids {
    List(Vec<Id>),
    One(Id),
}

/// Ids are texts, and numbers in some clients.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(i64),
}

/// One trajectory of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// The client's id of the trajectory.
    pub(super) trajectory: String,
    /// The agent's text, up to and with the text that stopped it.
    pub(super) action: String,
    /// Whether the trajectory ends with this request.
    pub(super) finish: bool,
    /// The data row's `extra_info`.
    pub(super) extra: Map<String, Json>,
}

/// Reads a request.
///
/// # Errors
/// If it is not JSON of this form, or its lists differ in length.
pub(super) fn wanted(body: &[u8]) -> Result<Vec<Wanted>, ServeError> {
    let body: SentRequest = serde_json::from_slice(body)
        .map_err(|error| ServeError::bad_input(format!("the request is malformed: {error}")))?;
    let ids = match body.trajectory_ids {
        Ids::List(ids) => ids,
        Ids::One(id) => vec![id],
    };
    let count = ids.len();
    let lengths = [
        ("actions", Some(body.actions.len())),
        ("finish", body.finish.as_ref().map(Vec::len)),
        ("is_last_step", body.is_last_step.as_ref().map(Vec::len)),
        ("extra_fields", body.extra_fields.as_ref().map(Vec::len)),
    ];
    if count == 0 || count > MAX_BATCH {
        let message = format!("the request has {count} trajectories\nhint: send 1 to {MAX_BATCH}");
        return Err(ServeError::bad_input(message));
    }
    if let Some((name, Some(length))) = lengths.into_iter().find(|(_, length)| length.is_some_and(|own| own != count)) {
        let message = format!("the request has {count} trajectories and {length} entries in `{name}`");
        return Err(ServeError::bad_input(message));
    }
    let mut finish = body.finish.unwrap_or_default().into_iter();
    let mut last = body.is_last_step.unwrap_or_default().into_iter();
    let mut extra = body.extra_fields.unwrap_or_default().into_iter();
    let one = |(id, action): (Id, Option<String>)| {
        let trajectory = match id {
            Id::Text(text) => text,
            Id::Number(number) => number.to_string(),
        };
        if trajectory.len() > MAX_ID {
            return Err(ServeError::bad_input(format!("a trajectory's id is longer than {MAX_ID} bytes")));
        }
        let action = action.unwrap_or_default();
        let (finish, is_last) = (finish.next().unwrap_or(false), last.next().unwrap_or(false));
        let finish = finish || is_last && action.is_empty();
        Ok(Wanted { trajectory, action, finish, extra: extra.next().flatten().unwrap_or_default() })
    };
    ids.into_iter().zip(body.actions).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_requests_are_read() {
        // As `verltool_agent_loop.py` sends a turn and the end of a trajectory.
        let turn = br#"{"trajectory_ids": ["a"], "actions": ["<python>1</python>"], "finish": [false],
            "is_last_step": [false], "extra_fields": [{"seed": 7}]}"#;
        let [read] = &wanted(turn).unwrap()[..] else { panic!("one trajectory") };
        assert_eq!((read.trajectory.as_str(), read.action.as_str(), read.finish), ("a", "<python>1</python>", false));
        assert_eq!(read.extra["seed"], 7);
        let end = br#"{"trajectory_ids": [3], "actions": [""], "finish": [true], "is_last_step": [true]}"#;
        let [read] = &wanted(end).unwrap()[..] else { panic!("one trajectory") };
        assert_eq!((read.trajectory.as_str(), read.finish), ("3", true));
        let end = br#"{"trajectory_ids": "a", "actions": [""], "finish": [true], "is_last_step": [true]}"#;
        let [read] = &wanted(end).unwrap()[..] else { panic!("one trajectory") };
        assert_eq!((read.trajectory.as_str(), read.finish), ("a", true));
    }

    #[test]
    fn other_requests_are_refused_with_the_reason() {
        for (body, reason) in [
            ("", "EOF while parsing"),
            ("[]", "invalid length 0"),
            (r#"{"trajectory_ids": ["a"], "actions": 3}"#, "invalid type: integer `3`"),
            (r#"{"trajectory_ids": ["a"], "actions": []}"#, "1 trajectories and 0 entries in `actions`"),
            (r#"{"trajectory_ids": [], "actions": []}"#, "the request has 0 trajectories"),
            (r#"{"trajectory_ids": [{}], "actions": ["x"]}"#, "did not match any variant"),
        ] {
            let error = wanted(body.as_bytes()).unwrap_err();
            assert!(error.message.contains(reason), "{body}: {error}");
        }
    }
}
