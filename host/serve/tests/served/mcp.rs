//! MCP: the same bytes and rewards as in this process in each shape, repeated turns, records, and both revisions.

use std::net::SocketAddr;

use gymkhana_serve::endpoints::mcp::{VisibleTools, serve as serve_stdio};
use gymkhana_store::RunReader;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::common::{Served, head, mcp, mcp_head, post, request, serve, serve_in};
use crate::same_bytes::{ACTIONS, expression, in_process, shown};

const CONFIG: &str = "[environments.frozen-lake]\noptions = { slippery = true }\n";
const PLUGINS: [&str; 2] = ["frozen-lake", "calculator"];
const TASKS: [(u64, u64); 3] = [(7, 3), (8, 3), (9, 11)];

/// Opens an episode for an agent; returns the trainer's id and the agent's path.
async fn open(served: &Served, seed: u64, index: u64) -> (String, String, Json) {
    let body = json!({ "environment": "frozen-lake", "split": "train", "task": index, "seed": seed });
    let (status, opened) = post(served.address, "/mcp/episodes", &body.to_string()).await;
    assert_eq!(status, 201, "{opened}");
    let text = |name: &str| opened[name].as_str().unwrap().to_owned();
    (text("episode"), text("mcp"), opened)
}

/// Calls a tool; returns the result.
async fn call(address: SocketAddr, path: &str, name: &str, arguments: Json) -> Json {
    let (status, answer) = mcp(address, path, "", "tools/call", json!({ "name": name, "arguments": arguments })).await;
    assert_eq!(status, 200, "{answer}");
    answer["result"].clone()
}

