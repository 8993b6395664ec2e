//! Bad input is answered in the protocol's own form and disturbs no other session.

use serde_json::{Value as Json, json};

use super::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openenv_answers_each_mistake_with_its_code() {
    let server = Server::start().await;
    let mut other = server.connect("/ws").await;
    let begun = other.send("reset", json!({ "seed": 1, "episode_id": "mine" })).await;
    assert_eq!(begun["type"], "observation");
    let mut socket = server.connect("/ws").await;
    let early = socket.send("step", json!({ "text": "left" })).await;
    assert_eq!(early["data"]["code"], "EXECUTION_ERROR", "{early}");
    let mistakes = [
        ("{", "INVALID_JSON"),
        ("[1]", "UNKNOWN_TYPE"),
        (r#"{"type":"fly"}"#, "UNKNOWN_TYPE"),
        (r#"{"type":"step","data":{"words":"left"}}"#, "VALIDATION_ERROR"),
        (r#"{"type":"reset","data":{"seed":"one"}}"#, "VALIDATION_ERROR"),
        (r#"{"type":"reset","data":{"split":"exam"}}"#, "VALIDATION_ERROR"),
        (r#"{"type":"reset","data":{"options":{"depth":1}}}"#, "VALIDATION_ERROR"),
    ];
    for (sent, code) in mistakes {
        let answer = socket.ask(sent).await;
        assert_eq!((&answer["type"], &answer["data"]["code"]), (&json!("error"), &json!(code)), "{sent}: {answer}");
    }
    let large = socket.send("step", json!({ "text": "a".repeat(4 << 20) })).await;
    assert_eq!(large["data"]["code"], "VALIDATION_ERROR", "{large}");
    let unknown = server.connect("/ws?session_id=00").await.ask(r#"{"type":"state"}"#).await;
    assert_eq!(unknown["data"]["code"], "SESSION_ERROR");
    let state = other.ask(r#"{"type":"state"}"#).await;
    assert_eq!((&state["data"]["episode_id"], &state["data"]["step_count"]), (&json!("mine"), &json!(0)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_over_json_rpc_live_until_they_are_closed() {
    let server = Server::start().await;
    let rpc = async |method: &str, params: Json| {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": 1 }).to_string();
        let (status, answer) = server.post("/mcp", "", &body).await;
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Json>(&answer).unwrap()
    };
    let made = rpc("openenv/session/create", json!({})).await;
    let id = &made["result"]["session_id"];
    let call =
        |expression: &str| json!({ "session_id": id, "name": "calculate", "arguments": { "expression": expression } });
    let answer = rpc("tools/call", call("6*7")).await;
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{answer}");
    let failed = rpc("tools/call", call("6*")).await;
    assert_eq!((&failed["error"]["code"], &failed["error"]["data"]["owner"]), (&json!(-32603), &json!("agent")));
    let mut socket = server.connect(&format!("/ws?session_id={}", id.as_str().unwrap())).await;
    assert_eq!(socket.ask(r#"{"type":"state"}"#).await["data"]["step_count"], 2);
    assert_eq!(rpc("openenv/session/close", json!({ "session_id": id })).await["result"]["closed"], true);
    assert_eq!(rpc("tools/call", call("1")).await["error"]["code"], -32602);
    let alone = rpc("tools/call", json!({ "name": "calculate", "arguments": { "expression": "1+1" } })).await;
    assert!(alone["result"]["data"].to_string().contains('2'), "{alone}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ors_answers_each_mistake_with_a_status_or_a_reason() {
    let server = Server::start().await;
    let task = json!({ "split": "train", "index": 2 }).to_string();
    assert_eq!(server.post("/create", "a", &task).await.0, 200);
    let statuses = [
        ("/create", "a", task.as_str(), 400),
        ("/create", "b", "{", 422),
        ("/create", "b", r#"{"split":"exam","index":0}"#, 404),
        ("/create", "b", r#"{"task_spec":{},"split":"train","index":0}"#, 422),
        ("/create", "", task.as_str(), 400),
        ("/call", "b", r#"{"name":"say","input":{"text":"up"}}"#, 404),
        ("/call", "a", r#"{"name":"say","input":"up"}"#, 422),
        ("/ping", "b", "", 404),
        ("/task", "", r#"{"split":"exam","index":0}"#, 400),
        ("/atlantis/task", "", r#"{"split":"train","index":0}"#, 404),
        ("/tasks", "", r#"{"split":"train"}"#, 400),
        ("/score_group", "a", r#"{"candidates":[{"messages":[]}]}"#, 422),
    ];
    for (path, session, body, status) in statuses {
        let (answered, text) = server.post(path, session, body).await;
        assert_eq!(answered, status, "{path} {body}: {text}");
        assert!(serde_json::from_str::<Json>(&text).unwrap().get("detail").is_some(), "{text}");
    }
    let reasons = [
        (json!({ "name": "fly", "input": {} }), "not_found"),
        (json!({ "name": "say", "input": { "words": "up" } }), "input_validation"),
    ];
    for (call, reason) in reasons {
        let refused = server.called("a", &call).await;
        assert_eq!((&refused["ok"], &refused["reason"]), (&json!(false), &json!(reason)), "{refused}");
    }
    let moved = server.called("a", &json!({ "name": "say", "input": { "text": "up" } })).await;
    assert_eq!(moved["ok"], true, "{moved}");
    assert_eq!(server.post("/delete", "a", "").await.0, 200);
    assert_eq!(server.post("/ping", "a", "").await.0, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_call_is_not_made_twice() {
    let server = Server::start().await;
    let task = json!({ "split": "train", "index": 2 }).to_string();
    assert_eq!(server.post("/create", "a", &task).await.0, 200);
    let mut call = json!({ "name": "say", "input": { "text": "up" } });
    let (_, first) = server.post("/frozen-lake/call", "a", &call.to_string()).await;
    let id = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    call["task_id"] = json!(id);
    assert_eq!(server.post("/frozen-lake/call", "a", &call.to_string()).await.1, first);
    assert_eq!(server.post("/create", "b", &task).await.0, 200);
    let (_, foreign) = server.post("/call", "b", &call.to_string()).await;
    assert!(foreign.contains("event: error") && foreign.contains("unknown task_id"), "{foreign}");
    server.stop().await;
}
