//! Runs in which an agent program plays: training, evaluation and replay, and run files that cannot be played.

mod children;
mod exports;
mod gateway;
mod gateway_workers;
mod stopped;

use crate::common::Desk;
use gymkhana_record::Phase;

pub const PLUGINS: &str = "plugins/word-problems.wasm,plugins/answer-match.wasm";

/// The smallest run with a program. Steps overlap with generation, so that tokens come from earlier weights.
pub const RUN: &str = r#"
seed = 1
success = "answer-match.correct"

[agent]
command = ["python3", "agent.py"]
seconds = 60

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 512 }

[limits]
turns = 3
reply_tokens = 8

[evaluation]
tasks = 2
sampled = false

[[stages]]
kind = "rl"
steps = 3
groups = 2
group_size = 2
max_staleness = 1
optimizer = { learning_rate = 1e-2 }
"#;

/// Asks, asks again with the first reply in the history, and prints the last reply.
const AGENT: &str = r#"
import json, os, sys, urllib.request

def ask(messages):
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]

messages = [{"role": "user", "content": json.load(sys.stdin)["prompt"]}]
messages += [ask(messages), {"role": "user", "content": "Again."}]
print("Answer:", ask(messages)["content"])
"#;

/// The run with one step, whose program may call tools by MCP.
pub fn with_tool(run: &str) -> String {
    run.replace("seconds = 60", "seconds = 60\nmcp = true").replace("steps = 3", "steps = 1")
}

/// A program that calls the calculator before it asks the policy.
pub fn write_tool_program(desk: &Desk) {
    write_program_that_calls(desk, r#"assert call("calculate", {"expression": "6*7"}) == "42""#);
}

/// A program that makes this call before it asks the policy.
fn write_program_that_calls(desk: &Desk, call: &str) {
    desk.write("agent.py", AGENT.replace("messages = [{", &format!("{WITH_TOOL}\n{call}\nmessages = [{{")));
}

#[test]
fn a_program_is_trained_and_its_episodes_replay() {
    let desk = Desk::with_run_file(RUN).with_file("agent.py", AGENT);
    desk.run(PLUGINS, &[]).succeeded();
    let records = desk.episodes();
    // Two tasks before and after the stage, and three steps of two groups of two.
    assert_eq!(records.len(), 2 * 2 + 3 * 2 * 2);
    for record in &records {
        let run = record.agent.as_ref().expect("a program played");
        assert!(run.answer.as_ref().is_some_and(|answer| answer.starts_with("Answer:")), "{run:?}");
        assert_eq!((run.exit, record.failures.len(), record.policy_turns.len()), (Some(0), 0, 2), "{record:?}");
        // The history only grew: one segment, with both replies sampled.
        let [segment] = &record.segments[..] else { panic!("{} segments", record.segments.len()) };
        assert_eq!(segment.replies().count(), 2);
    }
    let trained = records.iter().filter(|record| record.id.phase == Phase::Train);
    assert_eq!(trained.map(|record| record.id.step).max(), Some(2), "three training steps");
    desk.host(&["replay", "out"]).succeeded();
}

/// Calls a tool of the episode.
const WITH_TOOL: &str = r#"
def call(function, arguments):
    params = {"name": function, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(os.environ["GYMKHANA_MCP_URL"], body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["result"]["content"][0]["text"]
"#;

#[test]
fn a_program_calls_tools_of_the_run_by_mcp_and_its_episodes_replay() {
    let desk = Desk::with_run_file(&with_tool(RUN)).with_file("agent.py", AGENT);
    write_tool_program(&desk);
    desk.run(&format!("{PLUGINS},plugins/calculator.wasm"), &[]).succeeded();
    let records = desk.episodes();
    assert_eq!(records.len(), 2 * 2 + 2 * 2);
    for record in &records {
        let run = record.agent.as_ref().expect("a program played");
        let [call] = &run.calls[..] else { panic!("{} calls", run.calls.len()) };
        assert_eq!((call.call.name.as_str(), call.listed, call.turns), ("calculate", false, 2));
    }
    desk.host(&["replay", "out"]).succeeded();
}

#[test]
fn what_a_program_cannot_play_is_refused_before_the_run() {
    let with_tool = format!("{PLUGINS},plugins/calculator.wasm");
    for (run, plugins, word) in [
        (RUN.to_owned(), with_tool.as_str(), "cannot call tools of the run, such as `calculator`"),
        (RUN.replace("\"python3\"", "\"no-such-python\""), PLUGINS, "there is no program `no-such-python`"),
        (RUN.replace("seed = 1", "seed = 1\ndeterministic = true"), PLUGINS, "deterministic = true"),
        (RUN.replace("seconds = 60", "seconds = 0"), PLUGINS, "agent.seconds"),
        (RUN.replace("[\"python3\", \"agent.py\"]", "[]"), PLUGINS, "agent.command"),
        (RUN.replace("seconds = 60", "mcp = 1"), PLUGINS, "mcp"),
    ] {
        let desk = Desk::with_run_file(&run).with_file("agent.py", AGENT);
        let outcome = desk.run(plugins, &[]);
        assert_eq!(outcome.code, Some(2), "{word}: {outcome:?}");
        assert!(outcome.talk.contains(word), "{word}: {}", outcome.talk);
        assert!(!desk.path("out").exists(), "{word}");
    }
}
