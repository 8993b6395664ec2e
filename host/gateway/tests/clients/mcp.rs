//! The tools of a session by MCP, with requests by hand: both revisions, errors, and calls beside the policy's.

use std::time::Duration;

use gymkhana_record::Turn;
use reqwest::StatusCode;
use serde_json::{Value as Json, json};

use crate::served::{Place, client, serve};

const ACCEPT: &str = "application/json, text/event-stream";

struct Answer {
    status: StatusCode,
    body: Json,
}

async fn post(url: &str, headers: &[(&str, &str)], body: &Json) -> Answer {
    let request = client().post(url).header("content-type", "application/json").header("accept", ACCEPT);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = request.body(body.to_string()).send().await.expect("an answer");
    let status = response.status();
    let text = response.text().await.expect("a body");
    Answer { status, body: serde_json::from_str(&text).unwrap_or(Json::String(text)) }
}

fn rpc(method: &str, params: &Json) -> Json {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// Parameters of the newest revision, in which each request stands for itself.
fn modern(mut params: Json) -> Json {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn both_revisions_list_and_call() {
    let ((), outcome) = serve(Duration::ZERO, |Place { mcp, .. }| async move {
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let begun = post(&mcp, &[], &rpc("initialize", &hello)).await.body;
        assert_eq!(begun["result"]["protocolVersion"], "2025-06-18", "{begun}");
        assert_eq!(begun["result"]["serverInfo"]["name"], "gymkhana");
        let old = [("mcp-protocol-version", "2025-06-18")];
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(post(&mcp, &old, &done).await.status, StatusCode::ACCEPTED);
        let listed = post(&mcp, &old, &rpc("tools/list", &json!({}))).await.body;
        assert_eq!(listed["result"]["tools"][0]["name"], "add");
        assert_eq!(listed["result"]["tools"][0]["inputSchema"]["required"], json!(["a", "b"]));
        let add = json!({"name": "add", "arguments": {"a": 2, "b": 2}});
        let called = post(&mcp, &old, &rpc("tools/call", &add)).await.body;
        assert_eq!((&called["id"], &called["result"]["content"][0]["text"]), (&json!(7), &json!("4")), "{called}");

        let new = |method| [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        let found = post(&mcp, &new("server/discover"), &rpc("server/discover", &modern(json!({})))).await.body;
        assert!(found["result"]["capabilities"]["tools"].is_object(), "{found}");
        let listed = post(&mcp, &new("tools/list"), &rpc("tools/list", &modern(json!({})))).await.body;
        assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
        let headers = [new("tools/call")[0], new("tools/call")[1], ("mcp-name", "add")];
        let called = post(&mcp, &headers, &rpc("tools/call", &modern(add))).await.body;
        assert_eq!(called["result"]["content"][0]["text"], "4", "{called}");
    })
    .await;
    assert_eq!(outcome.calls.len(), 2);
    assert_eq!(outcome.transcript.len(), 4, "two calls and their answers");
}

#[tokio::test]
async fn wrong_requests_are_errors_of_the_protocol_and_failed_calls_are_results() {
    let ((), outcome) = serve(Duration::ZERO, |Place { mcp, .. }| async move {
        let failed = post(&mcp, &[], &rpc("tools/call", &json!({"name": "sub", "arguments": {}}))).await.body;
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let unknown = post(&mcp, &[], &rpc("no/such", &json!({}))).await.body;
        assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
        let wrong = post(&mcp, &[], &rpc("tools/call", &json!({"name": 7}))).await;
        assert!(wrong.status.is_client_error() || wrong.body["error"].is_object(), "{}", wrong.body);
        let page = post(&mcp, &[("origin", "http://example.org")], &rpc("tools/list", &json!({}))).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        let other = post(&mcp, &[("host", "example.org")], &rpc("tools/list", &json!({}))).await;
        assert_eq!(other.status, StatusCode::FORBIDDEN);
        for url in [format!("{mcp}0"), mcp[..mcp.len() - 1].to_owned(), mcp.replace("/s/", "/s/0")] {
            let answer = post(&url, &[], &rpc("tools/list", &json!({}))).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{url}");
            assert!(answer.body["error"]["message"].as_str().is_some_and(|text| text.contains("GYMKHANA_MCP_URL")));
        }
        let large = json!("x".repeat(5 << 20));
        assert_eq!(post(&mcp, &[], &large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    })
    .await;
    assert_eq!((outcome.calls.len(), outcome.policy_turns.len()), (1, 0));
}

#[tokio::test]
async fn a_call_of_the_policy_that_is_passed_on_is_recorded_once() {
    let ((), outcome) = serve(Duration::ZERO, |Place { mcp, openai, key, .. }| async move {
        let tool = json!({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}});
        let mut messages = vec![json!({"role": "user", "content": "Add 2 and 2."})];
        let ask = |messages: &[Json]| {
            let body = json!({"model": "policy", "messages": messages, "tools": [tool]}).to_string();
            let request = client().post(format!("{openai}/chat/completions")).bearer_auth(&key).body(body);
            async move {
                let text = request.send().await.expect("an answer").text().await.expect("a body");
                serde_json::from_str::<Json>(&text).expect("JSON")["choices"][0]["message"].clone()
            }
        };
        let reply = ask(&messages).await;
        let call = reply["tool_calls"][0].clone();
        messages.push(reply);
        // The client of MCP writes the arguments in another way.
        let add = json!({"name": "add", "arguments": {"b": 2, "a": 2}});
        let answer = post(&mcp, &[], &rpc("tools/call", &add)).await.body;
        let text = &answer["result"]["content"][0]["text"];
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": format!("The tool says {text}.")}));
        ask(&messages).await;
    })
    .await;
    let [call] = &outcome.calls[..] else { panic!("{} calls", outcome.calls.len()) };
    assert!(call.listed);
    assert_eq!(call.call.name, "add");
    let kinds: Vec<&str> = outcome
        .transcript
        .iter()
        .map(|turn| match turn {
            Turn::Observation { .. } => "observation",
            Turn::Call { call: of_policy, cost, .. } => {
                // The cost is the tool's.
                assert_eq!((&of_policy.id, *cost), (&call.call.id, 0.5));
                "call"
            }
            Turn::Answer { content, .. } => {
                assert_eq!(gymkhana_record::text_of(content), "4", "the tool's own answer");
                "answer"
            }
            Turn::Thought { .. } => "thought",
            Turn::Message { .. } => "message",
            Turn::MalformedCall { .. } => "malformed",
        })
        .collect();
    assert_eq!(kinds, ["observation", "call", "answer", "message"]);
}
