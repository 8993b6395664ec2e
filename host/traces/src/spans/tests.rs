//! Spans of a small record, with expectations by hand.

use gymkhana_record::{Boundary, CallCost, CallSite, Cost, EpisodeRecord, Timing};
use serde_json::{Map, Value as Json, json};

use crate::TraceFormat;
use crate::tests::{about, only_of, record};

/// The record with times: two replies in 4 ms, a call in 50 microseconds, 10 ms in all.
fn timed() -> EpisodeRecord {
    let cost = Cost { running_us: 50.0, ..Cost::default() };
    let at = Boundary::Tool("calculator".to_owned());
    EpisodeRecord {
        timing: Timing { total_ms: 10.0, policy_ms: 4.0, ..Timing::default() },
        costs: vec![CallCost { at, call_site: CallSite::tool("c-0"), cost }],
        ..record()
    }
}

fn spans(format: TraceFormat) -> Vec<Json> {
    let request = only_of(&timed(), format);
    let resource = &request["resourceSpans"][0];
    assert_eq!(
        resource["resource"]["attributes"],
        json!([{"key": "service.name", "value": {"stringValue": "my_agent.py"}}])
    );
    resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

/// Attributes by name. Texts of JSON are parsed.
fn attributes(span: &Json) -> Map<String, Json> {
    let own = span["attributes"].as_array().unwrap().iter();
    let value = |attribute: &Json| {
        let value = attribute["value"].as_object().unwrap().values().next().unwrap().clone();
        let parsed = value.as_str().filter(|text| text.starts_with(['[', '{'])).map(serde_json::from_str::<Json>);
        parsed.and_then(Result::ok).unwrap_or(value)
    };
    own.map(|attribute| (attribute["key"].as_str().unwrap().to_owned(), value(attribute))).collect()
}

/// Names and times from the beginning, in microseconds.
fn timeline(spans: &[Json]) -> Vec<(&str, u64, u64)> {
    let at = |span: &Json, key: &str| (span[key].as_str().unwrap().parse::<u64>().unwrap() - about().begun_ns) / 1000;
    let of = |span| (at(span, "startTimeUnixNano"), at(span, "endTimeUnixNano"));
    spans.iter().map(|span| (span["name"].as_str().unwrap(), of(span).0, of(span).1)).collect()
}

#[test]
fn spans_are_a_tree_whose_parts_follow_one_another() {
    let spans = spans(TraceFormat::GenAi);
    assert_eq!(
        timeline(&spans),
        [
            ("invoke_agent my_agent.py", 0, 10_000),
            ("chat policy", 0, 2000),
            ("execute_tool add", 2000, 2050),
            ("chat policy", 2050, 4050),
            ("execute_tool add", 4050, 4050),
        ]
    );
    let root = &spans[0]["spanId"];
    assert!(spans[0].get("parentSpanId").is_none() && spans[1..].iter().all(|span| span["parentSpanId"] == *root));
    let ids: std::collections::BTreeSet<&str> = spans.iter().filter_map(|span| span["spanId"].as_str()).collect();
    assert!(ids.len() == 5 && ids.iter().all(|id| id.len() == 16));
    let trace = spans[0]["traceId"].as_str().unwrap();
    assert!(trace.len() == 32 && spans.iter().all(|span| span["traceId"] == trace));
    // The same episode has the same ids, in each format, and the one of another run has others.
    assert_eq!(spans[0]["traceId"], self::spans(TraceFormat::OpenInference)[0]["traceId"]);
    let later = crate::About { begun_ns: 1, ..about() };
    let other = crate::traces(&timed(), &later, TraceFormat::GenAi).unwrap();
    assert!(!other[0].contains(trace));
}

#[test]
fn attributes_follow_the_conventions_for_generative_ai() {
    let spans = spans(TraceFormat::GenAi);
    let root = attributes(&spans[0]);
    let common = json!({
        "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "gymkhana", "gen_ai.agent.name": "my_agent.py",
        "gen_ai.conversation.id": "0.train.2.1.0.0", "gen_ai.request.model": "policy", "gymkhana.task": "train/5",
        "gymkhana.seat": "0", "gymkhana.success": true, "gymkhana.ending": "terminated", "gymkhana.reward": 0.75,
    });
    assert_eq!(Json::Object(root), common);
    let call = json!({"type": "tool_call", "id": "c-0", "name": "add", "arguments": {"a": 2}});
    let first = json!({"role": "assistant", "parts": [{"type": "text", "content": "I add.\n{"}, call]});
    let mut output = first.clone();
    output["finish_reason"] = "tool_call".into();
    let question = json!({"role": "user", "parts": [{"type": "text", "content": "2 + 2?"}]});
    assert_eq!(
        Json::Object(attributes(&spans[1])),
        json!({
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "gymkhana",
            "gen_ai.conversation.id": "0.train.2.1.0.0", "gen_ai.request.model": "policy",
            "gen_ai.response.finish_reasons": {"values": [{"stringValue": "tool_call"}]},
            "gen_ai.input.messages": [question], "gen_ai.output.messages": [output],
            "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
            "gen_ai.tool.definitions":
                [{"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
            "gen_ai.usage.input_tokens": "3", "gen_ai.usage.output_tokens": "2", "gymkhana.weight_version": "3",
        })
    );
    let answer = |id: &str, text: &str| json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": text}]});
    let second = attributes(&spans[3]);
    let user = json!({"role": "user", "parts": [{"type": "text", "content": "not JSON"}]});
    let heard = json!([question, first, answer("c-0", "4"), user]);
    assert_eq!(second["gen_ai.input.messages"], heard);
    assert_eq!(
        Json::Object(attributes(&spans[2])),
        json!({
            "gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": "0.train.2.1.0.0",
            "gen_ai.tool.name": "add", "gen_ai.tool.type": "function", "gen_ai.tool.description": "Adds.",
            "gen_ai.tool.call.id": "c-0", "gen_ai.tool.call.arguments": {"a": 2}, "gen_ai.tool.call.result": "4",
        })
    );
}

#[test]
fn attributes_follow_openinference() {
    let spans = spans(TraceFormat::OpenInference);
    let kinds: Vec<Json> = spans.iter().map(|span| attributes(span)["openinference.span.kind"].clone()).collect();
    assert_eq!(kinds, ["AGENT", "LLM", "TOOL", "LLM", "TOOL"]);
    let root = attributes(&spans[0]);
    assert_eq!((&root["input.value"], &root["output.value"]), (&json!("2 + 2?"), &json!("Four.")));
    let figures = json!({"task": "train/5", "seat": 0, "success": true, "ending": "terminated", "reward": 0.75});
    assert_eq!(root["metadata"], figures);
    let reply = attributes(&spans[3]);
    for (key, value) in [
        ("session.id", json!("0.train.2.1.0.0")),
        ("llm.model_name", json!("policy")),
        ("llm.input_messages.0.message.role", json!("system")),
        ("llm.input_messages.1.message.content", json!("2 + 2?")),
        ("llm.input_messages.2.message.tool_calls.0.tool_call.id", json!("c-0")),
        ("llm.input_messages.2.message.tool_calls.0.tool_call.function.name", json!("add")),
        ("llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments", json!({"a": 2})),
        ("llm.input_messages.3.message.role", json!("tool")),
        ("llm.input_messages.3.message.tool_call_id", json!("c-0")),
        ("llm.output_messages.0.message.content", json!("4")),
        ("llm.tools.0.tool.name", json!("add")),
        ("llm.token_count.prompt", json!("2")),
        ("llm.token_count.completion", json!("1")),
        ("llm.token_count.total", json!("3")),
    ] {
        assert_eq!(reply[key], value, "{key}");
    }
    let tool = attributes(&spans[2]);
    assert_eq!((&tool["tool.name"], &tool["output.value"]), (&json!("add"), &json!("4")));
}

#[test]
fn failures_are_the_status_of_their_spans() {
    let mut record = timed();
    for turn in &mut record.turns {
        if let gymkhana_record::Turn::Answer { id, failed, .. } = turn {
            *failed = id == "c-0";
        }
    }
    let request = only_of(&record, TraceFormat::GenAi);
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!(spans[2]["status"], json!({"code": 2, "message": "4"}));
    assert_eq!(attributes(&spans[2])["error.type"], "tool_error");
    assert!(spans[1].get("status").is_none() && spans[4].get("status").is_none());
}
