//! Each wrapper with each kind of reward, family of presets and sampler, in pairs: a run trains, or it is refused with a
//! reason before anything is written.

use crate::common::Desk;

const WRAPPERS: [&str; 7] = [
    r#"{ plugin = "retry", attempts = 2, reward = "each" }"#,
    r#"{ plugin = "turn-cost", price = 0.1 }"#,
    r#"{ plugin = "observe", characters = 200 }"#,
    r#"{ plugin = "compose", tasks = 2 }"#,
    r#"{ plugin = "hints", demonstrations = 1 }"#,
    r#"{ plugin = "library", entries = 1 }"#,
    r#"{ plugin = "roles" }"#,
];

/// Preset and stage of each family: leave-one-out, critic, states, progress, void turns, replay, whole episodes.
const PRESETS: [&str; 7] = ["loop", "ppo", "gigpo", "score", "simpletir", "spear", "dpo"];

const SAMPLERS: [&str; 8] = [
    r#"{ kind = "shuffled" }"#,
    r#"{ kind = "sequential" }"#,
    r#"{ kind = "weighted", file = "weights.jsonl", column = "w" }"#,
    r#"{ kind = "difficulty", tasks = 6, attempts = 2 }"#,
    r#"{ kind = "adaptive", tasks = 6, attempts = 2 }"#,
    r#"{ kind = "mixed-outcome", tasks = 6, candidates = 2 }"#,
    r#"{ kind = "prioritized", tasks = 6, by = "failure" }"#,
    r#"{ kind = "staged", phases = [{ tasks = 4, turns = 2, steps = 1 }, {}] }"#,
];

/// Plugins of the environment, its rewards and a criterion of success: rewards of the environment, of a privileged field,
/// and of facts and calls.
const REWARDS: [(&str, &str); 3] = [
    ("frozen-lake", "environment.success"),
    ("word-problems,answer-match", "answer-match.correct"),
    ("frozen-lake,tool-efficiency", "environment.success"),
];

/// Name of the wrapper's plugin.
fn plugin(wrapper: &str) -> &str {
    wrapper.split('"').nth(1).expect("a name")
}

fn desk(wrapper: &str, (_, success): (&str, &str), preset: &str, sampler: &str) -> Desk {
    let kind =
        if preset == "dpo" { "kind = \"dpo\"".to_owned() } else { format!("kind = \"rl\"\nalgorithm = \"{preset}\"") };
    let library = if plugin(wrapper) == "library" {
        "[plugins.library]\nassets = { \"library.jsonl\" = \"library.jsonl\" }\n"
    } else {
        ""
    };
    let desk = Desk::with_run_file(&format!(
        r#"
seed = 1
deterministic = true
threads = 1
success = "{success}"
sampler = {sampler}
[policy]
max_concurrent_sequences = 8
tiny = {{ layers = 1, width = 8, heads = 1, kv_heads = 1, mlp = 8, context = 1536 }}
[environment]
wrap = [{wrapper}]
{library}[limits]
turns = 2
reply_tokens = 4
[evaluation]
tasks = 0
[failures]
limit = 1.0
[[stages]]
{kind}
steps = 2
groups = 2
group_size = 2
"#
    ));
    desk.write("library.jsonl", "{\"title\": \"sums\", \"text\": \"Add the numbers.\"}\n");
    desk.write("weights.jsonl", "{\"w\": 1}\n".repeat(6));
    desk
}

/// Reason for which a combination cannot be, in the words of the refusal.
fn refusal(wrapper: &str, rewards: &str) -> Option<&'static str> {
    match (plugin(wrapper), rewards) {
        ("compose", "word-problems,answer-match") => {
            Some("reward `answer-match` cannot score environment `word-problems` inside of `compose`")
        }
        _ => None,
    }
}

#[test]
fn wrappers_rewards_presets_and_samplers_fit_or_are_refused() {
    for (place, wrapper) in WRAPPERS.iter().enumerate() {
        for (other, sampler) in SAMPLERS.iter().enumerate() {
            let rewards = REWARDS[(place + 2 * other) % REWARDS.len()];
            let preset = PRESETS[(place + other) % PRESETS.len()];
            let desk = desk(wrapper, rewards, preset, sampler);
            let plugins: Vec<String> =
                rewards.0.split(',').chain([plugin(wrapper)]).map(|name| format!("plugins/{name}.wasm")).collect();
            let outcome = desk.run(&plugins.join(","), &[]);
            let title = format!("{} {preset} {sampler} {}", plugin(wrapper), rewards.0);
            match refusal(wrapper, rewards.0) {
                None => assert_eq!(outcome.code, Some(0), "{title}: {outcome:?}"),
                Some(reason) => {
                    let words = outcome.mistake(&title);
                    assert!(words.contains(reason), "{words}");
                    assert!(!desk.path("out").exists(), "{title}");
                }
            }
        }
    }
}
