//! Runs in which an agent program plays: training, evaluation and replay, and run files that cannot be played.

mod children;
mod exports;
mod gateway;
mod gateway_workers;
mod stopped;

pub use crate::common::agents::{AGENT, PLUGINS, RUN};

use crate::common::Desk;
use gymkhana_record::Phase;

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
