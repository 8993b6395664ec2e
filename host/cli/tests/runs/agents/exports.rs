//! `host data export` on the episodes of an agent program: the tokens of the records in each format, and the official
//! readers of these formats.

use std::process::Command;

use serde_json::{Value as Json, json};

use crate::agents::{AGENT, PLUGINS, RUN, with_tool, write_tool_program};
use crate::common::Desk;
use gymkhana_record::EpisodeRecord;

const FORMATS: [&str; 3] = ["atif", "openenv-trace", "verifiers"];

/// A run whose program calls a tool by MCP and then asks twice.
fn played() -> Desk {
    let desk = Desk::with_run_file(&with_tool(RUN)).with_file("agent.py", AGENT);
    write_tool_program(&desk);
    desk.run(&format!("{PLUGINS},plugins/calculator.wasm"), &[]).succeeded();
    desk
}

/// The sampled tokens of an episode, in their order.
fn sampled(record: &EpisodeRecord) -> Vec<u32> {
    let of_segment = |segment: &gymkhana_record::Segment| {
        let places = segment.replies().flat_map(|place| segment.tokens()[place].to_vec());
        places.collect::<Vec<_>>()
    };
    record.segments.iter().flat_map(of_segment).collect()
}

/// The record of a trace.
fn record_of<'r>(trace: &Json, records: &'r [EpisodeRecord]) -> &'r EpisodeRecord {
    let ids = [&trace["session_id"], &trace["turns"][0]["metadata"]["episode"], &trace["info"]["episode"]];
    let id = ids.into_iter().find_map(Json::as_str).expect("an id");
    records.iter().find(|record| record.id.to_string() == id).expect("a record")
}

fn lines(desk: &Desk, format: &str, more: &[&str]) -> Vec<Json> {
    let mut arguments = vec!["data", "export", "out", "--format", format];
    arguments.extend(more);
    let text = desk.host(&arguments).succeeded();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn list(value: &Json) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|token| token.as_u64().expect("an id") as u32).collect()
}

#[test]
fn exports_hold_the_tokens_of_the_records() {
    let desk = played();
    let records = desk.episodes();
    for format in FORMATS {
        let traces = lines(&desk, format, &[]);
        assert_eq!(traces.len(), records.len(), "{format}");
        for trace in &traces {
            let record = record_of(trace, &records);
            let tokens: Vec<u32> = match format {
                "atif" => trace["steps"]
                    .as_array()
                    .expect("steps")
                    .iter()
                    .filter(|step| step["metrics"].is_object())
                    .flat_map(|step| list(&step["metrics"]["completion_token_ids"]))
                    .collect(),
                "openenv-trace" => trace["turns"]
                    .as_array()
                    .expect("turns")
                    .iter()
                    .flat_map(|turn| list(&turn["completion_token_ids"]))
                    .collect(),
                _ => trace["nodes"]
                    .as_array()
                    .expect("nodes")
                    .iter()
                    .flat_map(|node| {
                        let mask = node["mask"].as_array().expect("a mask").iter().map(|sampled| sampled == true);
                        list(&node["token_ids"])
                            .into_iter()
                            .zip(mask)
                            .filter(|(_, sampled)| *sampled)
                            .map(|(token, _)| token)
                            .collect::<Vec<_>>()
                    })
                    .collect(),
            };
            assert_eq!(tokens, sampled(record), "{format} {}", record.id);
        }
    }
    let train = records.iter().filter(|record| record.id.phase == gymkhana_record::Phase::Train).count();
    assert_eq!(lines(&desk, "atif", &["--only", "train"]).len(), train);
    let id = records[0].id.to_string();
    assert_eq!(lines(&desk, "atif", &["--episode", &id])[0]["session_id"], json!(id));
    desk.host(&["data", "export", "out", "--format", "verifiers", "--out", "traces.jsonl"]).succeeded();
    let written = std::fs::read_to_string(desk.path("traces.jsonl")).expect("a file");
    assert_eq!(written.lines().count(), records.len());
    let text = desk.host(&["data", "export", "out", "--format", "atif", "--only", "demonstrations"]);
    assert!(text.mistake("an export of nothing").contains("no episode was exported"));
}

#[test]
#[ignore = "needs harbor, openenv and verifiers: cargo xtask test --reference traces"]
fn official_readers_take_the_exports() {
    let python = std::env::var("GYMKHANA_TRACES_PYTHON").expect("GYMKHANA_TRACES_PYTHON names a Python");
    let desk = played();
    let records = desk.episodes();
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/reference/traces/read_traces.py"));
    for format in FORMATS {
        let name = format!("{format}.jsonl");
        desk.host(&["data", "export", "out", "--format", format, "--out", &name]).succeeded();
        command.arg(format).arg(desk.path(&name));
    }
    let output = command.output().expect("Python starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), FORMATS.len());
    for line in text.lines() {
        let read: Json = serde_json::from_str(line).expect("JSON");
        let traces = read["traces"].as_array().expect("traces");
        assert_eq!(traces.len(), records.len());
        for trace in traces {
            let record = record_of(trace, &records);
            assert_eq!(list(&trace["tokens"]), sampled(record), "{}", read["format"]);
            assert_eq!((&trace["replies"], &trace["reward"]), (&json!(2), &json!(record.rewards[0])), "{line}");
            if trace.get("calls").is_some() {
                assert_eq!(trace["calls"], 1);
            }
        }
    }
}
