//! Workflows that are read and refused, the way through them, and what each role sees.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, text, text_of};

use crate::memory::Memory;
use crate::workflow::{DEFAULT, Source, Workflow};

/// A planner and a verifier around an executor.
const CHECKED: &str = r#"[
    {"role": "planner", "reads": ["task", "verifier"], "next": "executor"},
    {"role": "executor", "actions": 2, "reads": ["planner", "environment"], "next": "verifier"},
    {"role": "verifier", "instruction": "Check it.", "on": {"STOP": "answerer"}, "price": 0.25,
        "next": {"role": "planner", "price": 0.125}},
    {"role": "answerer", "actions": 1}
]"#;

fn read(source: &str, turns: u64) -> Result<Workflow, String> {
    Workflow::read(source, turns).map_err(|error| match error {
        Error::Invalid(reason) => reason,
        other => panic!("{other}"),
    })
}

/// Index of the role after a message, and the price of the handover.
fn after(workflow: &Workflow, index: usize, message: &str) -> Option<(usize, f64)> {
    workflow.after(index, message).map(|handover| (handover.to, handover.price))
}

#[test]
fn words_of_a_message_choose_the_next_role() {
    let workflow = read(CHECKED, 20).unwrap();
    assert_eq!(after(&workflow, 0, "whatever"), Some((1, 0.0)));
    assert_eq!(after(&workflow, 2, "Not yet."), Some((0, 0.125)));
    assert_eq!(after(&workflow, 2, "Well done: stop"), Some((3, 0.0)));
    assert_eq!(after(&workflow, 3, "anything"), None);
    assert_eq!(after(&read(DEFAULT, 0).unwrap(), 0, ""), Some((1, 0.0)));
}

#[test]
fn the_last_of_several_words_decides() {
    let source = r#"[{"role": "router", "on": {"a": "executor", "b": "searcher"}, "next": "executor"},
        {"role": "executor", "actions": 1}, {"role": "searcher", "actions": 1}]"#;
    let workflow = read(source, 0).unwrap();
    assert_eq!(after(&workflow, 0, "not a but b"), Some((2, 0.0)));
    assert_eq!(after(&workflow, 0, "b, no: a"), Some((1, 0.0)));
}

#[test]
fn an_oracle_leads_to_a_role_that_acts() {
    let workflow = read(CHECKED, 20).unwrap();
    // The verifier reaches the answerer by its word at once, and the executor through the planner.
    let words: Vec<String> = [0, 2].map(|index| workflow.way_to_action(index)).into();
    assert_eq!(words, ["Continue.", "stop"]);
    for (index, words) in [0, 2].into_iter().zip(&words) {
        assert!(workflow.after(index, words).is_some());
    }
}

#[test]
fn what_is_not_a_workflow_is_refused() {
    let executor = r#"{"role": "executor", "actions": 1}"#;
    let cases = [
        ("{}", "is not a list of roles"),
        ("[]", "has no role"),
        (&*format!("[{executor}, {executor}]"), "has role `executor` twice"),
        (r#"[{"role": "boss", "actions": 1}]"#, "has a role `boss`; roles are planner, executor"),
        (r#"[{"role": "planner"}]"#, "neither `actions` nor `next`"),
        (r#"[{"role": "planner", "next": "critic"}]"#, "leads from `planner` to `critic`; its roles are planner"),
        (r#"[{"role": "executor", "actions": 1, "reads": ["world"]}]"#, "has `world` in `reads`"),
        (r#"[{"role": "executor", "actions": 1, "price": 2}]"#, "has price = 2 for `executor`"),
        (r#"[{"role": "executor", "actions": 1, "on": {"": "executor"}}]"#, "has an empty word in `on`"),
        (r#"[{"role": "executor", "action": 1}]"#, "unknown field `action`"),
        (&*format!(r#"[{executor}, {{"role": "critic", "next": "executor"}}]"#), "to which no other role leads"),
    ];
    for (source, reason) in cases {
        let told = read(source, 9).unwrap_err();
        assert!(told.contains(reason), "{source}: {told}");
    }
}

#[test]
fn a_cycle_needs_a_limit() {
    let told = read(CHECKED, 0).unwrap_err();
    assert!(told.contains("the cycle planner → executor → verifier → planner and no limit"), "{told}");
    assert!(read(CHECKED, 1).is_ok());
    let idle = r#"[{"role": "planner", "next": "critic"}, {"role": "critic", "next": "planner"}]"#;
    assert!(read(idle, 9).unwrap_err().contains("from which no role that acts is reached"));
}

#[test]
fn a_role_sees_what_it_reads_once() {
    let workflow = read(CHECKED, 20).unwrap();
    let mut memory = Memory::default();
    let shown = |memory: &mut Memory, index: usize| text_of(&memory.show(&workflow.roles[index]));
    memory.add(Source::Task, text("Add 1 and 2."));
    assert_eq!(shown(&mut memory, 0), "Task:\nAdd 1 and 2.");
    memory.add(Source::Role(0), text("Use the calculator."));
    // The executor does not read the task.
    assert_eq!(shown(&mut memory, 1), "planner:\nUse the calculator.");
    memory.add(Source::Role(1), text("add(1, 2)"));
    memory.add(Source::Environment, text("3"));
    memory.mark_seen(1);
    let all = "Check it.\nTask:\nAdd 1 and 2.\nplanner:\nUse the calculator.\nexecutor:\nadd(1, 2)\nEnvironment:\n3";
    assert_eq!(shown(&mut memory, 2), all);
    memory.add(Source::Role(2), text("Again."));
    // The planner has seen the task, and reads neither the executor nor the environment.
    assert_eq!(shown(&mut memory, 0), "verifier:\nAgain.");
    assert_eq!(shown(&mut memory, 1), "Continue.");
    let bytes = memory.write(Writer::new()).finish();
    let mut reader = Reader::new(&bytes);
    assert_eq!(Memory::read(&mut reader).unwrap(), memory);
    reader.end().unwrap();
}
