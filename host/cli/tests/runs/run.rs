//! A whole run as seen from outside: its folder, its output, and its replay.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{Desk, SMALL_RUN, WORD_PROBLEMS, files_below, json, resealed};
use gymkhana_record::{EpisodeId, EpisodeRecord, Phase};
use gymkhana_registry::{Digest, Lock};
use serde_json::Value;

/// Episodes of the small run: two evaluations before and two after each stage, where those before the second stage are
/// those after the first; demonstrations; groups.
const EPISODES: usize = 3 * 2 * 4 + 2 * 4 + 2 * 4 * 4;

/// A desk with a finished small run.
fn finished() -> Desk {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    desk
}

/// Checks a text after masking times, rates, digests and floating-point results.
fn check(name: &str, text: &str) {
    insta::with_settings!({
        filters => vec![
            (r"[0-9a-f]{64}", "[DIGEST]"),
            (r"tfevents\.\d+\.\d+\.", "tfevents.[TIME]."),
            (r"\d+ s\b", "[SECONDS] s"),
            (r"[\d.]+/s", "[RATE]/s"),
            (r"[▁▂▃▄▅▆▇█]+  [\d.]+ % to [\d.]+ % in", "[CURVE] [SHARE] to [SHARE] in"),
            (r"(training \S+ of rl:) -?[\d.]+ to -?[\d.]+", "$1 [FIRST] to [LAST]"),
            (r"\d+ tokens", "[COUNT] tokens"),
            (r"(success|sampled) [\d.]+( %)? to [\d.]+( %)?", "$1 [SHARE] to [SHARE]"),
            (r"success [\d.]+ % on", "success [SHARE] on"),
            (r"at the end: [\d.]+ % \(sampled [\d.]+ %\)", "at the end: [SHARE] (sampled [SHARE])"),
        ],
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn the_folder_holds_what_the_readme_lists() {
    let desk = finished();
    let files: Vec<String> = files_below(&desk.path("out")).into_iter().map(|(path, _)| path).collect();
    check("files", &files.join("\n"));
    // The plugins are the given ones by digest, and the lock file pins them.
    let lock = Lock::read(&desk.path("out/gymkhana.lock")).expect("a lock file");
    let pinned: Vec<(&str, Digest)> = lock.entries().iter().map(|entry| (entry.name.name(), entry.digest)).collect();
    let given = ["answer-match", "calculator", "word-problems"];
    let digest = |name: &str| Digest::of(&fs::read(desk.path(&format!("plugins/{name}.wasm"))).expect("a plugin"));
    assert_eq!(pinned, given.map(|name| (name, digest(name))));
    for (_, digest) in pinned {
        let kept = fs::read(desk.path(&format!("out/plugins/{digest}.wasm"))).expect("a plugin that was kept");
        assert_eq!(Digest::of(&kept), digest);
    }
    // The resolved run file is a run file and resolves to itself.
    let resolved = fs::read_to_string(desk.path("out/run.toml")).expect("the resolved run file");
    let again = Desk::with_run_file(&resolved);
    again.run(WORD_PROBLEMS, &["--set", "seed=1"]).succeeded();
    assert_eq!(fs::read_to_string(again.path("out/run.toml")).expect("the run file"), resolved);
}

#[test]
fn every_episode_is_recorded_and_the_summary_counts_them() {
    let desk = finished();
    let records = desk.episodes();
    assert_eq!(records.len(), EPISODES);
    let summary = json(&desk.path("out/summary.json"));
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&summary), ["schema", "stages", "success", "success_sampled", "seconds", "digest"]);
    let stages = summary["stages"].as_array().expect("a list");
    let [sft, rl] = &stages[..] else { panic!("{stages:?}") };
    let shape = [
        "name",
        "success_before",
        "success_after",
        "success_before_sampled",
        "success_after_sampled",
        "episodes",
        "tokens",
        "seconds",
    ];
    assert_eq!((keys(sft), keys(rl)), (shape.map(str::to_owned).to_vec(), shape.map(str::to_owned).to_vec()));
    let tokens = |stage: u32, phase: Phase| {
        let trained = records.iter().filter(|record| (record.id.stage, record.id.phase) == (stage, phase));
        trained.map(EpisodeRecord::sampled_tokens).sum::<usize>()
    };
    assert_eq!((&sft["name"], &sft["episodes"]), (&"sft".into(), &8.into()));
    assert_eq!((&rl["name"], &rl["episodes"]), (&"rl".into(), &32.into()));
    assert_eq!(sft["tokens"], tokens(0, Phase::Demonstration));
    assert_eq!(rl["tokens"], tokens(1, Phase::Train));
    // Success is the share of held-out tasks solved after the last stage, each played once.
    let after: Vec<&EpisodeRecord> =
        records.iter().filter(|record| (record.id.stage, record.id.phase) == (1, Phase::After)).collect();
    let tasks: Vec<String> = after.iter().map(|record| record.task.to_string()).collect();
    assert_eq!(tasks, ["test/0", "test/1", "test/2", "test/3"]);
    let solved = after.iter().filter(|record| record.success).count() as f64 / 4.0;
    assert_eq!((&summary["success"], &rl["success_after"]), (&solved.into(), &solved.into()));
    assert_eq!(rl["success_before"], sft["success_after"]);
    assert!(summary["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{summary}");
}

/// The tokens of each reply in an episode, by its turn.
fn replies(record: &EpisodeRecord) -> Vec<Vec<u32>> {
    let mut replies: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for segment in &record.segments {
        for (token, (turn, sampled)) in segment.tokens().iter().zip(segment.turns().iter().zip(segment.sampled())) {
            if *sampled {
                replies.entry(*turn).or_default().push(*token);
            }
        }
    }
    replies.into_values().collect()
}

#[test]
fn metrics_have_a_line_for_every_step() {
    let desk = finished();
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let steps: Vec<[&Value; 3]> = lines.iter().map(|line| [&line["schema"], &line["stage"], &line["step"]]).collect();
    assert_eq!(serde_json::json!(steps), serde_json::json!([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]));
    for line in &lines {
        let values = line["values"].as_object().expect("an object");
        assert!(values.values().all(Value::is_number), "every measure is a finite number: {line}");
        for name in ["loss", "gradient_norm", "learning_rate", "tokens"] {
            assert!(values.contains_key(name), "{name} is missing: {line}");
        }
    }
    for line in &lines[2..] {
        assert_eq!(line["values"]["episodes"], 16.0);
        assert_eq!(line["values"]["updates"], 1.0, "calls cost points, so that rewards differ and weights move");
        // A mean over episodes, recomputed from the stored ones.
        let step = line["step"].as_u64().expect("a step");
        let records = desk.episodes();
        let played: Vec<&EpisodeRecord> =
            records.iter().filter(|record| (record.id.phase, record.id.step) == (Phase::Train, step)).collect();
        // A reply that its limit cut does not end with the end-of-turn token.
        let end = json(&desk.path("out/checkpoints/1-000002/config.json"))["eos_token_id"].as_u64().expect("a token");
        let replies: Vec<Vec<u32>> = played.iter().flat_map(|record| replies(record)).collect();
        let mean = |value: &dyn Fn(&Vec<u32>) -> f64| replies.iter().map(value).sum::<f64>() / replies.len() as f64;
        let cut = mean(&|reply| f64::from(u8::from(reply.last().map(|last| u64::from(*last)) != Some(end))));
        let length = mean(&|reply| reply.len() as f64);
        for (name, expected) in [("cut_replies", cut), ("reply_tokens", length)] {
            let found = line["values"][name].as_f64().expect("a number");
            assert!((found - expected).abs() < 1e-12, "{name}: {found} is not {expected}");
        }
        let reward = played.iter().map(|record| record.rewards[0]).sum::<f64>() / 16.0;
        let measured = line["values"]["reward"].as_f64().expect("a number");
        assert!((measured - reward).abs() < 1e-12, "{measured} is not {reward}");
    }
}

#[test]
fn results_stand_on_standard_output_and_talk_on_standard_error() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let outcome = desk.run(WORD_PROBLEMS, &[]);
    for progress in [
        "measuring (greedy) 4/4",
        "measuring (sampled) 4/4",
        "sft: demonstrations 2/2",
        "sft: measuring (greedy) 4/4",
        "rl: training 2/2",
        "rl: measuring (sampled) 4/4",
    ] {
        assert!(outcome.talk.contains(progress), "{progress}: {}", outcome.talk);
    }
    for line in [
        "plugins: gymkhana/answer-match ",
        "stages: sft (2 steps, learning rate 1e-3), rl (2 steps, learning rate 1e-2)\n",
        "folder: out\n",
        "next: host show out\n",
        "next: host eval out/checkpoints/1-000002 out\n",
    ] {
        assert!(outcome.talk.contains(line), "{line}: {}", outcome.talk);
    }
    assert!(outcome.talk.contains("model: tiny, ") && outcome.talk.contains(" parameters, on cpu\n"), "{outcome:?}");
    assert!(!outcome.talk.contains("stage sft: "), "a result is printed once: {}", outcome.talk);
    assert!(!outcome.talk.contains("error") && !outcome.talk.contains('\u{1b}'), "{}", outcome.talk);
    check("results-of-run", &outcome.succeeded());
}

#[test]
fn a_replay_finds_every_byte_equal() {
    let desk = finished();
    let all = desk.host(&["replay", "out"]);
    assert!(all.talk.contains(&format!("replay {EPISODES}/{EPISODES}")), "{}", all.talk);
    let equal = format!("{EPISODES} episodes replayed, every byte equal: {EPISODES}\n");
    assert_eq!(all.succeeded(), equal);
    let one = desk.host(&["replay", "out", "--episode", "1.train.1.2.3.0"]);
    assert_eq!(one.succeeded(), "1 episode replayed, every byte equal: 1\n");
    let forked = desk.host(&["replay", "out", "--forks"]);
    let told = format!("{equal}episodes with equal forks: {EPISODES}\nforks replayed: ");
    let forks = forked.succeeded().strip_prefix(&told).and_then(|rest| rest.trim().parse::<usize>().ok());
    // Every episode has a fork before each of its turns.
    assert!(forks.is_some_and(|forks| forks >= EPISODES), "{forks:?}");
    let fork = |turn: &str| desk.host(&["replay", "out", "--episode", "1.train.1.2.3.0", "--fork", turn]);
    let told = "1 episode replayed, every byte equal: 1\nepisodes with equal forks: 1\nforks replayed: 1\n";
    assert_eq!(fork("0").succeeded(), told);
    let refused = fork("99").mistake("an episode without this turn");
    assert!(refused.contains("turns: it can be forked before turn 0 to"), "{refused}");
}

/// The order of `--plugins` does not matter: prompts and sums of rewards are the same in every order.
#[test]
fn plugins_may_be_given_in_any_order() {
    let plugins = ["word-problems", "guest-hostile-tool", "calculator", "guest-hostile-reward", "answer-match"];
    let given = plugins.map(|name| format!("plugins/{name}.wasm"));
    let sorted = {
        let mut sorted = given.clone();
        sorted.sort();
        sorted.join(",")
    };
    let given = given.join(",");
    assert_ne!(given, sorted);
    let desk = Desk::with_run_file(SMALL_RUN);
    let roomy = ["--set", "policy.tiny.context=2048"];
    desk.run(&given, &roomy).succeeded();
    let records = desk.episodes();
    let functions = &records[0].opening.functions[0].functions;
    assert!(functions.len() >= 2, "two tools offer functions");
    assert_eq!(records[0].scores.len(), 2, "two rewards score");
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert_eq!(replayed, format!("{EPISODES} episodes replayed, every byte equal: {EPISODES}\n"));
    desk.run(&sorted, &[&roomy[..], &["--resume"]].concat()).succeeded();
}

#[test]
fn a_replay_tells_what_is_not_as_it_was() {
    let desk = finished();
    let run_file = fs::read_to_string(desk.path("out/run.toml")).expect("the resolved run file");
    assert!(run_file.contains("per-call-cost = 0.5"), "{run_file}");
    let edited = run_file.replace("per-call-cost = 0.5", "per-call-cost = 0.25");
    desk.write("out/run.toml", &edited);
    let refused = desk.host(&["replay", "out"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.talk.contains("`out/run.toml` is damaged: its digest does not match"), "{}", refused.talk);
    desk.write("out/run.toml", resealed(&edited));
    // Every demonstration makes a call, whose cost has changed.
    let outcome = desk.host(&["replay", "out", "--episode", "0.demo.0.0.0.0"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert_eq!(outcome.results, "1 episode replayed, every byte equal: 0\n");
    check("replay-that-differs", &outcome.talk);
}

#[test]
fn a_plugin_that_was_altered_is_refused_by_its_digest() {
    let desk = finished();
    let digest = Digest::of(&fs::read(desk.path("plugins/calculator.wasm")).expect("a plugin"));
    let kept = desk.path(&format!("out/plugins/{digest}.wasm"));
    let mut bytes = fs::read(&kept).expect("the plugin that was kept");
    // A byte of its code, so that the component stays valid.
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&kept, bytes).expect("a file can be written");
    let outcome = desk.host(&["replay", "out"]);
    assert_eq!((outcome.code, outcome.results.as_str()), (Some(2), ""), "{outcome:?}");
    check("altered-plugin", &outcome.talk);
}

#[test]
fn success_that_is_not_measured_is_not_said_to_be_zero() {
    let desk = Desk::with_run_file(SMALL_RUN);
    let results = desk.run(WORD_PROBLEMS, &["--set", "evaluation.tasks=0"]).succeeded();
    assert!(results.contains("stage rl: success not measured, 32 episodes"), "{results}");
    let summary = json(&desk.path("out/summary.json"));
    let measured =
        [&summary["success"], &summary["stages"][0]["success_before"], &summary["stages"][1]["success_after"]];
    assert_eq!(measured, [&Value::Null; 3], "{summary}");
    let shown = desk.host(&["show", "out"]).succeeded();
    assert!(shown.contains("success not measured on held-out tasks"), "{shown}");
}

/// A closed reader is not an error; a full output device is one.
#[test]
fn results_that_cannot_be_written_are_an_error() {
    let desk = finished();
    let to = |file: &str| {
        let file = fs::OpenOptions::new().write(true).open(file).expect("a device");
        desk.command(&["show", "out"]).stdout(file).output().expect("the command can be started")
    };
    let full = to("/dev/full");
    assert_eq!(full.status.code(), Some(2), "{full:?}");
    assert!(String::from_utf8_lossy(&full.stderr).contains("standard output"), "{full:?}");
    assert_eq!(to("/dev/null").status.code(), Some(0));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let gone = desk.command(&["show", "out"]).stdout(writer).output().expect("the command can be started");
    assert_eq!((gone.status.code(), gone.stderr.as_slice()), (Some(0), &b""[..]), "{gone:?}");
}

#[test]
fn show_prints_a_run_at_a_glance() {
    let desk = finished();
    check("show-run", &desk.host(&["show", "out"]).succeeded());
    let json = desk.host(&["show", "out", "--json"]).succeeded();
    let view: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((view["schema"].as_u64(), view["state"].as_str()), (Some(1), Some("finished")));
    assert_eq!(view["plugins"].as_array().map(Vec::len), Some(3));
    let newest = view["checkpoints"].as_array().and_then(|all| all.last()?.as_str()).expect("a checkpoint");
    assert!(desk.path(newest).is_dir(), "{newest}");
    // Rewards and components, recomputed from the stored episodes.
    let [training] = &view["curves"].as_array().expect("a list")[..] else { panic!("one stage has a success: {view}") };
    let records = desk.episodes();
    let mean = |step: u64, value: &dyn Fn(&EpisodeRecord) -> f64| {
        let of_step = records.iter().filter(|record| (record.id.phase, record.id.step) == (Phase::Train, step));
        let values: Vec<f64> = of_step.map(value).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let steps = |value: &dyn Fn(&EpisodeRecord) -> f64| [0, 1].map(|step| mean(step, value));
    let is_near = |found: &Value, expected: f64| (found.as_f64().expect("a number") - expected).abs() < 1e-12;
    for (step, expected) in steps(&|record| record.rewards[0]).into_iter().enumerate() {
        assert!(is_near(&training["reward"][step], expected), "step {step}: {expected} in {training}");
    }
    let components = training["components"].as_array().expect("a list");
    let names: Vec<&str> = components.iter().filter_map(|component| component["name"].as_str()).collect();
    assert_eq!(names, ["answer-match.calls", "answer-match.correct", "answer-match.cost"]);
    let [first, last] = steps(&|record| {
        let parts = &record.scores[0].scores[0].components;
        parts.iter().find(|part| part.name == "cost").expect("a component").value
    });
    assert!(is_near(&components[2]["first"], first) && is_near(&components[2]["last"], last), "{training}");
    // A run is not a model; the message names the newest.
    let told = desk.host(&["generate", "out", "hello"]).mistake("a run as a model");
    assert!(told.contains(&format!("its newest model is `{newest}`")), "{told}");
}

#[test]
fn episodes_are_listed_by_outcome_and_reward() {
    let desk = finished();
    let list = |which: &str, more: &[&str]| -> Vec<Value> {
        let arguments = [&["show", "out", "--json", "--limit", "100", "--episodes", which], more].concat();
        serde_json::from_str(&desk.host(&arguments).succeeded()).expect("JSON")
    };
    let all = list("all", &[]);
    assert_eq!(list("solved", &[]).len() + list("unsolved", &[]).len(), all.len());
    assert!(list("failed", &[]).iter().all(|row| row["failures"].as_u64() > Some(0)));
    let rewards = |rows: &[Value]| -> Vec<f64> { rows.iter().filter_map(|row| row["rewards"][0].as_f64()).collect() };
    let (best, worst) = (rewards(&list("best", &[])), rewards(&list("worst", &[])));
    assert!(best.is_sorted_by(|one, other| one >= other) && worst.is_sorted(), "{best:?}, {worst:?}");
    let demonstrations = list("all", &["--stage", "sft"]);
    assert!(demonstrations.iter().all(|row| row["episode"].as_str().is_some_and(|id| id.starts_with("0."))));
    desk.host(&["show", "out", "--episodes", "all", "--stage", "other"]).mistake("another stage");
    let table = desk.host(&["show", "out", "--episodes", "all", "--limit", "2"]).succeeded();
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.ends_with(&format!("2 of {} episodes; --limit shows more\n", all.len())), "{table}");
}

/// Twelve instances suffice for one group of four, each with an environment, a tool and a reward.
#[test]
fn episodes_do_not_wait_for_each_other_when_places_are_few() {
    let desk = Desk::with_run_file(SMALL_RUN);
    desk.run(WORD_PROBLEMS, &["--set", "sandbox.instances=12", "--set", "policy.max_concurrent_sequences=64"])
        .succeeded();
    let records = desk.episodes();
    assert_eq!(records.len(), EPISODES);
    assert!(records.iter().all(|record| record.failures.is_empty()));
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {EPISODES}")), "{replayed}");
}

/// `examples/runs/frozen-lake.toml` in a smaller size: no line of the host knows the environment.
#[test]
fn another_environment_needs_only_another_plugin_and_run_file() {
    let example =
        fs::read_to_string(gymkhana_tests::root().join("examples/runs/frozen-lake.toml")).expect("an example");
    let desk = Desk::with_run_file(&example);
    let smaller = [
        "policy.tiny.layers=1",
        "policy.tiny.width=16",
        "policy.tiny.mlp=32",
        "policy.max_concurrent_sequences=8",
        "limits.turns=8",
        "evaluation.tasks=4",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.rl.steps=2",
        "stages.rl.groups=4",
        "stages.rl.group_size=2",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run("plugins/frozen-lake.wasm", &sets).succeeded();
    let records = desk.episodes();
    let mut phases: BTreeMap<(u32, Phase), usize> = BTreeMap::new();
    for EpisodeId { stage, phase, .. } in records.iter().map(|record| record.id) {
        *phases.entry((stage, phase)).or_default() += 1;
    }
    assert_eq!((phases[&(0, Phase::Demonstration)], phases[&(1, Phase::Train)]), (8, 16));
    let demonstrations = records.iter().filter(|record| record.id.phase == Phase::Demonstration);
    assert!(demonstrations.clone().all(|record| record.turns.len() > 2), "a crossing takes several turns");
    assert!(demonstrations.clone().any(|record| record.success), "the oracle crosses nowhere");
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
    // A demonstration: no model takes part.
    check("show-frozen-lake", &desk.host(&["show", "out", "--episode", "0.demo.0.0.0.0"]).succeeded());
}

/// `examples/runs/text-to-sql.toml` in a smaller size: the environment prepares the tool's database, which is recorded.
#[test]
fn an_environment_prepares_the_database_of_a_tool() {
    let example =
        fs::read_to_string(gymkhana_tests::root().join("examples/runs/text-to-sql.toml")).expect("an example");
    let desk = Desk::with_run_file(&example);
    let smaller = [
        "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 2048 }",
        "policy.max_concurrent_sequences=8",
        "limits.reply_tokens=16",
        "evaluation.tasks=2",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.rl.steps=1",
        "stages.rl.groups=2",
        "stages.rl.group_size=2",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run("plugins/text-to-sql.wasm,plugins/sql.wasm,plugins/tool-match.wasm", &sets).succeeded();
    let records = desk.episodes();
    let demonstrations: Vec<_> = records.iter().filter(|record| record.id.phase == Phase::Demonstration).collect();
    assert!(demonstrations.len() == 8 && demonstrations.iter().all(|record| record.success), "the expert's are right");
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", records.len())), "{replayed}");
}

/// `examples/runs/own-questions.toml` in a smaller size: the questions come from a file.
#[test]
fn own_questions_are_trained_on() {
    let root = gymkhana_tests::root().join("examples");
    let example = fs::read_to_string(root.join("runs/own-questions.toml")).expect("an example");
    let desk = Desk::with_run_file(&example.replace("../data/own-questions.jsonl", "questions.jsonl"));
    let questions = fs::read_to_string(root.join("data/own-questions.jsonl")).expect("questions");
    desk.write("questions.jsonl", &questions);
    let smaller = [
        "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 256 }",
        "evaluation.tasks=2",
        "stages.sft.steps=2",
        "stages.sft.batch=4",
        "stages.rl.steps=1",
        "stages.rl.groups=2",
        "stages.rl.group_size=2",
    ];
    let sets: Vec<&str> = smaller.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run("plugins/dataset.wasm,plugins/answer-match.wasm", &sets).succeeded();
    let records = desk.episodes();
    let demonstrations: Vec<_> = records.iter().filter(|record| record.id.phase == Phase::Demonstration).collect();
    assert!(demonstrations.len() == 8 && demonstrations.iter().all(|record| record.success), "the answers are right");
}