fn text(result: &Json) -> String {
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{result}")).iter();
    blocks.map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_tools_change_no_byte_and_hide_rewards() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve_in(Some(&folder), &PLUGINS, CONFIG).await;
    let mut expected = Vec::new();
    for (seed, index) in TASKS {
        let (turns, rewards) = in_process(seed, index).await;
        let (id, path, opened) = open(&served, seed, index).await;
        assert_eq!(text(&call(served.address, &path, "observe", json!({})).await), opened["text"]);
        let mut seen = vec![opened["text"].as_str().unwrap().to_owned()];
        for action in ACTIONS {
            let result = match expression(action) {
                Some(expression) => call(served.address, &path, "calculate", json!({ "expression": expression })).await,
                None => call(served.address, &path, "say", json!({ "text": action })).await,
            };
            assert!(!result.to_string().contains("reward"), "{result}");
            seen.push(text(&result));
            if result["_meta"]["done"] == true {
                break;
            }
        }
        assert_eq!(seen, shown(&turns), "seed {seed}");
        let (_, status) = request(served.address, &head("GET", &format!("/mcp/episodes/{id}"), 0, ""), b"").await;
        assert_eq!(status["rewards"][0].as_f64(), Some(rewards[0].rewards.iter().sum::<f64>()), "{status}");
        let (_, closed) = request(served.address, &head("DELETE", &format!("/mcp/episodes/{id}"), 0, ""), b"").await;
        assert_eq!((&closed["rewards"], closed["record"].is_string()), (&status["rewards"], true), "{closed}");
        let (status, gone) = mcp(served.address, &path, "", "tools/list", json!({})).await;
        assert_eq!((status, &gone["error"]["data"]["kind"]), (404, &json!("unknown-session")));
        expected.push((turns, rewards));
    }
    served.stop().await;
    let run = RunReader::open(&folder.path().join("frozen-lake")).unwrap();
    let records: Vec<_> = run.episodes().unwrap().read_all().map(Result::unwrap).collect();
    let recorded: Vec<_> = records.into_iter().map(|record| (record.turns, record.environment_rewards)).collect();
    assert_eq!(recorded, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_change_no_byte_and_repeat_numbered_turns() {
    let served = serve(&PLUGINS, CONFIG).await;
    let at = "/handles/mcp";
    for (seed, index) in TASKS {
        let (turns, _) = in_process(seed, index).await;
        let arguments = json!({ "environment": "frozen-lake", "split": "train", "task": index, "seed": seed });
        let opened = call(served.address, at, "open", arguments).await["structuredContent"].take();
        let episode = opened["episode"].clone();
        let mut seen = vec![opened["text"].as_str().unwrap().to_owned()];
        for (turn, action) in ACTIONS.iter().enumerate() {
            let mut arguments = json!({ "episode": episode, "turn": turn });
            match expression(action) {
                Some(expression) => {
                    arguments["calls"] = json!([{ "name": "calculate", "arguments": { "expression": expression } }]);
                }
                None => arguments["text"] = json!(action),
            }
            let result = call(served.address, at, "act", arguments.clone()).await;
            assert_eq!(call(served.address, at, "act", arguments).await, result, "a repeated turn is answered again");
            seen.push(result["structuredContent"]["text"].as_str().unwrap().to_owned());
            if result["structuredContent"]["done"] == true {
                break;
            }
        }
        assert_eq!(seen, shown(&turns), "seed {seed}");
        let late = call(served.address, at, "act", json!({ "episode": episode, "text": "up" })).await;
        assert_eq!((&late["isError"], &late["_meta"]["kind"]), (&json!(true), &json!("out-of-order")));
        let closed = call(served.address, at, "close", json!({ "episode": episode })).await;
        assert_eq!(closed["isError"], false);
        let gone = call(served.address, at, "act", json!({ "episode": episode, "text": "up" })).await;
        assert_eq!(gone["_meta"], json!({ "kind": "unknown-session", "owner": "agent" }));
    }
    assert_eq!(served.sessions.counts().open, 0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_turns_with_a_number_are_taken_once() {
    let served = serve(&["guest-hostile-tool"], "").await;
    let (_, opened) = post(served.address, "/mcp/episodes", r#"{"seed": 5}"#).await;
    let path = opened["mcp"].as_str().unwrap();
    let state = async |turn: Option<u64>| {
        let meta = turn.map_or(json!({}), |turn| json!({ "turn": turn }));
        let params = json!({ "name": "state", "arguments": {}, "_meta": meta });
        mcp(served.address, path, "", "tools/call", params).await.1["result"].take()
    };
    assert_eq!(text(&state(Some(0)).await), "1");
    assert_eq!(text(&state(Some(0)).await), "1", "the repeated turn is not taken twice");
    assert_eq!(text(&state(None).await), "2");
    let wrong = state(Some(7)).await;
    assert_eq!((&wrong["isError"], &wrong["_meta"]["kind"]), (&json!(true), &json!("out-of-order")));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_revisions_have_one_fixed_list() {
    let served = serve(&PLUGINS, CONFIG).await;
    let (_, path, _) = open(&served, 1, 0).await;
    let (_, old) = mcp(served.address, &path, "", "tools/list", json!({})).await;
    let names = |tools: &Json| -> Vec<String> {
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&old["result"]["tools"]), ["calculate", "say", "observe"]);
    assert!(old["result"].get("resultType").is_none());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let ask = async |path: &str, method: &str, mut params: Json, name: &str| {
        params["_meta"] = meta.clone();
        let body = json!({ "jsonrpc": "2.0", "id": "a", "method": method, "params": params }).to_string();
        let more = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}");
        request(served.address, &mcp_head(path, body.len(), &more), body.as_bytes()).await
    };
    let (status, new) = ask(&path, "tools/list", json!({}), "").await;
    assert_eq!(
        (status, &new["result"]["resultType"], &new["result"]["cacheScope"]),
        (200, &json!("complete"), &json!("private"))
    );
    assert_eq!(new["result"]["tools"], old["result"]["tools"]);
    assert!(new["result"]["ttlMs"].as_u64().unwrap() > 0);
    let (_, found) = ask("/handles/mcp", "server/discover", json!({}), "").await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(["2025-11-25", "2026-07-28"].iter().all(|version| versions.contains(&json!(version))), "{found}");
    let (_, listed) = ask("/handles/mcp", "tools/list", json!({}), "").await;
    assert_eq!(names(&listed["result"]["tools"]), ["open", "act", "close"]);
    assert_eq!(listed["result"]["cacheScope"], "public");
    let said =
        ask(&path, "tools/call", json!({ "name": "say", "arguments": { "text": "nonsense" } }), "mcp-name: say\r\n");
    assert_eq!(said.await.1["result"]["isError"], false);
    let (status, wrong) =
        ask(&path, "tools/call", json!({ "name": "say", "arguments": {} }), "mcp-name: fly\r\n").await;
    assert_eq!((status, &wrong["error"]["code"]), (400, &json!(-32020)), "the header must name the tool");
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let (_, begun) = mcp(served.address, &path, "", "initialize", hello).await;
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_input_and_output_serve_one_client() {
    let served = serve(&PLUGINS, CONFIG).await;
    for (shape, expected) in [(VisibleTools::Plain, "observe"), (VisibleTools::Handles, "close")] {
        let (mine, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let sessions = served.sessions.clone();
        let serving = tokio::spawn(async move {
            serve_stdio(&sessions, shape, (input, output), 1 << 16, std::future::pending()).await
        });
        let (read, mut write) = tokio::io::split(mine);
        let mut lines = BufReader::new(read).lines();
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
        });
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let long = "x".repeat(1 << 17);
        for line in [
            hello.to_string(),
            "no JSON".to_owned(),
            r#"{"a":1}"#.to_owned(),
            long,
            ready.to_string(),
            list.to_string(),
        ] {
            write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
        let mut answers = Vec::new();
        while answers.len() < 5 {
            let line = lines.next_line().await.unwrap().unwrap();
            answers.push(serde_json::from_str::<Json>(&line).unwrap());
        }
        let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(of(1)["result"]["protocolVersion"], "2025-11-25");
        assert!(of(2)["result"]["tools"].to_string().contains(expected), "{answers:?}");
        assert!(answers.iter().any(|answer| answer["error"]["code"] == -32600), "{answers:?}");
        // One of the lines that is not JSON, and one of that which is too long.
        let unread: Vec<&Json> = answers.iter().filter(|answer| answer["error"]["code"] == -32700).collect();
        assert!(unread.len() == 2 && unread.iter().all(|answer| answer["id"] == Json::Null), "{answers:?}");
        drop((lines, write));
        assert_eq!(serving.await.unwrap(), Ok(()), "the end of the input ends the server");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_keep_their_type_and_bytes() {
    let served = serve(&["guest-mcp-fixtures"], "").await;
    let (_, opened) = post(served.address, "/mcp/episodes", "{}").await;
    let path = opened["mcp"].as_str().unwrap();
    let mixed = call(served.address, path, "test_multiple_content_types", json!({})).await;
    let kinds: Vec<&Json> = mixed["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource"]);
    assert_eq!(mixed["content"][1]["mimeType"], "image/png");
    assert_eq!(mixed["content"][2]["resource"]["mimeType"], "application/json");
    let (_, listed) = mcp(served.address, path, "", "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let schema = &tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool").unwrap()["inputSchema"];
    assert_eq!(schema["$defs"]["address"]["$anchor"], "addressDef");
    let failed = call(served.address, path, "test_error_handling", json!({})).await;
    assert_eq!((&failed["isError"], &failed["_meta"]["owner"]), (&json!(true), &json!("agent")));
    served.stop().await;
}
