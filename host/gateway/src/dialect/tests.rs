//! Tests of the three protocols without a server.

use gymkhana_chat::Role;
use serde_json::{Value as Json, json};

use super::*;

const ALL: [Dialect; 3] = [Dialect::ChatCompletions, Dialect::Responses, Dialect::Messages];

fn parse(dialect: Dialect, body: &Json) -> ReplyRequest {
    dialect.parse(body.to_string().as_bytes()).unwrap()
}

/// The same conversation with a call, as each protocol writes it.
fn conversation(dialect: Dialect) -> Json {
    match dialect {
        Dialect::ChatCompletions => json!({
            "model": "policy", "max_completion_tokens": 9, "stop": "END", "temperature": 0.5,
            "tools": [{"type": "function", "function": {
                "name": "f", "description": "adds", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "1+"}, {"type": "text", "text": "1"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "2"},
            ],
        }),
        Dialect::Responses => json!({
            "model": "policy", "max_output_tokens": 9, "instructions": "Be brief.", "temperature": 0.5,
            "tools": [{"type": "function", "name": "f", "description": "adds", "parameters": {"type": "object"}}],
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "1+1"}]},
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "2"},
            ],
        }),
        Dialect::Messages => json!({
            "model": "policy", "max_tokens": 9, "stop_sequences": ["END"], "temperature": 0.5,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "f", "description": "adds", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": "1+1"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "…", "signature": ""},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "2"}]},
            ],
        }),
    }
}

#[test]
fn one_conversation_has_one_form() {
    for dialect in ALL {
        let request = parse(dialect, &conversation(dialect));
        let call = InputCall { id: Some("c1".to_owned()), name: "f".to_owned(), arguments: "{\"x\":1}".to_owned() };
        let reasoning = (dialect == Dialect::Messages).then(|| "…".to_owned());
        let expected = [
            InputMessage::of_text(Role::System, "Be brief."),
            InputMessage::of_text(Role::User, "1+1"),
            InputMessage { calls: vec![call], reasoning, ..InputMessage::of_text(Role::Assistant, "") },
            InputMessage { call_id: Some("c1".to_owned()), ..InputMessage::of_text(Role::Tool, "2") },
        ];
        assert_eq!(request.messages, expected, "{dialect:?}");
        assert_eq!(request.functions[0].parameters, "{\"type\":\"object\"}");
        assert_eq!((request.max_tokens, request.sampling.temperature), (Some(9), Some(0.5)));
        assert_eq!(request.stop, if dialect == Dialect::Responses { vec![] } else { vec!["END"] });
        assert!(request.reads_calls && !request.stream);
    }
}

#[test]
fn reasoning_of_the_history_is_read() {
    let asked = json!({"role": "user", "content": "a"});
    let bodies = [
        (
            Dialect::ChatCompletions,
            json!({"model": "policy", "messages": [
            asked, {"role": "assistant", "content": "one", "reasoning_content": "because"}, asked]}),
        ),
        (
            Dialect::ChatCompletions,
            json!({"model": "policy", "messages": [
            asked, {"role": "assistant", "content": "one", "reasoning": "because"}, asked]}),
        ),
        (
            Dialect::Responses,
            json!({"model": "policy", "input": [
            asked,
            {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "because"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "one"}]},
            asked]}),
        ),
        (
            Dialect::Messages,
            json!({"model": "policy", "max_tokens": 9, "messages": [
            asked, {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "because", "signature": ""}, {"type": "text", "text": "one"}]},
            asked]}),
        ),
    ];
    for (dialect, body) in bodies {
        let message = &parse(dialect, &body).messages[1];
        assert_eq!((message.reasoning.as_deref(), message.text.as_str()), (Some("because"), "one"), "{body}");
    }
}

#[test]
fn a_top_k_of_minus_one_disables_the_cut() {
    for dialect in ALL {
        let body = |top_k: Json| {
            let mut body = conversation(dialect);
            body["top_k"] = top_k;
            body
        };
        for (top_k, kept) in [(json!(-1), Some(0)), (json!(0), Some(0)), (json!(7), Some(7)), (Json::Null, None)] {
            assert_eq!(parse(dialect, &body(top_k)).sampling.top_k, kept, "{dialect:?}");
        }
        for wrong in [json!(-2), json!(1.5), json!("-1")] {
            let error = dialect.parse(body(wrong).to_string().as_bytes()).unwrap_err();
            assert!(error.message.contains("must be a whole number from -1 up"), "{error}");
        }
    }
}

