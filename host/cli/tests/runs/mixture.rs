//! Runs with several environments: shares, figures of each, replay, resuming, evaluation, and environments that fail.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{Desk, files_below, json};
use gymkhana_record::{EpisodeRecord, Phase};
use serde_json::Value;

const PLUGINS: &str =
    "plugins/word-problems.wasm,plugins/frozen-lake.wasm,plugins/calculator.wasm,plugins/answer-match.wasm";

/// `examples/runs/mixture.toml` in a smaller size: steps of three groups, two of them stories.
const SMALLER: [&str; 14] = [
    "deterministic=true",
    "threads=1",
    "policy.tiny.layers=1",
    "policy.tiny.width=16",
    "policy.tiny.mlp=32",
    "policy.max_concurrent_sequences=8",
    "environments.stories.limits.reply_tokens=16",
    "environments.lake.limits.turns=6",
    "evaluation.tasks=2",
    "environments.stories.eval_tasks=3",
    "stages.sft.steps=2",
    "stages.sft.batch=6",
    "stages.rl.groups=3",
    "stages.rl.group_size=2",
];

/// Runs the example in its smaller size with this number of RL steps.
fn run(desk: &Desk, steps: u32) {
    let steps = format!("stages.rl.steps={steps}");
    let sets: Vec<&str> = SMALLER.into_iter().chain([steps.as_str()]).flat_map(|set| ["--set", set]).collect();
    desk.run(PLUGINS, &sets).succeeded();
}

/// Environment and task of each training group, by step.
fn groups(records: &[EpisodeRecord]) -> BTreeMap<(u64, u32), (String, u64)> {
    let mut groups = BTreeMap::new();
    for record in records.iter().filter(|record| record.id.phase == Phase::Train) {
        let environment = record.environment.clone().expect("a named environment");
        let task = (environment, record.task.index);
        let known = groups.entry((record.id.step, record.id.group)).or_insert_with(|| task.clone());
        assert_eq!(*known, task, "group {} of step {} mixes environments", record.id.group, record.id.step);
    }
    groups
}

/// The values of a line of the metrics.
fn values(desk: &Desk, line: usize) -> Value {
    let metrics = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let line: Value = serde_json::from_str(metrics.lines().nth(line).expect("a line")).expect("JSON");
    line["values"].clone()
}

#[test]
fn two_environments_are_trained_in_their_shares() {
    let desk = Desk::of_example("mixture.toml");
    run(&desk, 2);
    let records = desk.episodes();
    for step in 0..2 {
        let of_step = groups(&records).into_iter().filter(|((at, _), _)| *at == step);
        let names: Vec<String> = of_step.map(|(_, (environment, _))| environment).collect();
        let stories = names.iter().filter(|name| *name == "stories").count();
        assert_eq!((stories, names.len()), (2, 3), "step {step}");
    }
    let of = |name: &str, phase| {
        let own =
            move |record: &&EpisodeRecord| record.environment.as_deref() == Some(name) && record.id.phase == phase;
        records.iter().filter(own).collect::<Vec<_>>()
    };
    // Two steps of six demonstrations; two held-out tasks of the run, three of the stories, before and after each stage.
    assert_eq!((of("stories", Phase::Demonstration).len(), of("lake", Phase::Demonstration).len()), (8, 4));
    assert_eq!((of("stories", Phase::After).len(), of("lake", Phase::After).len()), (2 * 3, 2 * 2));
    // Each has its own limits, tools and success.
    assert!(of("lake", Phase::Train).iter().all(|record| record.turn_limit == 6 && record.scores.is_empty()));
    assert!(of("stories", Phase::Train).iter().all(|record| record.turn_limit == 3 && record.scores.len() == 1));
    let functions =
        |record: &EpisodeRecord| record.opening.functions.iter().map(|seat| seat.functions.len()).sum::<usize>();
    assert!(of("stories", Phase::Train).iter().all(|record| functions(record) == 1));
    assert!(of("lake", Phase::Train).iter().all(|record| functions(record) == 0));
    assert!(of("lake", Phase::Demonstration).iter().any(|record| record.success), "the oracle crosses nowhere");
    // Figures of each, and in total.
    let step = values(&desk, 2);
    let number = |key: &str| step[key].as_f64().unwrap_or_else(|| panic!("{key} in {step}"));
    assert_eq!((number("episodes"), number("stories/episodes"), number("lake/episodes")), (6.0, 4.0, 2.0));
    for key in ["reward", "success", "calls"] {
        let mean = (4.0 * number(&format!("stories/{key}")) + 2.0 * number(&format!("lake/{key}"))) / 6.0;
        assert!((number(key) - mean).abs() < 1e-9, "{key}: {step}");
    }
    assert_eq!(values(&desk, 0)["stories/demonstrations"].as_f64(), Some(4.0));
    let summary = json(&desk.path("out/summary.json"));
    let after = |name: &str| summary["stages"][1]["environments"][name]["after"]["greedy"].as_f64().expect("a rate");
    let total = (3.0 * after("stories") + 2.0 * after("lake")) / 5.0;
    assert!((summary["success"].as_f64().expect("a rate") - total).abs() < 1e-9, "{summary}");
    let shown = desk.host(&["show", "out"]).succeeded();
    assert!(shown.contains("         stories ") && shown.contains("            lake "), "{shown}");
    let listed = desk.host(&["show", "out", "--episodes", "all"]).succeeded();
    assert!(listed.contains(" lake:train/") && listed.contains(" stories:test/0"), "{listed}");
    // Records name their environment, so that each is replayed and scored by its own rules.
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
    let rescored = |set: &str| {
        let text = desk.host(&["rescore", "out", "--json", "--set", set]).succeeded();
        serde_json::from_str::<Value>(&text).expect("JSON")["changed"].as_u64().expect("a number")
    };
    assert_eq!(rescored("seed=1"), 0);
    let solved =
        records.iter().filter(|record| record.environment.as_deref() == Some("lake") && record.rewards != [0.0]);
    assert_eq!(rescored("environments.lake.weight=2"), solved.count() as u64);
}

