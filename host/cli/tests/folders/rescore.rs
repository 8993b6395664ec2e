//! Rescoring of recorded episodes: with the same reward, other options, another version, and unsuitable plugins.

use crate::common::{Desk, WORD_PROBLEMS, files_below};
use serde_json::Value;

/// Demonstrations, half of them with calls, and a step of an untrained model.
fn played() -> Desk {
    let desk = Desk::with_run_file(
        r#"
seed = 3
success = "answer-match.correct"

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 320 }

[limits]
turns = 4
reply_tokens = 40

[evaluation]
tasks = 0

[[stages]]
kind = "sft"
steps = 2
batch = 6

[[stages]]
kind = "rl"
steps = 1
groups = 2
group_size = 3
"#,
    );
    desk.run(WORD_PROBLEMS, &[]).succeeded();
    desk
}

fn answer_match() -> &'static str {
    WORD_PROBLEMS.split(',').find(|path| path.contains("answer-match")).expect("a reward")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn figure(report: &Value, name: &str, when: &str) -> f64 {
    report["figures"][name][when].as_f64().unwrap_or_else(|| panic!("no {name}: {report}"))
}

const PRICE: &str = "plugins.answer-match.options.per-call-cost=0.125";

#[test]
fn a_run_is_scored_again_and_left_as_it_is() {
    let desk = played();
    let before = files_below(&desk.path("out"));
    let same = json(&desk.host(&["rescore", "out", "--json"]).succeeded());
    assert_eq!((&same["episodes"], &same["changed"], &same["failed"]), (&18.into(), &0.into(), &0.into()));
    let priced = json(&desk.host(&["rescore", "out", "--json", "--set", PRICE, "--out", "scores.jsonl"]).succeeded());
    let calls = figure(&priced, "answer-match.calls", "now");
    assert!(calls > 0.0 && figure(&priced, "reward", "recorded") == figure(&same, "reward", "now"), "{priced}");
    let expected = figure(&priced, "answer-match.correct", "recorded") - 0.125 * calls;
    assert!((figure(&priced, "reward", "now") - expected).abs() < 1e-9, "{priced}");
    let lines = std::fs::read_to_string(desk.path("scores.jsonl")).expect("lines");
    let rewards: Vec<f64> = lines.lines().map(|line| json(line)["rewards"][0].as_f64().expect("a reward")).collect();
    assert_eq!(rewards.len(), 18);
    assert!((rewards.iter().sum::<f64>() / 18.0 - expected).abs() < 1e-9);
    assert_eq!(files_below(&desk.path("out")), before);
    let table = desk.host(&["rescore", "out", "--set", PRICE]).succeeded();
    assert!(table.contains("answer-match.cost") && table.contains("of 18 episodes changed"), "{table}");
}

/// 12 demonstrations, which the oracle solves, and 6 episodes of training.
#[test]
fn episodes_of_one_purpose_are_scored() {
    let desk = played();
    let only = |purpose: &str| json(&desk.host(&["rescore", "out", "--json", "--only", purpose]).succeeded());
    let (demonstrations, train) = (only("demonstrations"), only("train"));
    assert_eq!((&demonstrations["episodes"], &train["episodes"]), (&12.into(), &6.into()));
    assert_eq!(figure(&demonstrations, "success", "now"), 1.0);
    desk.host(&["rescore", "out", "--only", "evaluation"]).mistake("a run without evaluations");
    let table = desk.host(&["rescore", "out", "--only", "train"]).succeeded();
    assert!(table.starts_with("mean over training "), "{table}");
    // Without a choice, the purposes are apart: the oracle's success says nothing about the policy.
    let both = json(&desk.host(&["rescore", "out", "--json"]).succeeded());
    for (purpose, own) in [("demonstrations", &demonstrations), ("train", &train)] {
        assert_eq!(both["purposes"][purpose], own["figures"], "{both}");
    }
    let table = desk.host(&["rescore", "out"]).succeeded();
    for heading in ["mean over training ", "mean over demonstrations "] {
        assert_eq!(table.matches(heading).count(), 1, "{table}");
    }
    // Of 18 episodes, the oracle solves 12.
    let solved = json(&desk.host(&["rescore", "out", "--json", "--where", "success"]).succeeded());
    let count = solved["episodes"].as_u64().expect("a count");
    assert!((12..18).contains(&count) && figure(&solved, "success", "recorded") == 1.0, "{solved}");
    let unknown = desk.host(&["rescore", "out", "--where", "no-reward.total > 0"]).mistake("an unknown reward");
    assert!(unknown.contains("no-reward"), "{unknown}");
}

