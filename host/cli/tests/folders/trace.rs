//! Spans of a run as JSON lines: one per operation, nested in its parent operation.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS};
use gymkhana_record::{CallSite, EpisodeRecord, Phase};
use serde_json::Value;

/// Lines of a trace with spans of this name.
fn spans<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["span"]["name"] == name).collect()
}

/// Number of calls in the records of one kind of call site.
fn calls(records: &[EpisodeRecord], counts: impl Fn(&CallSite) -> bool) -> usize {
    let costs = records.iter().flat_map(|record| &record.costs);
    costs.filter(|cost| counts(&cost.call_site)).count()
}

#[test]
fn every_span_of_a_run_is_a_line() {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &["--trace", "trace.jsonl"]).succeeded();
    let text = fs::read_to_string(desk.path("trace.jsonl")).expect("a trace");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let records = desk.episodes();
    let ids: BTreeSet<String> = records.iter().map(|record| record.id.to_string()).collect();

    let episodes = spans(&lines, "episode");
    assert_eq!(episodes.len(), records.len());
    let traced: BTreeSet<String> =
        episodes.iter().map(|line| line["span"]["id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(traced, ids);

    let played = records.iter().filter(|record| record.id.phase != Phase::Demonstration);
    assert_eq!(spans(&lines, "generate").len(), played.map(|record| record.policy_turns.len()).sum::<usize>());
    let step = |site: &CallSite| matches!(site, CallSite::Step(_));
    assert_eq!(spans(&lines, "step").len(), calls(&records, step));
    let tool = |site: &CallSite| matches!(site, CallSite::Tool { .. });
    let tool_calls = spans(&lines, "tool_call");
    assert_eq!(tool_calls.len(), calls(&records, tool));
    assert!(!tool_calls.is_empty(), "the expert calls the calculator");
    assert!(tool_calls.iter().all(|line| line["span"]["tool"] == "calculator"));
    for name in ["generate", "step", "tool_call"] {
        for line in spans(&lines, name) {
            let outer = &line["spans"][0];
            assert_eq!(outer["name"], "episode", "{line}");
            assert!(ids.contains(outer["id"].as_str().expect("an id")), "{line}");
        }
    }
    let groups: BTreeSet<_> =
        records.iter().map(|record| (record.id.stage, record.id.phase, record.id.step, record.id.group)).collect();
    assert_eq!(spans(&lines, "reward").len(), groups.len());
    assert_eq!(spans(&lines, "train").len(), 4, "two steps of each stage");
}

#[test]
fn a_trace_that_cannot_be_written_is_told() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let told = desk.run(WORD_PROBLEMS, &["--trace", "nowhere/trace.jsonl"]).mistake("no such folder");
    assert!(told.contains("--trace `nowhere/trace.jsonl` cannot be written\n"), "{told}");
    assert!(!desk.path("out").exists(), "a folder was left behind");
    // A full disk costs the trace, not the run.
    let outcome = desk.run(WORD_PROBLEMS, &["--trace", "/dev/full"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.talk.contains("--trace `/dev/full` is incomplete"), "{outcome:?}");
    assert!(desk.path("out/summary.json").exists());
}
