//! Symptoms of runs that do not learn: each row of `docs/how-to/my-run-does-not-learn.md` from a small run, beside the same
//! run with the key that the row names.

use std::fs;

use gymkhana_record::Ending;
use serde_json::Value;

use super::health::{assert_unusual, unusual};
use crate::common::{Desk, WORD_PROBLEMS};

/// Three steps of reinforcement learning from random weights. Calls cost points, so that rewards vary.
const RL: &str = "[[stages]]\nkind = \"rl\"\nsteps = 3\ngroups = 3\ngroup_size = 4\n";

/// Three steps of supervised fine-tuning.
const SFT: &str = "[[stages]]\nkind = \"sft\"\nsteps = 3\nbatch = 4\n";

/// A run of frozen lakes, whose episodes have many turns.
const LAKES: &str = r#"
seed = 3
limits = { turns = 12, reply_tokens = 8 }
evaluation = { tasks = 0 }
environment.options = { turns = 12 }

[policy]
max_concurrent_sequences = 12
tiny = { layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 2048 }

[[stages]]
kind = "rl"
steps = 1
groups = 3
group_size = 4
"#;

/// A finished run of these stages with overrides.
fn run(stages: &str, sets: &[&str]) -> Desk {
    let desk = Desk::of_groups(stages);
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    desk.run(WORD_PROBLEMS, &sets).succeeded();
    desk
}

/// Asserts that these checks of the run's health are within their usual ranges.
#[track_caller]
fn assert_usual(desk: &Desk, checks: &[&str]) {
    let unusual = unusual(desk);
    assert!(!checks.iter().any(|check| unusual.iter().any(|found| found == check)), "{unusual:?}");
}