/// The assignment of tasks continues where it stopped.
#[test]
fn a_resumed_mixture_plays_the_same_tasks() {
    let (whole, parts) = (Desk::of_example("mixture.toml"), Desk::of_example("mixture.toml"));
    run(&whole, 4);
    run(&parts, 2);
    parts.host(&["run", "--resume", "out", "--set", "stages.rl.steps=4"]).succeeded();
    let expected = groups(&whole.episodes());
    assert_eq!(expected.len(), 4 * 3);
    assert_eq!(groups(&parts.episodes()), expected);
    let tokens = |desk: &Desk| {
        let trained = desk.episodes().into_iter().filter(|record| record.id.phase == Phase::Train);
        trained.map(|record| (record.id, record.segments)).collect::<Vec<_>>()
    };
    assert!(tokens(&whole) == tokens(&parts), "the resumed run sampled other tokens");
}

#[test]
fn an_evaluation_covers_all_environments_in_one_table() {
    let desk = Desk::of_example("mixture.toml");
    run(&desk, 1);
    let arguments = ["eval", "out/checkpoints/1-000001", "out", "--tasks", "4"];
    let figures = desk.host(&[&arguments[..], &["--json"]].concat()).succeeded();
    let figures: Value = serde_json::from_str(&figures).expect("JSON");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{figures}"));
    assert_eq!(number(&figures["tasks"]), 8.0, "tasks with the same index are tasks of two environments");
    let own = |name: &str| &figures["environments"][name];
    assert_eq!((number(&own("lake")["figures"]["tasks"]), number(&own("stories")["figures"]["tasks"])), (4.0, 4.0));
    let mean = (number(&own("lake")["figures"]["success"]) + number(&own("stories")["figures"]["success"])) / 2.0;
    assert!((number(&figures["success"]) - mean).abs() < 1e-9);
    let table = desk.host(&arguments).succeeded();
    let words = |start: &str| {
        let line =
            table.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in {table}"));
        line.split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words("stories"), ["stories", "test", "4", "4"]);
    assert_eq!(words("lake"), ["lake", "test", "4", "4"]);
    assert_eq!(words("all")[1..3], ["8", "8"]);
}

/// A run of a sound environment and one that hangs at its start.
fn failing(stuck: &str) -> Desk {
    Desk::with_run_file(&format!(
        r#"
        seed = 1
        success = "environment.success"
        limits = {{ turns = 2, reply_tokens = 8 }}
        evaluation.tasks = 0
        sandbox.budget_seconds = 0.05
        policy.max_concurrent_sequences = 8
        policy.tiny = {{ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 128 }}
        environments = [
            {{ name = "sound", plugin = "guest-hostile-environment", options = {{ behaviour = "honest" }} }},
            {{ name = "stuck", plugin = "guest-hostile-environment", options = {{ behaviour = "loop-start" }}{stuck} }},
        ]
        stages = [{{ kind = "rl", steps = 2, groups = 10, group_size = 4 }}]
        "#
    ))
}

const HOSTILE: &str = "plugins/guest-hostile-environment.wasm";

