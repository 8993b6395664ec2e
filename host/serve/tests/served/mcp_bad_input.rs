//! Hostile clients of MCP: each request is answered in the protocol's form and disturbs no other session.

use serde_json::{Value as Json, json};

use crate::common::{clients, head, mcp, mcp_head, post, request, serve};

const AT: &str = "/handles/mcp";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_messages_have_the_codes_of_json_rpc() {
    let served = serve(&["calculator"], "[listen]\nbody_kib = 64\n").await;
    let (_, opened) = post(served.address, "/mcp/episodes", "{}").await;
    let plain = opened["mcp"].as_str().unwrap().to_owned();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(100_000));
    for path in [AT, &plain] {
        for (body, status, code) in [
            ("", 400, -32700),
            ("{", 400, -32700),
            ("\u{0}\u{1}", 400, -32700),
            (deep.as_str(), 400, -32700),
            ("[]", 400, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, 400, -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, 200, -32601),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#, 200, -32602),
            (large.as_str(), 413, -32600),
        ] {
            let (answered, answer) = request(served.address, &mcp_head(path, body.len(), ""), body.as_bytes()).await;
            assert_eq!((answered, &answer["error"]["code"]), (status, &json!(code)), "{body:.60}: {answer}");
            assert_eq!(answer["jsonrpc"], "2.0");
        }
    }
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let bare = head("POST", AT, ping.len(), "content-type: application/json\r\naccept: text/html\r\n");
    assert_eq!(request(served.address, &bare, ping.as_bytes()).await.0, 406);
    for method in ["GET", "DELETE", "PUT"] {
        let (status, answer) =
            request(served.address, &head(method, AT, 0, "accept: text/event-stream\r\n"), b"").await;
        assert_eq!((status, &answer["error"]["code"]), (405, &json!(-32600)), "{method}: {answer}");
    }
    let old = mcp_head(AT, ping.len(), "mcp-protocol-version: 1999-01-01\r\n");
    let (status, answer) = request(served.address, &old, ping.as_bytes()).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32600)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("1999-01-01"), "{answer}");
    let (status, _) = request(served.address, &mcp_head(AT, ping.len(), ""), ping.as_bytes()).await;
    assert_eq!(status, 200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_of_agents_are_results_and_name_them() {
    let served = serve(&["frozen-lake", "guest-hostile-tool"], "").await;
    let call = async |path: &str, name: &str, arguments: Json| {
        mcp(served.address, path, "", "tools/call", json!({ "name": name, "arguments": arguments })).await.1
    };
    for (name, arguments, kind) in [
        ("open", json!({ "environment": "frozen-lak" }), "unknown-name"),
        ("open", json!({ "split": "exam" }), "unknown-name"),
        ("open", json!({ "task": 1.5 }), "bad-input"),
        ("open", json!({ "options": { "sise": 3 } }), "unknown-name"),
        ("open", json!({ "environment": "tools-only", "options": { "size": 3 } }), "bad-input"),
        ("open", json!({ "reward": 1 }), "bad-input"),
        ("act", json!({ "text": "up" }), "bad-input"),
        ("act", json!({ "episode": "0", "text": "up" }), "unknown-session"),
        ("act", json!({ "episode": "0".repeat(32), "text": "up" }), "unknown-session"),
        ("close", json!({ "episode": [] }), "bad-input"),
    ] {
        let result = call(AT, name, arguments.clone()).await["result"].take();
        assert_eq!(
            (&result["isError"], &result["_meta"]["kind"]),
            (&json!(true), &json!(kind)),
            "{arguments}: {result}"
        );
        assert_eq!(result["_meta"]["owner"], "agent");
    }
    let unknown = call(AT, "fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(served.sessions.counts().open, 0, "a session that did not begin is not left open");
    let (_, opened) = post(served.address, "/mcp/episodes", r#"{"environment":"tools-only"}"#).await;
    let path = opened["mcp"].as_str().unwrap();
    for (name, owner) in [("trap", "tool"), ("loop", "tool"), ("failed", "agent")] {
        let result = call(path, name, json!({})).await["result"].take();
        assert_eq!((&result["isError"], &result["_meta"]["owner"]), (&json!(true), &json!(owner)), "{name}: {result}");
    }
    let (status, wrong) = post(served.address, "/mcp/episodes", r#"{"environment":"atlantis"}"#).await;
    assert_eq!((status, &wrong["kind"], &wrong["owner"]), (404, &json!("unknown-name"), &json!("agent")));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_belongs_to_its_client() {
    let served = serve(&["calculator"], &clients(&["c", "d"])).await;
    let token = |letter: &str| format!("authorization: Bearer {}\r\n", letter.repeat(16));
    let body = "{}";
    let (_, opened) = request(served.address, &head("POST", "/mcp/episodes", 2, &token("c")), body.as_bytes()).await;
    let (path, id) = (opened["mcp"].as_str().unwrap(), opened["episode"].as_str().unwrap());
    let list = async |path: &str, more: &str| mcp(served.address, path, more, "tools/list", json!({})).await;
    assert_eq!(list(path, &token("c")).await.0, 200);
    let (status, foreign) = list(path, &token("d")).await;
    assert_eq!((status, &foreign["error"]["data"]["kind"]), (404, &json!("unknown-session")));
    let (status, unauthorised) = list(path, "").await;
    assert_eq!((status, &unauthorised["error"]["data"]["kind"]), (401, &json!("unauthorized")));
    assert_eq!(list(&format!("/e/{id}/mcp"), &token("c")).await.0, 404, "the trainer's id is not the agent's token");
    let agents = path.strip_prefix("/e/").unwrap().strip_suffix("/mcp").unwrap();
    let rewards = head("GET", &format!("/mcp/episodes/{agents}"), 0, &token("c"));
    assert_eq!(request(served.address, &rewards, b"").await.0, 404, "the agent's token shows no rewards");
    let act = json!({ "name": "act", "arguments": { "episode": agents, "text": "x" } });
    let (_, foreign) = mcp(served.address, AT, &token("d"), "tools/call", act).await;
    assert_eq!(foreign["result"]["_meta"]["kind"], "unknown-session");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_pages_and_rebound_names_are_refused_with_403() {
    let served = serve(&["calculator"], "[listen]\norigins = [\"https://lab.example\"]\nhosts = [\"gym.lab\"]\n").await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let with = async |more: &str| request(served.address, &mcp_head(AT, ping.len(), more), ping.as_bytes()).await;
    for (origin, expected) in
        [("https://evil.example", 403), ("null", 403), ("http://localhost:3000", 200), ("https://lab.example", 200)]
    {
        let (status, answer) = with(&format!("origin: {origin}\r\n")).await;
        assert_eq!(status, expected, "{origin}");
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    }
    for (host, expected) in [("evil.example:8100", 403), ("127.0.0.1:8100", 200), ("[::1]", 200), ("gym.lab:8100", 200)]
    {
        let head = mcp_head(AT, ping.len(), "").replace("host: localhost", &format!("host: {host}"));
        assert_eq!(request(served.address, &head, ping.as_bytes()).await.0, expected, "{host}");
    }
    served.stop().await;
}