/// Malformed and unsupported requests, with the field that the error names.
#[test]
fn errors_name_the_field_in_the_protocols_form() {
    let text = |dialect, edit: fn(&mut Json)| {
        let mut body = conversation(dialect);
        edit(&mut body);
        dialect.parse(body.to_string().as_bytes()).unwrap_err()
    };
    let (chat, responses, messages) = (Dialect::ChatCompletions, Dialect::Responses, Dialect::Messages);
    for (error, field) in [
        (
            text(chat, |body| body["messages"][1]["content"][0] = json!({"type": "image_url", "image_url": {}})),
            "messages[1].content[0]",
        ),
        (text(chat, |body| body["messages"][3]["role"] = "robot".into()), "messages[3].role"),
        (text(chat, |body| body["messages"] = "hello".into()), "messages"),
        (text(chat, |body| body["n"] = 2.into()), "n"),
        (text(chat, |body| body["response_format"] = json!({"type": "json_object"})), "response_format"),
        (text(chat, |body| body["tool_choice"] = "always".into()), "tool_choice"),
        (text(chat, |body| body["temperature"] = "hot".into()), "temperature"),
        (text(chat, |body| drop(body.as_object_mut().unwrap().remove("model"))), "model"),
        (text(responses, |body| body["input"][0]["content"][0]["type"] = "input_image".into()), "input[0].content[0]"),
        (text(responses, |body| body["tools"][0]["type"] = "web_search".into()), "tools[0].type"),
        (text(messages, |body| drop(body.as_object_mut().unwrap().remove("max_tokens"))), "max_tokens"),
        (text(messages, |body| body["messages"][2]["content"][0]["type"] = "image".into()), "messages[2].content[0]"),
    ] {
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
        assert_eq!(error.status(), 400);
    }
    let error = chat.parse(b"{\"model\": ").unwrap_err();
    assert!(error.message.contains("not a JSON object"), "{error}");
    let openai = chat.error(&text(chat, |body| body["n"] = 2.into()));
    assert_eq!((&openai["error"]["type"], &openai["error"]["param"]), (&json!("invalid_request_error"), &json!("n")));
    let anthropic = messages.error(&error);
    assert_eq!((&anthropic["type"], &anthropic["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
}

fn reply() -> PolicyReply {
    let call = ReplyCall { id: "call_1".to_owned(), name: "f".to_owned(), arguments: "{\"x\": 1}".to_owned() };
    PolicyReply {
        id: "7".to_owned(),
        model: "policy".to_owned(),
        created: 1,
        reasoning: None,
        text: "grüße ".repeat(12),
        calls: vec![call],
        finish: Finish::Calls,
        usage: TokenCounts { prompt: 10, cached: 4, sampled: 3 },
        log_probs: None,
        stream_usage: true,
    }
}

/// The data of a stream's events.
fn data(events: &[SseEvent]) -> Vec<Json> {
    let lines = events.iter().flat_map(|event| event.text().lines());
    lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

#[test]
fn a_stream_holds_what_the_whole_answer_holds() {
    let reply = reply();
    let joined = |events: &[Json], pointer: &str| -> String {
        events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
    };
    let chat = data(&Dialect::ChatCompletions.stream(&reply));
    assert_eq!(joined(&chat, "/choices/0/delta/content"), reply.text);
    assert_eq!(joined(&chat, "/choices/0/delta/tool_calls/0/function/arguments"), reply.calls[0].arguments);
    assert_eq!(joined(&chat, "/choices/0/finish_reason"), "tool_calls");
    assert_eq!(chat.last().unwrap()["usage"]["total_tokens"], 13);
    let responses = data(&Dialect::Responses.stream(&reply));
    let deltas = |kind: &str| -> String {
        responses.iter().filter(|event| event["type"] == kind).filter_map(|event| event["delta"].as_str()).collect()
    };
    assert_eq!(deltas("response.output_text.delta"), reply.text);
    assert_eq!(deltas("response.function_call_arguments.delta"), reply.calls[0].arguments);
    let last = responses.last().unwrap();
    assert_eq!((&last["type"], &last["response"]), (&json!("response.completed"), &Dialect::Responses.reply(&reply)));
    for (number, event) in responses.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let messages = data(&Dialect::Messages.stream(&reply));
    assert_eq!(joined(&messages, "/delta/text"), reply.text);
    assert_eq!(joined(&messages, "/delta/partial_json"), reply.calls[0].arguments);
    let whole = Dialect::Messages.reply(&reply);
    assert_eq!(whole["content"][1]["input"], json!({"x": 1}));
    assert_eq!((&whole["stop_reason"], &whole["usage"]["input_tokens"]), (&json!("tool_use"), &json!(6)));
}

#[test]
fn very_many_values_are_refused_before_they_are_made() {
    let body = |count: usize| format!("{{\"model\":\"m\",\"messages\":[{}0]}}", "{\"\":0},".repeat(count));
    let error = Dialect::ChatCompletions.parse(body(100_000).as_bytes()).unwrap_err();
    assert!(error.class == ErrorClass::TooLarge && error.message.contains("more than 262144 JSON values"), "{error}");
    let error = Dialect::ChatCompletions.parse(body(1_000).as_bytes()).unwrap_err();
    assert!(error.message.contains("`messages[0].role` is missing"), "{error}");
    let text = json!({"model": "m", "messages": [{"role": "user", "content": "{a:[b,c]}".repeat(100_000)}]});
    assert!(Dialect::ChatCompletions.parse(text.to_string().as_bytes()).is_ok(), "signs within texts are not counted");
}