#[test]
fn an_environment_that_hangs_is_dropped() {
    let desk = failing(", when_failing = \"drop\"");
    let outcome = desk.run(HOSTILE, &[]);
    assert!(
        outcome.talk.contains("environment `stuck` is dropped: 20 of 20 episodes of this stage failed, above"),
        "{}",
        outcome.talk
    );
    outcome.succeeded();
    let of_steps = |desk: &Desk| {
        let mut counts: BTreeMap<(u64, String), usize> = BTreeMap::new();
        for ((step, _), (environment, _)) in groups(&desk.episodes()) {
            *counts.entry((step, environment)).or_default() += 1;
        }
        counts
            .into_iter()
            .map(|((step, environment), count)| format!("{step} {environment} {count}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(of_steps(&desk), ["0 sound 5", "0 stuck 5", "1 sound 10"]);
    // A resumed run plays without it, too.
    desk.host(&["run", "--resume", "out", "--set", "stages.rl.steps=3"]).succeeded();
    assert_eq!(of_steps(&desk), ["0 sound 5", "0 stuck 5", "1 sound 10", "2 sound 10"]);
    let (first, last) = (groups(&desk.episodes())[&(0, 0)].1, groups(&desk.episodes())[&(2, 9)].1);
    assert_eq!(last - first, 24, "each of the 25 groups has the next task of the endless split");
}

#[test]
fn an_environment_that_hangs_stops_the_run_unless_the_file_says_so() {
    let refused = failing("").run(HOSTILE, &[]).mistake("an environment that hangs");
    for words in [
        "too many failures: 20 of 20 episodes of this stage in environment `stuck` failed",
        "set environments.stuck.when_failing = \"drop\" to train on without the environment",
    ] {
        assert!(refused.contains(words), "{refused}");
    }
    let last = failing(", when_failing = \"drop\"").run(HOSTILE, &["--set", "environments.sound.share=0"]);
    let last = last.mistake("the last environment");
    assert!(last.contains("the last environment is never dropped"), "{last}");
}

/// One message with the object and the fix, before anything is written.
#[test]
fn environments_that_do_not_fit_are_refused() {
    let example = fs::read_to_string(gymkhana_tests::root().join("examples/runs/mixture.toml")).expect("an example");
    let without = |line: &str| example.replace(line, "");
    for (title, text, plugins, words) in [
        ("both forms", format!("{example}\n[environment]\n"), PLUGINS, "[environment] and [[environments]] exclude"),
        ("one name", example.replace("\"lake\"", "\"stories\""), PLUGINS, "two environments are named `stories`"),
        ("a negative share", example.replace("share = 2", "share = -2"), PLUGINS, "environments.stories.share"),
        (
            "no share",
            example.replace("share = 2", "share = 0").replace("name = \"lake\"", "name = \"lake\"\nshare = 0"),
            PLUGINS,
            "the shares of all environments are 0",
        ),
        ("a misspelt key", example.replace("share = 2", "shares = 2"), PLUGINS, "did you mean `share`?"),
        (
            "another plugin",
            example.replace("\"frozen-lake\"", "\"frozen-lakes\""),
            PLUGINS,
            "--plugins gives no environment `frozen-lakes`",
        ),
        (
            "a tool without plugin",
            example.replace("calculator = {}", "calculators = {}"),
            PLUGINS,
            "environment `stories`: its `plugins` names `calculators`, and no such tool or reward is given",
        ),
        (
            "a reward without plugin",
            example.replace("answer-match = {}", "answer-mach = {}"),
            PLUGINS,
            "did you mean `answer-match`?",
        ),
        (
            "a success of another environment",
            without("success = \"environment.success\"\n"),
            PLUGINS,
            "environment `lake`: ",
        ),
        (
            "an unused plugin",
            example.clone(),
            format!("{PLUGINS},plugins/tic-tac-toe.wasm").as_str(),
            "plugin `tic-tac-toe` is used by no environment",
        ),
        (
            "other seats",
            example
                .replace("\"frozen-lake\"", "\"tic-tac-toe\"")
                .replace("frozen-lake = \"^0.1\"\n", "")
                .replace("map = \"random\", size = 4, slippery = false, turns = 16", ""),
            "plugins/word-problems.wasm,plugins/tic-tac-toe.wasm,plugins/calculator.wasm,plugins/answer-match.wasm",
            "the environments of a run have the same seats",
        ),
        (
            "a split that one lacks",
            example.replace("name = \"lake\"", "name = \"lake\"\neval = \"exam\""),
            PLUGINS,
            "environment `lake`: environment `frozen-lake` has no split `exam`",
        ),
    ] {
        let desk = Desk::with_run_file(&text);
        let message = desk.run(plugins, &[]).mistake(title);
        assert!(message.contains(words), "{message}");
        assert!(message.contains("\nhint: "), "{message}");
        assert!(files_below(&desk.path("out")).is_empty(), "{title}: a folder was left behind");
    }
}
