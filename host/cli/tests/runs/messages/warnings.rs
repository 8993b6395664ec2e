//! Warnings of runs that do nothing, or the wrong thing, and refusals of such runs at the start.

use crate::common::Desk;
use crate::common::taught::teach;

/// Word problems and a reward, without the calculator.
const PLUGINS: &str = "plugins/word-problems.wasm,plugins/answer-match.wasm";

/// A run of an untrained policy: no reply is right, and each is cut.
const IDLE: &str = r#"
success = "answer-match.correct"

[policy]
tiny = { layers = 1, width = 32, heads = 2, kv_heads = 2, mlp = 96, context = 256 }

[evaluation]
tasks = 0

[limits]
reply_tokens = 8

[[stages]]
kind = "rl"
steps = 5
groups = 4
group_size = 2
"#;

#[test]
fn a_run_that_learns_nothing_says_so_with_remedies() {
    let desk = Desk::with_run_file(IDLE);
    let outcome = desk.run(PLUGINS, &[]);
    let talk = outcome.talk.clone();
    for words in [
        "warning: stage `rl` learns nothing: no rewards differed in 3 steps\nhint: use easier tasks, a reward of several \
         parts, a higher temperature or more steps of an sft stage before it, or set dynamic_sampling; ",
        "warning: stage `rl`: 100 % of the replies of the last step were cut, by limits.reply_tokens = 8 or ",
        "hint: raise limits.reply_tokens; ",
    ] {
        assert_eq!(talk.matches(words).count(), 1, "{words}: {talk}");
    }
    let results = outcome.succeeded();
    assert!(results.contains("\n  5 steps changed no weights\n"), "{results}");
    let shown = desk.host(&["show", "out"]).succeeded();
    assert!(shown.contains("steps of rl that changed no weights: 5 of 5\n"), "{shown}");
    assert!(shown.contains("training cut replies of rl: 100.0 % to 100.0 %\n"), "{shown}");
    let summary = crate::common::json(&desk.path("out/summary.json"));
    assert_eq!(summary["stages"][0]["idle_steps"], 5);
    let failed = desk.host(&["show", "out", "--episodes", "failed"]).succeeded();
    assert_eq!(failed, "no episode has a failure; `--episodes unsolved` lists those without success\n");
    let solved = desk.host(&["show", "out", "--episodes", "solved"]).succeeded();
    assert!(solved.starts_with("no episode has success; "), "{solved}");
}

#[test]
fn a_context_that_no_prompt_fits_is_refused() {
    let desk = Desk::with_run_file(IDLE);
    for more in [&[][..], &["--dry-run"]] {
        let narrow = [&["--set", "limits.context_tokens=16"], more].concat();
        let refused = desk.run(PLUGINS, &narrow).mistake("a narrow context");
        assert!(refused.contains("no episode could have a turn: ") && refused.contains("of 16 tokens"), "{refused}");
        assert!(refused.contains("hint: raise limits.context_tokens "), "{refused}");
    }
    assert!(!desk.path("out").exists());
}

#[test]
fn a_plan_with_hints_needs_an_environment_with_guidance() {
    let desk = Desk::with_run_file(IDLE);
    let guided = "stages.rl.plan={ kind = \"guided\", retries = 1 }";
    let refused = desk.run(PLUGINS, &["--set", guided]).mistake("a guided plan");
    assert!(refused.contains("no `guidance` is offered by `word-problems`\n"), "{refused}");
    assert!(!desk.path("out").exists());
}

#[test]
fn settings_that_are_seldom_meant_are_warned_of() {
    let desk = Desk::with_run_file(IDLE);
    let with_search = format!("{PLUGINS},plugins/search.wasm");
    let set = ["--dry-run", "--set", "stages.rl.optimizer={ learning_rate = 1000.0 }"];
    let outcome = desk.run(&with_search, &set);
    for words in [
        "warning: stage `rl`: optimizer.learning_rate is 1000, at which weights diverge",
        "hint: use 1e-2 or less; ",
        "warning: tool `search` reads files that the run mounts, and the run mounts none for it\n",
        "to [plugins.search]\n",
    ] {
        assert!(outcome.talk.contains(words), "{words}: {outcome:?}");
    }
    outcome.succeeded();
    desk.write("documents.jsonl", "{\"id\": \"a\", \"title\": \"A\", \"text\": \"b\"}\n");
    let mounted = "plugins.search={ assets = { \"documents.jsonl\" = \"documents.jsonl\" } }";
    let plain = desk.run(&with_search, &["--dry-run", "--set", mounted]);
    assert!(!plain.talk.contains("warning: "), "{plain:?}");
}

#[test]
fn conversations_that_call_functions_of_no_plugin_are_warned_of() {
    let row = |function: &str| {
        let call =
            format!(r#"{{"id": "1", "type": "function", "function": {{"name": "{function}", "arguments": "{{}}"}}}}"#);
        format!(
            "{{\"messages\": [{{\"role\": \"user\", \"content\": \"2 + 2?\"}}, {{\"role\": \"assistant\", \"content\": \
             \"\", \"tool_calls\": [{call}]}}]}}\n"
        )
    };
    let taught = IDLE.split("[[stages]]").next().expect("the settings");
    let stage = "[[stages]]\nkind = \"sft\"\nsteps = 1\nbatch = 1\n[[stages.source]]\nchat = [\"rows.jsonl\"]\n";
    let desk = Desk::with_run_file(&format!("{taught}{stage}"));
    let with_calculator = format!("{PLUGINS},plugins/calculator.wasm");
    let talk = |function: &str| {
        desk.write("rows.jsonl", row(function));
        let outcome = desk.run(&with_calculator, &["--dry-run"]);
        let talk = outcome.talk.clone();
        outcome.succeeded();
        talk
    };
    let warned = talk("calc");
    let words = "warning: stage `sft`: its conversations call `calc`, which no plugin of the run offers; did you mean \
                 `calculate`?\nhint: ";
    assert!(warned.contains(words), "{warned}");
    assert!(!talk("calculate").contains("its conversations call"));
}

/// A model that solves every task, and then a stage at a rate at which weights diverge.
#[test]
fn a_stage_that_made_the_policy_worse_is_warned_of_with_the_better_checkpoint() {
    let stage = |name: &str, steps: u32, rate: &str| {
        format!(
            "[[stages]]\nkind = \"sft\"\nname = \"{name}\"\nsteps = {steps}\nbatch = 2\n\
             optimizer = {{ learning_rate = {rate}, warmup_steps = 0 }}\n"
        )
    };
    let settings = "success = \"environment.success\"\npolicy = { checkpoint = \"taught\" }\n\
                    environment.options = { behaviour = \"honest\" }\nlimits = { turns = 3, reply_tokens = 16 }\n\
                    evaluation = { tasks = 6, sampled = false }\n";
    let desk = Desk::with_run_file(&[settings, &stage("first", 1, "1e-7"), &stage("second", 3, "2.0")].concat());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(teach(&["yes"], &desk.path("taught")));
    let outcome = desk.run("plugins/guest-hostile-environment.wasm", &[]);
    let words = "warning: stage `second` made the policy worse: success 100.0 % to 0.0 % on 6 held-out tasks\nhint: use the \
                 checkpoint out/checkpoints/0-000001, or lower optimizer.learning_rate\n";
    assert_eq!(outcome.talk.matches(words).count(), 1, "{outcome:?}");
    let results = outcome.succeeded();
    assert!(results.ends_with("better checkpoint: out/checkpoints/0-000001, success 100.0 %\n"), "{results}");
}
