//! Results of tools: the plugins' bytes as content, facts of the turn as metadata, and errors with the party at fault.
//!
//! Rewards and facts of the environment are in none of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_record::{Content, Media, Part};
use gymkhana_registry::Digest;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, ResourceContents};
use serde_json::{Map, Value as Json, json};

use crate::error::{Owner, ServeError};
use crate::session::{LastObservation, TurnAnswer};

/// The result of a tool, or an error of the protocol.
pub(super) type ToolCallResult = Result<CallToolResult, ErrorData>;

/// Blocks of contents. Text that is empty is left out.
pub(super) fn blocks<'a>(contents: impl IntoIterator<Item = &'a Content>) -> Vec<ContentBlock> {
    let parts = contents.into_iter().flatten();
    parts.filter(|part| !matches!(part, Part::Text(text) if text.is_empty())).map(block).collect()
}

fn block(part: &Part) -> ContentBlock {
    match part {
        Part::Text(text) => ContentBlock::text(text.clone()),
        Part::Image(media) => ContentBlock::image(STANDARD.encode(&media.bytes), media.mime.clone()),
        Part::Audio(media) => ContentBlock::audio(STANDARD.encode(&media.bytes), media.mime.clone()),
        Part::Video(media) | Part::Other(media) => ContentBlock::resource(resource(media)),
    }
}

/// Bytes of another type as a resource, which the protocol wants a name for: their digest.
fn resource(media: &Media) -> ResourceContents {
    let name = format!("urn:{:#}", Digest::of(&media.bytes));
    ResourceContents::blob(STANDARD.encode(&media.bytes), name).with_mime_type(media.mime.clone())
}

/// What the seats that acted and are to move saw of a turn: answers, then observations.
fn seen(step: &TurnAnswer) -> Vec<ContentBlock> {
    let seats = [step.seat, step.next_seat];
    let observed = step.observations.iter().filter(|(seat, _)| seats.contains(seat)).map(|(_, content)| content);
    blocks(step.answers.iter().map(|answer| &answer.content).chain(observed))
}

/// The result of a turn. A call that failed is an error of the tool, not of the protocol.
pub(super) fn stepped(step: &TurnAnswer) -> ToolCallResult {
    if let Some(error) = step.fatal() {
        return failed(&error);
    }
    let owner = step.answers.iter().find_map(|answer| answer.failed);
    let mut meta = position(step.turn, step.next_seat, step.done());
    if let Some(owner) = owner {
        meta.insert("owner".to_owned(), json!(owner.label()));
    }
    let mut result = CallToolResult::success(seen(step)).with_meta(Some(MetaObject(meta)));
    result.is_error = Some(owner.is_some());
    if let [answer] = &step.answers[..] {
        result.structured_content = answer.structured();
    }
    Ok(result)
}

/// The result of `observe`.
pub(super) fn observed(observed: &LastObservation) -> CallToolResult {
    let meta = position(observed.turn, observed.seat, observed.done);
    CallToolResult::success(blocks(&observed.contents)).with_meta(Some(MetaObject(meta)))
}

/// The result of a tool with handles: an object, and what an agent reads.
pub(super) fn structured(content: Vec<ContentBlock>, object: Json, is_error: bool) -> CallToolResult {
    let mut result = CallToolResult::success(content);
    (result.structured_content, result.is_error) = (Some(object), Some(is_error));
    result
}

/// Number of a turn, the seat to move, and whether the episode is over.
pub(super) fn position(turn: u64, seat: u32, done: bool) -> Map<String, Json> {
    let pairs = [("turn", json!(turn)), ("seat", json!(seat)), ("done", json!(done))];
    pairs.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// A request that failed. What the host is at fault for is an error of the protocol: the agent can do nothing about it.
pub(super) fn failed(error: &ServeError) -> ToolCallResult {
    let fault = json!({ "kind": error.kind.label(), "owner": error.owner.label() });
    if error.owner == Owner::Host {
        return Err(ErrorData::internal_error(error.message.clone(), Some(fault)));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(error.message.clone())]);
    if let Json::Object(fault) = fault {
        result = result.with_meta(Some(MetaObject(fault)));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Call, Ending};

    use super::*;
    use crate::error::ErrorKind;
    use crate::session::CallAnswer;

    fn step(answer: &str, failed: Option<Owner>) -> TurnAnswer {
        let call = Call { id: "1".to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() };
        TurnAnswer {
            turn: 4,
            seat: 0,
            answers: vec![CallAnswer { call, content: vec![Part::Text(answer.to_owned())], failed }],
            observations: vec![(0, vec![Part::Text("seen".to_owned())]), (7, vec![Part::Text("hidden".to_owned())])],
            rewards: vec![0.5],
            ending: None,
            extras: vec![],
            failures: vec![],
            next_seat: 0,
            score: None,
        }
    }

    fn json_of(called: ToolCallResult) -> Json {
        serde_json::to_value(called.unwrap()).unwrap()
    }

    #[test]
    fn a_result_has_what_the_agent_sees_and_no_reward() {
        let json = json_of(stepped(&step(r#"{"sum":3}"#, None)));
        let texts: Vec<_> = json["content"].as_array().unwrap().iter().map(|block| &block["text"]).collect();
        assert_eq!(texts, [&json!(r#"{"sum":3}"#), &json!("seen")]);
        assert_eq!(json["structuredContent"], json!({ "sum": 3 }));
        assert_eq!(json["_meta"], json!({ "turn": 4, "seat": 0, "done": false }));
        assert!(!json.to_string().contains("reward") && !json.to_string().contains("0.5"));
    }

    #[test]
    fn a_failed_call_is_an_error_of_the_tool_with_its_owner() {
        let json = json_of(stepped(&step("broken", Some(Owner::Tool))));
        assert_eq!((&json["isError"], &json["_meta"]["owner"]), (&json!(true), &json!("tool")));
        let fatal = TurnAnswer { ending: Some(Ending::EnvironmentFailed), ..step("x", None) };
        assert!(fatal.fatal().is_none(), "without a failure no party is at fault");
    }

    #[test]
    fn only_the_hosts_failures_are_errors_of_the_protocol() {
        let agents = ServeError::agent(ErrorKind::OutOfOrder, "too late");
        let json = json_of(failed(&agents));
        assert_eq!(json["isError"], true);
        assert_eq!(json["_meta"], json!({ "kind": "out-of-order", "owner": "agent" }));
        let full = failed(&ServeError::host(ErrorKind::Full, "no place")).unwrap_err();
        assert_eq!((full.code.0, full.data), (-32603, Some(json!({ "kind": "full", "owner": "host" }))));
    }

    #[test]
    fn media_keep_their_bytes() {
        let media = |mime: &str| Media { mime: mime.to_owned(), bytes: vec![1] };
        let content = vec![
            Part::Text(String::new()),
            Part::Image(media("image/png")),
            Part::Audio(media("audio/wav")),
            Part::Other(media("application/pdf")),
        ];
        let json = serde_json::to_value(blocks([&content])).unwrap();
        assert_eq!(json[0], json!({ "type": "image", "data": "AQ==", "mimeType": "image/png" }));
        assert_eq!(json[1], json!({ "type": "audio", "data": "AQ==", "mimeType": "audio/wav" }));
        assert_eq!(json[2]["resource"]["blob"], "AQ==");
        assert!(json[2]["resource"]["uri"].as_str().unwrap().starts_with("urn:sha256:"));
    }
}
