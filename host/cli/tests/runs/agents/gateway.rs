//! `host gateway` as a harness elsewhere uses it, and the commands that read its records.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::common::gateway::{Gateway, Session, write_file};
use crate::common::{Desk, episodes};
use crate::peer::{Mischief, Peer, write_model};
use gymkhana_policy_server::Protocol;
use gymkhana_record::{Ending, EpisodeRecord, Segment, Turn, text_of};

pub const PLUGINS: &str = "plugins/word-problems.wasm,plugins/calculator.wasm,plugins/answer-match.wasm";

/// A folder with a model, its server, and the file of a gateway with `more` in front of it.
pub fn desk(more: &str) -> (Desk, Peer) {
    let desk = Desk::new();
    write_model(2, &desk.path("model"));
    let peer = Peer::start(Protocol::Vllm, &desk.path("model"));
    write_file(&desk, more, &peer.url());
    (desk, peer)
}

#[test]
fn a_harness_elsewhere_plays_tasks_and_its_records_are_those_of_a_run() {
    let (desk, _peer) = desk("success = \"answer-match.correct\"\nlimits = { turns = 3, reply_tokens = 12 }");
    let gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    let (status, session) =
        gateway.ask("POST", "/sessions", "", &json!({"task": {"split": "train", "index": 7}, "seed": 5}));
    assert_eq!(status, 201, "{session}");
    assert_eq!(session["task"]["task"], json!({"split": "train", "index": 7}));
    let key = session["api_key"].as_str().expect("a key");
    let chat = format!("{}/chat/completions", gateway.path(&session["base_url"]));
    let messages = json!([{"role": "user", "content": session["task"]["prompt"]}]);
    let (status, reply) = gateway.ask("POST", &chat, key, &json!({"model": "policy", "messages": messages}));
    assert_eq!((status, &reply["object"]), (200, &json!("chat.completion")), "{reply}");
    let mcp = gateway.path(&session["mcp_url"]);
    let params = json!({"name": "calculate", "arguments": {"expression": "6*7"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    assert_eq!(gateway.ask("POST", &mcp, "", &call).1["result"]["content"][0]["text"], "42");
    let id = session["id"].as_str().expect("an id");
    let close = format!("/sessions/{id}/close");
    let (status, ended) = gateway.ask("POST", &close, "", &json!({"answer": "1"}));
    assert_eq!((status, &ended["ending"], &ended["turns"]), (200, &json!("terminated"), &json!(1)), "{ended}");
    // A lost answer is asked for again.
    assert_eq!(gateway.ask("POST", &close, "", &json!({"answer": "1"})).1, ended);
    // A task that does not exist, a session that is abandoned, and one that is open at the end.
    let wrong = json!({"task": {"split": "nowhere", "index": 0}});
    let (status, refused) = gateway.ask("POST", "/sessions", "", &wrong);
    assert_eq!(
        (status, refused["error"]["message"].as_str().is_some_and(|text| text.contains("nowhere"))),
        (400, true)
    );
    let (_, second) = gateway.ask("POST", "/sessions", "", &json!({}));
    let path = format!("/sessions/{}", second["id"].as_str().expect("an id"));
    assert_eq!(gateway.ask("GET", &path, "", &json!({})).1, json!({"state": "open"}));
    assert_eq!(gateway.ask("DELETE", &path, "", &json!({})).1["ending"], "agent-failed");
    assert_eq!(gateway.ask("GET", &path, "", &json!({})).1["state"], "ended");
    gateway.end();

    let shown = desk.host(&["show", "sessions"]).succeeded();
    assert!(shown.contains("2 episodes like 0.served.0.0.0.0"), "{shown}");
    desk.host(&["replay", "sessions"]).succeeded();
    for format in ["atif", "openenv-trace", "verifiers"] {
        let lines = desk.host(&["data", "export", "sessions", "--format", format, "--episode", "0.served.0.0.0.0"]);
        let line: Json = serde_json::from_str(lines.succeeded().trim()).expect("a line of JSON");
        assert!(line.is_object(), "{format}");
    }
    // The folder goes on, and not with other settings.
    let gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    let (_, third) = gateway.ask("POST", "/sessions", "", &json!({}));
    assert_eq!(third["episode"], "0.served.0.2.0.0");
    // The end would wait for it.
    let path = format!("/sessions/{}", third["id"].as_str().expect("an id"));
    assert_eq!(gateway.ask("DELETE", &path, "", &json!({})).1["ending"], "agent-failed");
    gateway.end();
    let other = ["gateway", "gateway.toml", "--out", "sessions", "--set", "limits.turns=9", "--plugins", PLUGINS];
    let text = desk.host(&other).mistake("other settings");
    assert!(text.contains("holds records of other plugins or settings"), "{text}");
}

/// The reply of the policy to these messages, as a message.
pub fn reply(gateway: &Gateway, session: &Session, messages: &[Json]) -> Json {
    let body = json!({"model": "policy", "messages": messages});
    let (status, mut reply) = gateway.ask("POST", &session.chat, &session.key, &body);
    assert_eq!(status, 200, "{reply}");
    reply["choices"][0]["message"].take()
}

/// While the disk is full, replies and results wait until they are written, and no session opens; nothing is lost.
#[test]
fn a_full_disk_loses_no_reply_and_no_result() {
    let (desk, _peer) = desk("success = \"answer-match.correct\"\nlimits = { turns = 4, reply_tokens = 12 }");
    let mut gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    let user = |text: &str| json!({"role": "user", "content": text});
    let (open, closing) = (gateway.open(&json!({})), gateway.open(&json!({})));
    reply(&gateway, &open, &[user("first")]);
    reply(&gateway, &closing, &[user("first")]);
    gateway.fill_disk(true);
    let (status, ended) = std::thread::scope(|scope| {
        let replied = scope.spawn(|| reply(&gateway, &open, &[user("second")]));
        let closed = scope.spawn(|| gateway.ask("POST", &closing.close, "", &json!({"answer": "1"})));
        while gateway.ask("GET", "/health", "", &json!({})).0 == 200 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let (status, refused) = gateway.ask("POST", "/sessions", "", &json!({}));
        let why = refused["error"]["message"].as_str().expect("a reason");
        assert_eq!(status, 503, "{refused}");
        assert!(why.contains("no session can be recorded") && why.contains("hint: free space"), "{why}");
        std::thread::sleep(Duration::from_millis(300));
        assert!(!replied.is_finished() && !closed.is_finished(), "what is not written is not answered");
        gateway.fill_disk(false);
        replied.join().expect("a reply");
        closed.join().expect("a result")
    });
    assert_eq!((status, &ended["ending"]), (200, &json!("terminated")), "{ended}");
    assert!(gateway.wait_for("records cannot be written").contains("sessions wait"));
    gateway.wait_for("records are written again");
    assert_eq!(gateway.ask("GET", "/health", "", &json!({})).0, 200);
    gateway.kill();
    Gateway::start(&desk, &["--plugins", PLUGINS]).end();
    let records = episodes(&desk.path("sessions"));
    let endings: Vec<_> = records.iter().map(|record| (record.ending, record.policy_turns.len())).collect();
    assert_eq!(endings, [(Ending::Dropped, 2), (Ending::Terminated, 1)]);
}

#[test]
fn a_killed_gateway_loses_no_finished_turn_of_its_open_sessions() {
    let (desk, peer) = desk("success = \"answer-match.correct\"\nlimits = { turns = 4, reply_tokens = 12 }");
    let gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    let user = |text: &str| json!({"role": "user", "content": text});
    let finished = gateway.open(&json!({}));
    reply(&gateway, &finished, &[user("first")]);
    assert_eq!(gateway.ask("POST", &finished.close, "", &json!({"answer": "1"})).1["ending"], "terminated");
    let (open, idle) = (gateway.open(&json!({})), gateway.open(&json!({})));
    // Two replies, a call between them, and a third reply that does not come before the end.
    drop(peer.answers());
    let mut messages = vec![user("second")];
    messages.push(reply(&gateway, &open, &messages));
    assert_eq!(gateway.call(&open, "calculate", &json!({"expression": "6*7"}))["content"][0]["text"], "42");
    messages.push(user("third"));
    messages.push(reply(&gateway, &open, &messages));
    // What the server sampled, by its own account.
    let sampled: Vec<Json> = peer.answers().into_iter().map(|mut answer| answer["choices"][0].take()).collect();
    assert_eq!(sampled.len(), 2);
    peer.misbehave(&[Mischief::Hangs]);
    messages.push(user("fourth"));
    let body = json!({"model": "policy", "messages": messages}).to_string();
    let mut stream = TcpStream::connect(&gateway.address).expect("the gateway listens");
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        open.chat,
        open.key,
        body.len()
    );
    write!(stream, "{head}{body}").expect("a request");
    while peer.answers().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    gateway.kill();

    let gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    assert!(gateway.notes.contains("the last gateway was killed: 2 open sessions kept"), "{}", gateway.notes);
    assert_eq!(gateway.open(&json!({})).episode, "0.served.0.3.0.0");
    gateway.end();
    let gateway = Gateway::start(&desk, &["--plugins", PLUGINS]);
    assert!(!gateway.notes.contains("was killed"), "{}", gateway.notes);
    gateway.end();

    // Each session is stored once.
    let records = episodes(&desk.path("sessions"));
    let endings: Vec<(String, Ending)> = records.iter().map(|record| (record.id.to_string(), record.ending)).collect();
    let expected = [
        (finished.episode, Ending::Terminated),
        (open.episode.clone(), Ending::Dropped),
        (idle.episode, Ending::Dropped),
        ("0.served.0.3.0.0".to_owned(), Ending::Dropped),
    ];
    assert_eq!(endings, expected);
    let record = &records[1];
    // The history only grew: one segment, with the replies as the server sampled them.
    let [segment] = &record.segments[..] else { panic!("{} segments", record.segments.len()) };
    let places: Vec<_> = segment.replies().collect();
    assert_eq!(places.len(), sampled.len());
    for (place, sampled) in places.iter().zip(&sampled) {
        assert_eq!(json!(segment.tokens()[place.clone()]), sampled["token_ids"]);
        assert_eq!(json!(segment.log_probs()[place.clone()]), sampled["logprobs"]["token_logprobs"]);
        assert!(segment.sampled()[place.clone()].iter().all(|sampled| *sampled));
    }
    let versions = |record: &EpisodeRecord| {
        let of_sampled = |segment: &Segment| {
            let tokens = segment.versions().iter().zip(segment.sampled());
            tokens.filter(|(_, sampled)| **sampled).map(|(version, _)| *version).collect::<Vec<_>>()
        };
        record.segments.iter().flat_map(of_sampled).collect::<BTreeSet<_>>()
    };
    assert_eq!(versions(record), versions(&records[0]), "the weights did not change");
    let run = record.agent.as_ref().expect("a harness played");
    let said: Vec<String> = record.turns[run.begin as usize..].iter().map(said).collect();
    let texts = [1, 3].map(|at| messages[at]["content"].as_str().expect("a text"));
    assert_eq!(said, ["second", texts[0], "calculate", "42", "third", texts[1]]);
    assert_eq!((run.turns, run.calls.len(), record.policy_turns.len()), (6, 1, 2));
    let [failure] = &record.failures[..] else { panic!("{:?}", record.failures) };
    assert!(failure.message.starts_with("the gateway was killed: the record is complete"), "{failure}");
    assert!(records[2].segments.is_empty() && records[2].policy_turns.is_empty());

    // The commands for runs read the records.
    let shown = desk.host(&["show", "sessions", "--episode", &open.episode]).succeeded();
    assert!(shown.contains("dropped") && shown.contains("third") && !shown.contains("fourth"), "{shown}");
    let replayed = desk.host(&["replay", "sessions"]).succeeded();
    assert!(replayed.contains("1 episode replayed, every byte equal: 1"), "{replayed}");
    assert!(replayed.contains("3 episodes skipped: dropped when recorded"), "{replayed}");
    for format in ["atif", "openenv-trace", "verifiers", "openai", "sharegpt", "otel", "openinference"] {
        let lines = desk.host(&["data", "export", "sessions", "--format", format, "--episode", &open.episode]);
        let line: Json = serde_json::from_str(lines.succeeded().trim()).expect("a line of JSON");
        assert!(line.is_object(), "{format}");
        if format == "openenv-trace" {
            let tokens: Vec<&Json> =
                line["turns"].as_array().expect("turns").iter().map(|turn| &turn["completion_token_ids"]).collect();
            assert_eq!(tokens, sampled.iter().map(|reply| &reply["token_ids"]).collect::<Vec<_>>());
        }
    }

    desk.write("sessions/live-0.jsonl", "{}\n");
    let damaged = ["gateway", "gateway.toml", "--out", "sessions", "--listen", "127.0.0.1:0", "--plugins", PLUGINS];
    let text = desk.host(&damaged).mistake("a damaged journal");
    assert!(text.contains("live-0.jsonl` is damaged at byte 0") && text.contains("move it away"), "{text}");
}

/// The text of an entry of the transcript, or the name of its function.
fn said(turn: &Turn) -> String {
    match turn {
        Turn::Observation { content, .. } | Turn::Message { content, .. } | Turn::Answer { content, .. } => {
            text_of(content)
        }
        Turn::Call { call, .. } => call.name.clone(),
        Turn::MalformedCall { text, .. } | Turn::Thought { text, .. } => text.clone(),
    }
}

#[test]
fn sessions_need_no_plugins_and_a_token_where_clients_have_one() {
    let (desk, _peer) = desk("limits = { reply_tokens = 8 }");
    let file = std::fs::read_to_string(desk.path("gateway.toml")).expect("a file");
    let gateway = Gateway::start(&desk, &[]);
    let (status, session) = gateway.ask("POST", "/sessions", "", &json!({}));
    assert_eq!(status, 201, "{session}");
    let key = session["api_key"].as_str().expect("a key");
    let messages = format!("{}/v1/messages", gateway.path(&session["anthropic_base_url"]));
    let body = json!({"model": "policy", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(gateway.ask("POST", &messages, key, &body).0, 200);
    let close = format!("/sessions/{}/close", session["id"].as_str().expect("an id"));
    assert_eq!(gateway.ask("POST", &close, "", &json!({})).1["ending"], "terminated");
    assert_eq!(gateway.ask("GET", "/health", "", &json!({})).1["status"], "healthy");
    gateway.end();
    desk.host(&["replay", "sessions"]).succeeded();

    desk.write("gateway.toml", format!("{file}[gateway.clients.a]\ntoken_env = \"GATEWAY_TEST_TOKEN\"\n"));
    let arguments = ["gateway", "gateway.toml", "--no-records", "--listen", "127.0.0.1:0"];
    let text = desk.host(&arguments).mistake("a missing token");
    assert!(text.contains("gateway.clients.a.token_env cannot be read: the variable is not set"), "{text}");
    let open = ["gateway", "gateway.toml", "--no-records", "--listen", "0.0.0.0:0"];
    let text = desk.host(&open).mistake("an open address");
    assert!(text.contains("keys would be sent in the clear") && text.contains("gateway.behind_proxy"), "{text}");
}

#[test]
fn an_mcp_server_in_the_file_of_a_gateway_is_refused_as_what_it_is() {
    let (desk, _peer) = desk("[plugins.clock]\nmcp = { command = [\"clock\"] }");
    let refused = desk.host(&["gateway", "gateway.toml", "--plugins", PLUGINS]).mistake("an MCP server");
    assert!(refused.contains("[plugins.clock] is an MCP server, and this command starts none"), "{refused}");
    assert!(refused.contains("hint: remove the section, and give the agent the server's own address"), "{refused}");
    // Without a server, the section is that of a plugin.
    desk.write(
        "gateway.toml",
        std::fs::read_to_string(desk.path("gateway.toml")).expect("a file").replace("mcp =", "# mcp ="),
    );
    let refused = desk.host(&["gateway", "gateway.toml", "--plugins", PLUGINS]).mistake("no plugin");
    assert!(refused.contains("[plugins.clock] is unused: no such plugin is given"), "{refused}");
}