#[test]
fn two_versions_are_compared() {
    let desk = played();
    let both =
        |more: &[&str]| desk.host(&[&["reward", "diff", answer_match(), answer_match(), "--on", "out"], more].concat());
    let same = json(&both(&["--json"]).succeeded());
    assert_eq!((&same["scored"], &same["equal"], &same["reordered_pairs"]), (&18.into(), &18.into(), &0.into()));
    assert_eq!((same["rank_correlation"].as_f64(), same["worst"].as_array().map(Vec::len)), (Some(1.0), Some(0)));
    let priced = json(&both(&["--json", "--option-b", "per-call-cost=0.125", "--worst", "3"]).succeeded());
    let [a, b] = ["a", "b"].map(|side| priced[side]["mean"].as_f64().expect("a mean"));
    let cost = priced["components"]["cost"]["b"].as_f64().expect("a mean");
    assert!(cost > 0.0 && (a - cost - b).abs() < 1e-9, "{priced}");
    let worst = priced["worst"].as_array().expect("a list");
    let apart: Vec<f64> = worst
        .iter()
        .map(|pair| pair["a"]["total"].as_f64().expect("a total") - pair["b"]["total"].as_f64().expect("a total"))
        .collect();
    assert!(apart.len() == 3 && apart.is_sorted_by(|one, next| one >= next) && apart[2] > 0.0, "{apart:?}");
    assert!(!desk.path("out/reward-diffs").exists());
    let told = both(&["--option-b", "per-call-cost=0.125", "--worst", "1", "--keep"]).succeeded();
    let run = gymkhana_store::RunReader::open(&desk.path("out")).expect("a run");
    let [kept] = &run.reward_comparisons().expect("readable")[..] else { panic!("one is kept") };
    assert_eq!(kept.versions[1], "gymkhana/answer-match@0.1.0 per-call-cost=0.125");
    assert_eq!((kept.scored, kept.worst.len(), kept.b.map(|side| side.mean)), (18, 1, Some(b)));
    for line in ["A: gymkhana/answer-match@0.1.0\n", "B: gymkhana/answer-match@0.1.0 per-call-cost=0.125\n"] {
        assert!(told.contains(line), "{told}");
    }
    let worst = told.lines().find(|line| line.starts_with("  B: ")).expect("its score");
    assert!(
        worst.contains("(correct ") && worst.split("cost ").nth(1).is_some_and(|cost| cost.contains("0.")),
        "{told}"
    );
    let decimals = |number: &str| number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let numbers = worst.split([' ', ',', '(', ')']).filter(|word| word.parse::<f64>().is_ok());
    assert!(numbers.map(decimals).all(|decimals| decimals == 4), "{told}");
    assert!(told.contains("rank correlation: 0.") && told.contains("episode "), "{told}");
    assert!(!told.contains('\u{1b}') && told.matches("episode ").count() == 1, "{told}");
}

#[test]
fn what_cannot_score_is_refused_by_name() {
    let desk = played();
    let calculator = WORD_PROBLEMS.split(',').find(|path| path.contains("calculator")).expect("a tool");
    let refused = |arguments: &[&str]| {
        let outcome = desk.host(arguments);
        assert_eq!(outcome.code, Some(2), "{}", outcome.talk);
        outcome.talk
    };
    let on = ["--on", "out"];
    assert!(refused(&["rescore", "out", "--plugins", calculator]).contains("`gymkhana/calculator` is not a reward"));
    assert!(refused(&[&["reward", "diff", answer_match(), calculator], &on[..]].concat()).contains("is not a reward"));
    let misspelt = [&["reward", "diff", answer_match(), answer_match()], &on[..], &["--option-a", "per-cal-cost=1.0"]];
    assert!(refused(&misspelt.concat()).contains("did you mean `per-call-cost`?"));
    assert!(refused(&["rescore", "nowhere"]).contains("nowhere"));
    assert!(
        refused(&["rescore", "out", "--out", "no/folder/file"]).contains("--out `no/folder/file` cannot be written")
    );
}

/// Frozen lakes have no privileged `answer`: not one of the episodes can be scored by `answer-match`.
#[test]
fn a_reward_that_can_score_no_episode_is_an_error() {
    let desk = Desk::with_run_file(
        r#"
success = "environment.success"

[policy]
max_concurrent_sequences = 8
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 320 }

[limits]
turns = 3
reply_tokens = 8

[evaluation]
tasks = 0

[[stages]]
kind = "rl"
steps = 1
groups = 2
group_size = 2
"#,
    );
    desk.run("plugins/frozen-lake.wasm", &[]).succeeded();
    let arguments = ["rescore", "out", "--plugins", answer_match(), "--out", "scores.jsonl"];
    for more in [vec![], vec!["--json"]] {
        let message = desk.host(&[&arguments[..], &more].concat()).mistake("nothing can be scored");
        assert!(
            message.contains("no episode could be scored: ") && message.contains("privileged `answer`"),
            "{message}"
        );
        assert!(message.contains("\nhint: check the options of the reward and the fields that it needs"), "{message}");
    }
    // The file lists each failure.
    let lines = std::fs::read_to_string(desk.path("scores.jsonl")).expect("lines");
    assert!(lines.lines().count() == 4 && lines.lines().all(|line| line.contains("privileged `answer`")), "{lines}");
}
