//! Workflows of roles: the run files of `examples/workflows/` in a smaller size. A model with random weights says none of the
//! words that choose a role, so that the order of the roles is that of `next`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gymkhana_record::{EpisodeRecord, Phase, Segment, Turn, text_of};
use serde_json::Value;

use crate::common::{Desk, Outcome};

/// Roles in the order of their seats.
const ROLES: [&str; 8] = ["planner", "executor", "verifier", "answerer", "router", "critic", "adviser", "searcher"];

const CALCULATE: &[&str] = &["calculate"];
const QUERY: &[&str] = &["query", "schema"];

/// A workflow and what its run must show.
struct Workflow {
    name: &'static str,
    plugins: &'static [&'static str],
    /// Roles of the first turns.
    order: &'static [&'static str],
    /// Headings of what a role is shown.
    reads: &'static [(&'static str, &'static [&'static str])],
    /// Functions of the roles that have some.
    functions: &'static [(&'static str, &'static [&'static str])],
    /// Roles whose tokens train the run's policy, and those that train a model of their own.
    shared: &'static [&'static str],
    separate: &'static [&'static str],
    /// Price of a turn or a handover by role.
    prices: &'static [(&'static str, f64)],
}

const WORKFLOWS: [Workflow; 10] = [
    Workflow {
        name: "agent-flow",
        plugins: &["word-problems", "calculator", "answer-match"],
        order: &["planner", "executor", "verifier", "planner", "executor", "verifier"],
        reads: &[
            ("planner", &["Task", "executor", "verifier"]),
            ("executor", &["Task", "planner"]),
            ("verifier", &["Task", "planner", "executor"]),
        ],
        functions: &[("executor", CALCULATE)],
        shared: &["planner"],
        separate: &[],
        prices: &[],
    },
    Workflow {
        name: "ai-search-planner",
        plugins: &["fact-hunt", "search", "answer-match"],
        order: &["planner", "answerer"],
        reads: &[("planner", &["Task"]), ("answerer", &["Task", "planner"])],
        functions: &[("planner", &["search", "fetch"])],
        shared: &["planner"],
        separate: &[],
        prices: &[("planner", 0.05)],
    },
    Workflow {
        name: "dr-mas",
        plugins: &["word-problems", "calculator", "answer-match"],
        order: &["executor", "verifier", "executor", "verifier"],
        reads: &[("executor", &["Task", "verifier"]), ("verifier", &["Task", "executor"])],
        functions: &[("executor", CALCULATE)],
        shared: &["executor"],
        separate: &["verifier"],
        prices: &[("verifier", 0.1)],
    },
    Workflow {
        name: "marft",
        plugins: &["word-problems", "calculator", "answer-match"],
        order: &["planner", "executor"],
        reads: &[("planner", &["Task"]), ("executor", &["Task", "planner"])],
        functions: &[("executor", CALCULATE)],
        // The models learn in turn, the run's policy first.
        shared: &["planner"],
        separate: &[],
        prices: &[],
    },
    Workflow {
        name: "mars-sql",
        plugins: &["text-to-sql", "sql"],
        order: &["searcher", "planner", "verifier", "executor"],
        reads: &[
            ("searcher", &["Task"]),
            ("planner", &["Task", "searcher", "verifier", "Environment"]),
            ("verifier", &["Task", "planner"]),
            ("executor", &["planner"]),
        ],
        functions: &[("searcher", QUERY), ("planner", QUERY)],
        shared: &["planner"],
        separate: &["verifier"],
        prices: &[],
    },
    Workflow {
        name: "unity-mas",
        plugins: &["word-problems", "calculator", "answer-match"],
        order: &["planner", "critic", "planner", "critic"],
        reads: &[("planner", &["Task", "critic"]), ("critic", &["Task", "planner"])],
        functions: &[("executor", CALCULATE)],
        shared: &["planner", "executor"],
        separate: &["critic"],
        prices: &[],
    },
    Workflow {
        name: "adviser",
        plugins: &["frozen-lake"],
        order: &["adviser", "executor", "adviser", "executor"],
        reads: &[("adviser", &["Task", "executor", "Environment"]), ("executor", &["Task", "adviser", "Environment"])],
        functions: &[],
        shared: &["adviser"],
        separate: &[],
        prices: &[],
    },
    Workflow {
        name: "long-short",
        plugins: &["word-problems", "calculator", "answer-match"],
        order: &["planner", "critic", "executor"],
        reads: &[("planner", &["Task", "critic"]), ("critic", &["Task", "planner"]), ("executor", &["Task", "critic"])],
        functions: &[("critic", CALCULATE)],
        shared: &["planner"],
        separate: &["critic"],
        prices: &[("critic", 0.02)],
    },
    Workflow {
        name: "router",
        plugins: &["word-problems", "calculator", "answer-match"],
        order: &["router", "answerer"],
        reads: &[("router", &["Task"]), ("answerer", &["Task", "router"])],
        functions: &[("adviser", CALCULATE)],
        shared: &["router"],
        separate: &[],
        // Only questions to experts cost something.
        prices: &[],
    },
    Workflow {
        name: "pangu",
        plugins: &["frozen-lake"],
        order: &["planner", "executor", "critic", "planner", "executor", "critic"],
        reads: &[
            ("planner", &["Task", "Environment", "critic"]),
            ("executor", &["Task", "Environment", "planner"]),
            ("critic", &["Environment", "executor"]),
        ],
        functions: &[],
        shared: &["planner", "executor", "critic"],
        separate: &[],
        prices: &[],
    },
];

