//! What a worker may not say of an episode that the front knows.

use gymkhana_record::{Cost, EpisodeId, Failure, LogEntry, LogLevel, Part, Phase, Seed, Turn};
use serde_json::{Value as Json, json};

use super::*;

/// An episode after a call.
fn known() -> Json {
    let (at, call_site) = (Boundary::Tool("calculator".to_owned()), CallSite::tool("call-0"));
    let cost = CallCost { at: at.clone(), call_site: call_site.clone(), cost: Cost::default() };
    let line = LogEntry { at, call_site, seat: Some(0), level: LogLevel::Info, text: "called".to_owned() };
    json!({
        "task": { "split": "train", "index": 3 },
        "opening": { "functions": [], "setup": [], "observations": [] },
        "turns": [], "rewards": [{ "seat": 0, "rewards": [] }], "extras": [],
        "failures": [], "costs": [cost], "exchanges": [],
        "logs": {
            "entries": [line], "budgets": [], "plugin_bytes": 100,
        },
        "budget": { "used": 10, "limit": 1000 },
        "timing": gymkhana_record::Timing::default(), "seat": 0, "steps": 0, "calls": 1, "results": [[]], "ending": null,
    })
}

fn data(change: &Json) -> EpisodeData {
    let mut value = known();
    value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_state_continues_the_known_one() {
    let before = data(&json!({}));
    assert_eq!(refusal_of_state(&before, &data(&json!({}))), None);
    let stepped =
        json!({ "steps": 1, "calls": 2, "rewards": [{ "seat": 0, "rewards": [0.5] }], "ending": "terminated" });
    assert_eq!(refusal_of_state(&before, &data(&stepped)), None);
    let opening = json!({ "functions": [], "setup": [], "observations": [[0, [Part::Text("other".to_owned())]]] });
    for change in [
        json!({ "task": { "split": "train", "index": 4 } }),
        json!({ "rewards": [] }),
        json!({ "rewards": [{ "seat": 1, "rewards": [] }] }),
        json!({ "seat": 1 }),
        json!({ "calls": 0 }),
        json!({ "costs": [] }),
        json!({ "logs": { "entries": [], "budgets": [], "plugin_bytes": 100 } }),
        json!({ "opening": opening }),
    ] {
        assert!(refusal_of_state(&before, &data(&change)).is_some(), "{change}");
    }
    // An episode that has ended stays so.
    let ended = data(&json!({ "ending": "terminated" }));
    assert!(refusal_of_state(&ended, &before).is_some());
    assert!(refusal_of_state(&ended, &data(&json!({ "ending": "truncated" }))).is_some());
    assert_eq!(refusal_of_state(&ended, &ended), None);
}

#[test]
fn a_record_is_that_of_the_known_episode_and_of_its_ending() {
    let known = data(&json!({}));
    let id = EpisodeId { stage: 0, phase: Phase::Served, step: 0, group: 0, member: 0, attempt: 0 };
    let order = |ending| FinishOrder {
        record: id,
        task: known.task.clone(),
        seed: Seed(1),
        ending,
        age_ms: 1.0,
        scored: false,
    };
    let record = |ending| {
        let empty = EpisodeRecord::new(id, known.task.clone(), Seed(1), ending);
        known.clone().into_record(ending, std::time::Instant::now(), empty)
    };
    let refusal = |ordered, record: &EpisodeRecord| refusal_of_record(&known, &order(ordered), record);
    let sound = record(Ending::AgentFailed);
    assert_eq!(refusal(Ending::AgentFailed, &sound), None);
    // A worker cannot make a failed agent's episode one that is scored.
    assert_eq!(refusal(Ending::AgentFailed, &record(Ending::Terminated)), Some("it sent a record with another ending"));
    assert!(refusal(Ending::AgentFailed, &record(Ending::Dropped)).is_some());
    assert!(refusal(Ending::AgentFailed, &record(Ending::EnvironmentFailed)).is_some());
    // Totals are checked at a limit.
    assert_eq!(refusal(Ending::TurnLimit, &record(Ending::EnvironmentFailed)), None);
    let fault = Failure {
        at: Boundary::Host,
        kind: gymkhana_record::FailureKind::Fault,
        call_site: CallSite::FinalView,
        message: "no room".to_owned(),
    };
    let dropped = EpisodeRecord { failures: vec![fault], ..record(Ending::Dropped) };
    assert_eq!(refusal(Ending::Terminated, &dropped), None);
    let turn = Turn::Observation { seat: 0, content: vec![] };
    for altered in [
        EpisodeRecord { seed: Seed(2), ..sound.clone() },
        EpisodeRecord { turns: vec![turn], ..sound.clone() },
        EpisodeRecord { logs: vec![], ..sound.clone() },
        EpisodeRecord { costs: vec![], ..sound.clone() },
        EpisodeRecord { rewards: vec![f64::NAN], ..sound },
    ] {
        assert!(refusal(Ending::AgentFailed, &altered).is_some());
    }
}
