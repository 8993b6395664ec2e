//! Tools and functions of the environment that an agent program calls by MCP:
//! - a call of the policy that the program passes on is in the record once, with the tool's answer and its cost;
//! - a call of the program's own is in the record too, and so is a call that ends the episode;
//! - a replay performs the calls again, without the program;
//! - limits of calls hold, and the address opens no other session.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Table, answers, call, limits, play, rollout};
use gymkhana_gateway::AgentHarness;
use gymkhana_record::{Boundary, CallSite, Ending, EpisodeRecord, Turn, Value};
use gymkhana_rollout::{AgentSettings, Limits, ReplayDifference, Rollout};

/// A client of the model and one of MCP, in Python's own library.
const CLIENTS: &str = r#"
import json, os, sys, urllib.error, urllib.request
task = json.load(sys.stdin)
def post(url, body, headers):
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))
def ask(messages, tools=()):
    body = {"model": "policy", "messages": messages, **({"tools": list(tools)} if tools else {})}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    return post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)["choices"][0]["message"]
url = os.environ["GYMKHANA_MCP_URL"]
version = {}
def rpc(method, params):
    headers = {"Accept": "application/json, text/event-stream", **version}
    answer = post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers)
    assert "result" in answer, answer
    return answer["result"]
client = {"name": "test", "version": "1"}
begun = rpc("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
assert begun["protocolVersion"] == "2025-11-25" and "tools" in begun["capabilities"], begun
version = {"MCP-Protocol-Version": "2025-11-25"}
listed = rpc("tools/list", {})["tools"]
tools = [{"type": "function", "function": {
    "name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}} for tool in listed]
def run(name, arguments):
    result = rpc("tools/call", {"name": name, "arguments": arguments})
    return "".join(part["text"] for part in result["content"]), result.get("isError", False), result.get("_meta", {})
"#;

/// Passes the policy's calls on until it answers without one, and adds a call of its own.
const PASSES_CALLS_ON: &str = r#"
messages = [{"role": "user", "content": task["prompt"]}]
while True:
    reply = ask(messages, tools)
    messages.append(reply)
    if not reply.get("tool_calls"):
        break
    for call in reply["tool_calls"]:
        text, failed, _ = run(call["function"]["name"], json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": ("Error: " if failed else "") + text})
text, failed, _ = run("calculate", {"expression": "2^10"})
assert (text, failed) == ("1024", False), text
assert run("no_such", {})[1]
print(reply["content"])
"#;

async fn with_program(table: &Table, program: &str, limits: Limits) -> Rollout {
    let settings = AgentSettings {
        command: ["python3", "-c", &[CLIENTS, program].concat()].map(str::to_owned).to_vec(),
        env: vec![],
        models: vec!["policy".to_owned()],
        side_models: vec![],
        time: Duration::from_secs(30),
        retry_window: Duration::from_secs(10),
        stop_texts: vec![],
        mcp: true,
        requested_sampling: false,
    };
    rollout(table, limits).await.with_agent(Arc::new(AgentHarness::start(settings).unwrap()))
}

/// Replays the record without the program and compares.
async fn assert_replays(table: &Table, limits: Limits, record: &EpisodeRecord) {
    let replayed = rollout(table, limits).await.replay_group(std::slice::from_ref(record)).await.unwrap();
    assert_eq!(ReplayDifference::between(record, &replayed[0]), None);
}

fn table() -> Table {
    Table::new().tool("calculator", &[]).reward("answer-match", &[])
}

/// Calls in the transcript: id, function and arguments.
fn calls(record: &EpisodeRecord) -> Vec<(String, String, String)> {
    let call = |turn: &Turn| match turn {
        Turn::Call { call, .. } => Some((call.id.clone(), call.name.clone(), call.arguments.clone())),
        _ => None,
    };
    record.turns.iter().filter_map(call).collect()
}

#[tokio::test]
async fn calls_by_mcp_are_in_the_record_once_and_a_replay_repeats_them() {
    let rollout = with_program(&table(), PASSES_CALLS_ON, limits()).await;
    let written = call("calculate", r#"{"expression":   "6*7"}"#);
    let broken = call("calculate", r#"{"expression": "6*"}"#);
    let record = play(&rollout, &[&written, &broken, "42"]).await;
    assert_eq!((record.ending, &record.failures[..]), (Ending::Terminated, &[][..]), "{record:#?}");
    let run = record.agent.clone().unwrap();
    assert_eq!((run.answer.as_deref(), run.exit, run.stderr.as_str()), (Some("42"), Some(0), ""));
    // Two calls of the policy that were passed on, and two of the program's own.
    let listed: Vec<bool> = run.calls.iter().map(|call| call.listed).collect();
    assert_eq!(listed, [true, true, false, false]);
    let calls = calls(&record);
    let functions: Vec<&str> = calls.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(functions, ["calculate", "calculate", "calculate", "no_such"]);
    let performed: Vec<&str> = run.calls.iter().map(|call| call.call.id.as_str()).collect();
    assert_eq!(performed, calls.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>());
    let answers = answers(&record);
    assert_eq!((answers[0].0.as_str(), answers[0].1, answers[1].1), ("42", false, true), "{answers:?}");
    assert_eq!((&answers[2], answers.len()), (&("1024".to_owned(), false), 4), "{answers:?}");
    assert!(answers[3].0.contains("unknown function `no_such`"), "{answers:?}");
    // Each call of the tool has its cost under the id of the call.
    let of_tool = record.costs.iter().filter(|cost| cost.at == Boundary::Tool("calculator".to_owned()));
    let sites: Vec<&CallSite> = of_tool.map(|cost| &cost.call_site).collect();
    let expected: Vec<CallSite> = performed[..3].iter().map(|id| CallSite::tool(id)).collect();
    assert_eq!(sites, expected.iter().collect::<Vec<_>>());
    // The policy read what the program told it.
    let text = rollout.chat().decode(record.segments[0].tokens()).unwrap();
    assert!(text.contains("Error: ") && text.contains("42"), "{text}");
    assert_replays(&table(), limits(), &record).await;
    // A record with another answer differs from its replay.
    let mut forged = record.clone();
    let answer = forged.turns.iter_mut().find_map(|turn| match turn {
        Turn::Answer { content, .. } => Some(content),
        _ => None,
    });
    *answer.unwrap() = vec![gymkhana_record::Part::Text("43".to_owned())];
    let replayed = rollout.replay_group(std::slice::from_ref(&forged)).await.unwrap();
    assert!(ReplayDifference::between(&forged, &replayed[0]).unwrap().place.starts_with("turns["));
}

#[tokio::test]
async fn a_call_that_ends_the_episode_is_the_action() {
    let table = Table::new().environment("booking", &[("user", Value::Text("rules".to_owned()))]);
    let program = r#"
ask([{"role": "user", "content": task["prompt"]}])
text, failed, meta = run("book", {"day": "someday", "hour": 19, "guests": 2, "area": "bar"})
assert not meta, meta
text, failed, meta = run("book", {"day": "monday", "hour": 19, "guests": 2, "area": "bar"})
assert meta["gymkhana/done"] is True and "guest wanted" in text, (text, meta)
assert run("book", {})[0] == "the episode is over"
print("ignored")
"#;
    let rollout = with_program(&table, program, limits()).await;
    let record = play(&rollout, &["I book."]).await;
    assert_eq!((record.ending, &record.failures[..]), (Ending::Terminated, &[][..]), "{record:#?}");
    assert_eq!(record.agent.as_ref().unwrap().answer, None);
    assert_eq!(record.environment_rewards[0].rewards.len(), 2, "two steps");
    assert_eq!(calls(&record).len(), 3);
    assert_replays(&table, limits(), &record).await;
}

#[tokio::test]
async fn the_limit_of_calls_refuses_further_ones() {
    let one_call = Limits { calls: 1, ..limits() };
    let program = r#"
ask([{"role": "user", "content": task["prompt"]}])
assert run("calculate", {"expression": "1+1"})[0] == "2"
text, failed, _ = run("calculate", {"expression": "1+1"})
assert failed and text == "the episode's 1 calls are used up", text
sys.exit(1)
"#;
    let rollout = with_program(&table(), program, one_call).await;
    let record = play(&rollout, &["42"]).await;
    assert_eq!((record.ending, &record.failures[..]), (Ending::CallLimit, &[][..]), "{record:#?}");
    let run = record.agent.clone().unwrap();
    assert_eq!((run.calls.len(), run.refused), (1, 1));
    assert_replays(&table(), one_call, &record).await;
}

#[tokio::test]
async fn the_address_is_the_key() {
    let program = r#"
ask([{"role": "user", "content": task["prompt"]}])
def status(address, headers=(), body=b"{}"):
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(address, body, {**accept, **dict(headers)})
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code
wrong = url[:-1] + ("0" if url[-1] != "0" else "1")
assert status(wrong) == 404
assert status(url, {"Origin": "http://example.org"}) == 403
assert status(url, body=b"{") in (400, 415, 422)
assert status(url, body=b" " * (5 << 20)) == 413
print(42)
"#;
    let rollout = with_program(&table(), program, limits()).await;
    let record = play(&rollout, &["42"]).await;
    let run = record.agent.clone().unwrap();
    assert_eq!((record.ending, run.calls.len()), (Ending::Terminated, 0), "{run:?}");
}