fn example(name: &str) -> String {
    let path = gymkhana_tests::root().join(format!("examples/workflows/{name}.toml"));
    fs::read_to_string(path).expect("an example")
}

fn run(desk: &Desk, plugins: &[&str], more: &[&str]) -> Outcome {
    let sets = [
        "policy.checkpoint='model'",
        "policy.max_concurrent_sequences=8",
        "limits.reply_tokens=6",
        "evaluation.tasks=1",
        "stages.rl.steps=1",
        "stages.rl.groups=2",
        "stages.rl.group_size=2",
    ];
    let paths: Vec<String> = plugins.iter().chain(&["roles"]).map(|name| format!("plugins/{name}.wasm")).collect();
    let sets = sets.into_iter().flat_map(|set| ["--set", set]);
    desk.run(&paths.join(","), &sets.chain(more.iter().copied()).collect::<Vec<_>>())
}

/// The roles that had the move, in their order. A role that calls a tool keeps it.
fn order(record: &EpisodeRecord) -> Vec<&'static str> {
    let mut roles: Vec<&str> = record.policy_turns.iter().map(|turn| ROLES[turn.seat as usize]).collect();
    roles.dedup();
    roles
}

/// Headings of all that a role was shown.
fn headings(record: &EpisodeRecord, role: &str) -> BTreeSet<String> {
    let shown = record.turns.iter().filter_map(|turn| match turn {
        Turn::Observation { seat, content } if ROLES[*seat as usize] == role => Some(text_of(content)),
        _ => None,
    });
    let known: Vec<String> = ["Task", "Environment"].iter().chain(&ROLES).map(|name| format!("{name}:")).collect();
    let lines: Vec<String> = shown.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.iter().filter(|line| known.contains(line)).map(|line| line.trim_end_matches(':').to_owned()).collect()
}

fn sampled(records: &[EpisodeRecord], roles: &[&str]) -> usize {
    let segments = records.iter().filter(|record| record.id.phase == Phase::Train).flat_map(|record| &record.segments);
    segments.filter(|segment| roles.contains(&ROLES[segment.seat() as usize])).map(Segment::sampled_len).sum()
}