/// A metric of every step that reports it.
fn figures(desk: &Desk, name: &str) -> Vec<f64> {
    let text = fs::read_to_string(desk.path("out/metrics.jsonl")).expect("metrics");
    let value = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["values"][name].as_f64();
    text.lines().filter_map(value).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn equal_rewards_leave_no_advantage() {
    let flat = run(RL, &["plugins.answer-match.options.per-call-cost=0.0"]);
    assert_eq!(figures(&flat, "episodes_with_advantage"), [0.0; 3]);
    assert_eq!((figures(&flat, "updates"), figures(&flat, "advantage_std")), (vec![0.0; 3], vec![0.0; 3]));
    assert_unusual(&flat, &[("groups-without-signal", "`environment.options`"), ("updates", "`sampler.kind`")]);
    let varied = run(RL, &[]);
    assert_usual(&varied, &["groups-without-signal", "updates"]);
    assert!(figures(&varied, "episodes_with_advantage").iter().all(|count| *count > 0.0));
    assert_eq!(figures(&varied, "updates"), [1.0; 3]);
}

#[test]
fn short_replies_are_cut() {
    let desk = run(RL, &[]);
    assert_unusual(&desk, &[("cut-replies", "`limits.reply_tokens`")]);
    let short = figures(&desk, "cut_replies");
    assert!(short.iter().all(|share| *share > 0.5), "{short:?}");
    let long = figures(&run(RL, &["limits.reply_tokens=200", "stages.rl.steps=1"]), "cut_replies");
    assert!(long[0] < short[0], "{long:?} after {short:?}");
}

#[test]
fn calls_that_cannot_be_read_are_malformed() {
    let untaught = run(RL, &[]);
    assert!(highest(&figures(&untaught, "malformed_calls")) > 0.3, "a random model writes marks of calls");
    assert_eq!(figures(&untaught, "calls"), [0.0; 3]);
    assert_unusual(&untaught, &[("functions", "`policy.tool_format`")]);
    // In a format without such marks there is no call to misread.
    let other = run(RL, &["policy.tool_format=pythonic"]);
    assert_eq!(figures(&other, "malformed_calls"), [0.0; 3]);
    assert_usual(&other, &["malformed-calls"]);
}

#[test]
fn a_narrow_context_ends_episodes() {
    let desk = Desk::with_run_file(LAKES);
    let lake = "plugins/frozen-lake.wasm";
    desk.run(lake, &["--set", "limits.context_tokens=200"]).succeeded();
    assert_eq!(figures(&desk, "cut_short"), [1.0]);
    assert!(desk.episodes().iter().all(|record| record.ending == Ending::ContextLimit));
    assert_unusual(&desk, &[("endings", "`limits.context_tokens`")]);
    let shown = desk.host(&["show", "out", "--episodes", "unsolved"]).succeeded();
    assert_eq!(shown.matches("context-limit").count(), 12, "{shown}");
    for cure in ["limits.context_tokens=2048", "context.strategy=state"] {
        fs::remove_dir_all(desk.path("out")).expect("removed");
        desk.run(lake, &["--set", cure]).succeeded();
        assert!(desk.episodes().iter().all(|record| record.ending != Ending::ContextLimit), "{cure}");
    }
}

/// The prompt is the same in all episodes, so that a context of two tokens more is nearly full.
#[test]
fn prompts_near_the_end_of_the_context_are_found() {
    let desk = Desk::with_run_file(LAKES);
    let system = format!("policy.system={:?}", "Go to the goal. ".repeat(20));
    let run = |context: usize| {
        let context = format!("limits.context_tokens={context}");
        let sets = ["limits.turns=1", "limits.reply_tokens=2", &context, &system];
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        desk.run("plugins/frozen-lake.wasm", &sets).succeeded();
    };
    run(2048);
    assert_usual(&desk, &["context"]);
    let prompts = desk.episodes().into_iter().filter_map(|record| Some(record.segments[0].replies().next()?.start));
    let longest = prompts.max().expect("a prompt");
    fs::remove_dir_all(desk.path("out")).expect("removed");
    run(longest + 2);
    assert_unusual(&desk, &[("context", "`limits.context_tokens`")]);
}

#[test]
fn a_high_learning_rate_exceeds_the_bound_of_a_step() {
    let at = |rate: &str| run(RL, &[&format!("stages.rl.optimizer.learning_rate={rate}")]);
    let divergence = |desk: &Desk| figures(desk, "step_divergence");
    let desk = at("1.0");
    assert_unusual(&desk, &[("step-size", "lower `stages.rl.optimizer.learning_rate`")]);
    let high = divergence(&desk);
    assert!(high.iter().all(|divergence| *divergence > 1.0), "{high:?}");
    let desk = at("1e-4");
    assert_usual(&desk, &["step-size"]);
    let usual = divergence(&desk);
    assert!(usual.iter().all(|divergence| *divergence < 1e-4), "{usual:?}");
    let desk = at("1e-9");
    assert_unusual(&desk, &[("step-size", "raise `stages.rl.optimizer.learning_rate`")]);
    let low = divergence(&desk);
    assert!(highest(&low) < 0.01 * highest(&usual), "{low:?} and {usual:?}");
}

#[test]
fn steps_without_a_bound_let_entropy_collapse() {
    let rate = "stages.rl.optimizer.learning_rate=1.0";
    let collapsed = run(RL, &[rate, "stages.rl.step_divergence=0.0"]);
    let entropy = figures(&collapsed, "entropy");
    assert!(entropy[1] < 0.75 * entropy[0], "{entropy:?}");
    assert_unusual(&collapsed, &[("entropy", "`stages.rl.settings.entropy_bonus`")]);
    assert_eq!(figures(&collapsed, "episodes_with_advantage")[1..], [0.0; 2], "all replies are alike");
    let desk = run(RL, &[rate]);
    assert_usual(&desk, &["entropy"]);
    let bounded = figures(&desk, "entropy");
    assert!(bounded[2] > 0.95 * bounded[0], "{bounded:?}");
}

#[test]
fn overlap_makes_tokens_stale() {
    let sets = ["stages.rl.steps=6", "stages.rl.max_staleness=2"];
    assert!(highest(&figures(&run(RL, &sets), "staleness_mean")) > 0.0);
    assert_eq!(figures(&run(RL, &sets[..1]), "staleness_mean"), [0.0; 6]);
}

#[test]
fn a_gradient_that_is_not_finite_skips_the_step() {
    let broken = run(SFT, &["stages.sft.optimizer.learning_rate=1e20"]);
    assert_eq!(figures(&broken, "skipped_updates"), [0.0, 1.0, 1.0], "the first step destroys the weights");
    assert_unusual(&broken, &[("skipped-updates", "`stages.sft.optimizer.learning_rate`")]);
    let sound = run(SFT, &["stages.sft.optimizer.learning_rate=1e-3"]);
    assert_eq!(figures(&sound, "skipped_updates"), [0.0; 3]);
    assert_usual(&sound, &["skipped-updates", "updates", "demonstrations"]);
}

/// No reply is right, and a call costs points: the policy learns to call nothing.
#[test]
fn a_reward_for_something_else_rises_without_success() {
    let sets = ["stages.rl.steps=15", "stages.rl.optimizer.learning_rate=1e-2", "stages.rl.step_divergence=0.05"];
    let desk = run(RL, &sets);
    let reward = figures(&desk, "reward");
    assert!(mean(&reward[10..]) > mean(&reward[..5]) + 0.05, "{reward:?}");
    assert_eq!(figures(&desk, "success"), [0.0; 15]);
    assert_unusual(&desk, &[("reward-and-success", "`plugins.NAME.gate`")]);
}

#[test]
fn demonstrations_that_exceed_the_context_are_left_out() {
    let desk = Desk::of_groups(SFT);
    let refused = desk.run(WORD_PROBLEMS, &["--set", "limits.context_tokens=100"]).mistake("a narrow context");
    assert!(refused.contains("exceeded the context of 100 tokens\nhint: raise "), "{refused}");
    assert_unusual(&desk, &[("demonstrations", "`limits.context_tokens`")]);
    assert!(figures(&desk, "left_out").iter().all(|count| *count == 4.0));
    assert!(figures(&desk, "demonstrations").iter().all(|count| *count == 0.0));
    assert_eq!(figures(&run(SFT, &[]), "left_out"), [0.0; 3]);
}

/// Texts in backquotes.
fn codes(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn checks_figures_and_keys_of_the_page_exist() {
    let docs = gymkhana_tests::root().join("docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).expect("a page");
    let (page, metrics, keys) =
        (read("how-to/my-run-does-not-learn.md"), read("reference/metrics.md"), read("reference/run-file.md"));
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect()).collect();
    assert!(rows.len() >= 12, "{page}");
    let checks: Vec<&str> = gymkhana_health::names().collect();
    // The names of the columns, and the line below them, come first.
    for row in &rows[2..] {
        let [_, check, figure, _, key] = row[..] else { panic!("{row:?} has not five cells") };
        let (named_checks, figures, named) = (codes(check), codes(figure), codes(key));
        assert!(!named_checks.is_empty() && !figures.is_empty() && !named.is_empty(), "{row:?}");
        assert!(named_checks.iter().all(|name| checks.contains(name)), "{row:?}");
        for figure in figures {
            assert!(metrics.contains(&format!("\n| `{figure}` |")), "no metric `{figure}`");
        }
        for key in named {
            let last = key.rsplit('.').next().unwrap_or(key);
            assert!([key, last].iter().any(|name| keys.contains(&format!("`{name}`"))), "no key `{key}`");
        }
    }
}