fn check(workflow: &Workflow) {
    let Workflow { name, plugins, order: expected, reads, functions, shared, separate, prices } = workflow;
    let desk = Desk::with_run_file(&example(name)).with_model(7, 4096);
    run(&desk, plugins, &[]).succeeded();
    let records = desk.episodes();
    for record in &records {
        let id = record.id;
        let order = order(record);
        let turns: Vec<&str> = order.iter().copied().take(expected.len()).collect();
        assert!(turns.len() >= 2 && expected.starts_with(&turns), "{name}, {id}: {order:?}");
        for (role, sources) in *reads {
            let extra: Vec<String> =
                headings(record, role).into_iter().filter(|source| !sources.contains(&source.as_str())).collect();
            assert!(extra.is_empty(), "{name}, {id}: {role} sees {extra:?}");
        }
        for offered in &record.opening.functions {
            let role = ROLES[offered.seat as usize];
            let own = functions.iter().find(|(known, _)| *known == role).map_or(&[][..], |(_, own)| own);
            let names: Vec<&str> = offered.functions.iter().map(|function| function.name.as_str()).collect();
            if expected.contains(&role) {
                assert_eq!(names, own, "{name}, {id}: {role}");
            }
        }
        for seat in &record.environment_rewards {
            let role = ROLES[seat.seat as usize];
            let price = prices.iter().find(|(known, _)| *known == role).map_or(0.0, |(_, price)| *price);
            let mut paid = seat.rewards.iter().filter(|reward| **reward < 0.0);
            let is_price = |reward: &f64| (reward + price).abs() < 1e-9;
            assert!(paid.all(is_price), "{name}, {id}: {role} pays {:?}", seat.rewards);
        }
    }
    for (role, _) in *prices {
        let seats = records.iter().flat_map(|record| &record.environment_rewards);
        let mut own = seats.filter(|seat| ROLES[seat.seat as usize] == *role);
        assert!(own.any(|seat| seat.rewards.iter().any(|reward| *reward < 0.0)), "{name}: {role} never pays");
    }
    let lines = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let values: BTreeMap<String, Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .flat_map(|line| line["values"].as_object().cloned().unwrap_or_default())
        .collect();
    assert_eq!(values["tokens"], sampled(&records, shared) as f64, "{name}");
    let learnt = values.keys().filter_map(|name| name.strip_suffix("/tokens"));
    assert_eq!(learnt.collect::<Vec<_>>(), *separate, "{name}");
    for role in *separate {
        assert_eq!(values[&format!("{role}/tokens")], sampled(&records, &[role]) as f64, "{name}: {role}");
    }
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{name}: {replayed}");
}

#[test]
fn each_workflow_shows_offers_charges_and_trains_what_it_says() {
    for workflow in &WORKFLOWS {
        check(workflow);
    }
}

#[test]
fn every_example_is_tested() {
    let folder = fs::read_dir(gymkhana_tests::root().join("examples/workflows")).expect("a folder");
    let files: BTreeSet<String> = folder
        .map(|file| file.expect("a file").file_name().to_string_lossy().trim_end_matches(".toml").to_owned())
        .collect();
    assert_eq!(files, WORKFLOWS.iter().map(|workflow| workflow.name.to_owned()).collect());
}

#[test]
fn each_role_has_its_prompt() {
    let desk = Desk::with_run_file(&example("agent-flow")).with_model(7, 4096);
    let plan = run(&desk, WORKFLOWS[0].plugins, &["--dry-run"]).succeeded();
    assert!(plan.contains("Write the next step towards the answer"), "{plan}");
}

#[test]
fn wrong_workflows_and_seats_are_refused_before_anything_is_written() {
    let desk = Desk::with_run_file(&example("agent-flow")).with_model(7, 4096);
    for (set, message) in [
        ("environment.wrap=[{ plugin = 'roles', workflow = [{ role = 'boss' }] }]", "has a role `boss`"),
        (
            "environment.wrap=[{ plugin = 'roles', workflow = [{ role = 'planner', next = 'executor' }, \
             { role = 'executor', actions = 1, next = 'planner' }] }]",
            "has the cycle planner → executor → planner and no limit",
        ),
        ("seats.planner.tools=['calculater']", "seats.planner.tools names `calculater`"),
        ("seats.planner.turns=0", "seats.planner.turns"),
        ("seats.planner.temperature=0.5", "only a frozen or separate seat has a temperature"),
        ("plugins.answer-match.seat='answer'", "plugins.answer-match.seat is `answer`"),
        ("seats.answer.tools=[]", "[seats.answer] is unknown"),
    ] {
        let refused = run(&desk, WORKFLOWS[0].plugins, &["--set", set]).mistake(set);
        assert!(refused.contains(message), "{set}: {refused}");
        assert!(!desk.path("out").exists(), "{set}");
    }
}
