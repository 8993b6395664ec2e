//! Tests of rejected run files and their messages.

use gymkhana_algorithm::{ParameterKind, Preset};

use crate::{RunFile, Stage, TurnSchedule};

const SMALLEST: &str = "success = \"environment.success\"\n[[stages]]\nkind = \"rl\"\n";

fn message(text: &str, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    RunFile::parse(text, "run.toml", &sets).expect_err("this run file is wrong").to_string()
}

#[test]
fn a_resolved_file_means_the_same() {
    let preset = |name: &str| format!("{SMALLEST}algorithm = \"{name}\"\ngroup_size = 4\n");
    let mut texts = vec![
        format!("{SMALLEST}settings = {{ entropy_bonus = 0.01 }}\n[plugins.answer-match.options]\nmode = \"text\"\n"),
        // The preset has a penalty, which the stage removes.
        format!("{}settings = {{ kl = \"off\" }}\n", preset("grpo")),
        format!("{}[policy]\ncheckpoint = \"model\"\n", preset("dapo")),
    ];
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/runs");
    for file in std::fs::read_dir(examples).expect("a folder") {
        texts.push(std::fs::read_to_string(file.expect("an entry").path()).expect("a run file"));
    }
    assert!(texts.len() >= 8, "{}", texts.len());
    for text in texts {
        let file = RunFile::parse(&text, "run.toml", &[]).expect("a sound file");
        let resolved = file.resolved().expect("TOML");
        let again = RunFile::parse(&resolved, "again", &[]).expect("a sound file");
        assert_eq!(file, again, "{text}");
        assert_eq!(again.resolved().expect("TOML"), resolved);
    }
}

#[test]
fn a_resolved_file_has_every_default() {
    let file = RunFile::parse(SMALLEST, "run.toml", &[]).expect("a sound file");
    let resolved = file.resolved().expect("TOML");
    let table: toml::Table = toml::from_str(&resolved).expect("TOML");
    let tiny = table["policy"]["tiny"].as_table().expect("the default model");
    assert_eq!(tiny["width"].as_integer(), Some(160));
    let policy = &table["policy"];
    assert_eq!(
        (policy["device"].as_str(), policy["precision"].as_str(), policy["activation_checkpointing"].as_bool()),
        (Some("cpu"), Some("float32"), Some(false))
    );
    assert_eq!(table["context"]["strategy"].as_str(), Some("append"));
    let stage = &table["stages"][0];
    assert_eq!((stage["top_k"].as_integer(), stage["top_p"].as_float()), (Some(0), Some(1.0)));
    assert_eq!(stage["max_staleness"].as_integer(), Some(0));
    assert_eq!(stage["plan"]["kind"].as_str(), Some("groups"));
    let flags = &stage["settings"];
    assert_eq!((flags["baseline"].as_str(), flags["scale"].as_str()), (Some("leave-one-out"), Some("none")));
    assert_eq!((flags["epochs"].as_integer(), flags["entropy_bonus"].as_float()), (Some(1), Some(0.0)));
}

#[test]
fn a_top_k_of_minus_one_disables_the_cut() {
    for kind in ["rl", "best-of-n"] {
        let with = |top_k: i64| {
            let text = SMALLEST.replace("\"rl\"", &format!("\"{kind}\""));
            RunFile::parse(&format!("{text}top_k = {top_k}\n"), "run.toml", &[])
        };
        let resolved = |top_k| with(top_k).expect("a sound file").resolved().expect("TOML");
        assert_eq!(resolved(-1), resolved(0), "{kind}");
        assert_ne!(resolved(-1), resolved(1), "{kind}");
        let refused = with(-2).expect_err("below -1").to_string();
        assert!(refused.contains("`top_k` is -2; it must be -1 or more"), "{refused}");
    }
}

#[test]
fn a_set_checkpoint_replaces_the_tiny_model() {
    let text = format!("{SMALLEST}[policy.tiny]\nlayers = 2\n");
    let sets = ["policy.checkpoint=out/checkpoints/1-000002".to_owned()];
    let file = RunFile::parse(&text, "run.toml", &sets).expect("a sound file");
    assert_eq!((file.policy.checkpoint.is_some(), file.policy.tiny), (true, None));
}

#[test]
fn a_misspelt_key_gets_the_nearest() {
    for (text, near) in [
        (format!("sed = 1\n{SMALLEST}"), "`seed`"),
        (format!("{SMALLEST}group_sizes = 4\n"), "`group_size`"),
        (format!("{SMALLEST}settings = {{ entropy_bonsu = 0.3 }}\n"), "`entropy_bonus`"),
        (format!("{SMALLEST}algorithm = \"grop\"\n"), "`grpo`"),
        (SMALLEST.replace("\"rl\"", "\"sftt\""), "`sft`"),
    ] {
        let message = message(&text, &[]);
        assert!(message.to_lowercase().contains(&format!("did you mean {near}")), "{text}\n{message}");
    }
}

#[test]
fn values_out_of_range_name_their_key() {
    for (set, key) in [
        ("limits.turns=0", "limits.turns"),
        ("failures.limit=1.5", "failures.limit"),
        ("threads=0", "threads"),
        ("policy.max_behaviour_divergence=-0.1", "policy.max_behaviour_divergence"),
        ("stages.rl.group_size=0", "group_size"),
        ("stages.0.optimizer.learning_rate=-1.0", "learning_rate"),
        ("sandbox.memory_mib=100000", "sandbox.memory_mib"),
        ("sandbox.episode_budget_seconds=0", "sandbox.episode_budget_seconds"),
        ("sandbox.fuel_per_call=999", "sandbox.fuel_per_call"),
        ("sandbox.fuel_per_episode=10", "sandbox.fuel_per_episode"),
        ("sandbox.log_kib=0", "sandbox.log_kib"),
        ("sandbox.shared_episodes=0", "sandbox.shared_episodes"),
        ("sandbox.shared_episodes=100001", "sandbox.shared_episodes"),
        ("environment.weight=inf", "environment.weight"),
        ("environment.weight=-1000001", "environment.weight"),
        ("plugins.style.weight=1e308", "plugins.style.weight"),
        ("plugins.style.weight=nan", "plugins.style.weight"),
    ] {
        let message = message(SMALLEST, &[set]);
        assert!(message.contains(key), "{set}: {message}");
    }
}

/// 50 steps with two epochs of three minibatches take up to 300 optimiser steps.
#[test]
fn a_cosine_that_ends_before_the_stage_is_rejected() {
    let with = |total: u32| {
        [
            format!("stages.rl.optimizer={{ schedule = \"cosine\", total_steps = {total} }}"),
            "stages.rl.steps=50".to_owned(),
            "stages.rl.settings={ epochs = 2, minibatches = 3 }".to_owned(),
        ]
    };
    RunFile::parse(SMALLEST, "run.toml", &with(300)).expect("the whole stage");
    RunFile::parse(SMALLEST, "run.toml", &with(400)).expect("a cosine that ends above 0");
    let error = RunFile::parse(SMALLEST, "run.toml", &with(50)).expect_err("250 steps at a rate of 0").to_string();
    for words in ["optimizer.total_steps is 50", "up to 300 optimiser steps", "last 250", "to 300 or more"] {
        assert!(error.contains(words), "{error}");
    }
    let critic = Preset::named("ppo").expect("known").algorithm().expect("flags");
    // Ten steps of warm-up train only the critic.
    assert_eq!((critic.minibatches, critic.optimizer_steps(50)), (4, 160));
}

#[test]
fn weights_may_be_negative_and_zero() {
    let sets = ["environment.weight=0", "plugins.style.weight=-2.5"].map(str::to_owned);
    let file = RunFile::parse(SMALLEST, "run.toml", &sets).expect("a sound file");
    assert_eq!((file.rules.environment.weight, file.rules.plugins["style"].weight), (0.0, -2.5));
}

#[test]
fn contradicting_settings_are_rejected() {
    assert!(message(&format!("deterministic = true\nthreads = 2\n{SMALLEST}"), &[]).contains("threads = 1"));
    assert!(message(&format!("{SMALLEST}[[stages]]\nkind = \"rl\"\n"), &[]).contains("`name`"));
    let both = format!("{SMALLEST}[policy]\ncheckpoint = \"x\"\n[policy.tiny]\nlayers = 1\n");
    assert!(message(&both, &[]).contains("remove one of them"));
    let shared = format!("{SMALLEST}[plugins.calculator]\nshared = true\n");
    RunFile::parse(&shared, "run.toml", &[]).expect("sharing alone is allowed");
    let refused = message(&shared, &["sandbox.fuel_per_call=1000000"]);
    assert!(refused.contains("plugins.calculator.shared and [sandbox] fuel"), "{refused}");
    let refused = message(&shared, &["plugins.calculator.share=true"]);
    assert!(refused.contains("did you mean `shared`"), "{refused}");
}

#[test]
fn groups_of_one_episode_have_nothing_to_compare() {
    for algorithm in ["loop", "grpo", "gigpo", "rloo", "dpo", "spear"] {
        let sets = format!("stages.0.algorithm={algorithm}");
        let refused = message(SMALLEST, &[&sets, "stages.0.group_size=1"]);
        let expected = format!("group_size is 1, but algorithm `{algorithm}` compares the episodes of a group");
        assert!(refused.contains(&expected), "{refused}");
        let two = [sets, "stages.0.group_size=2".to_owned()];
        RunFile::parse(SMALLEST, "run.toml", &two).expect("two episodes are compared");
    }
    for algorithm in ["reinforce++", "ppo", "dart"] {
        let sets = [format!("stages.0.algorithm={algorithm}"), "stages.0.group_size=1".to_owned()];
        RunFile::parse(SMALLEST, "run.toml", &sets).expect("single episodes are enough");
    }
    for others in ["stages.0.settings={ group_by = \"all\" }", "stages.0.plan={ kind = \"guided\" }"] {
        let sets = [others.to_owned(), "stages.0.group_size=1".to_owned()];
        RunFile::parse(SMALLEST, "run.toml", &sets).expect("something to compare with");
    }
    // Pairs are of one seat, so that the flag has no effect.
    let refused = message(SMALLEST, &["stages.0.algorithm=dpo", "stages.0.settings={ group_by = \"all\" }"]);
    assert!(refused.contains("unused `group_by`"), "{refused}");
}

#[test]
fn oracles_exclude_summaries() {
    let summed_up = format!("{SMALLEST}[context]\nstrategy = \"summary\"\ntokens = 500\n");
    RunFile::parse(&summed_up, "run.toml", &[]).expect("a policy writes summaries");
    let refused = message(&summed_up, &["seats.o.policy=oracle"]);
    assert!(refused.starts_with("seats.o is played by an oracle, which writes no summaries"), "{refused}");
    let refused = message(&summed_up, &["stages.0.kind=sft"]);
    assert!(refused.starts_with("stage `sft` learns from an oracle, which writes no summaries"), "{refused}");
    let appended = summed_up.replace("summary", "state").replace("tokens = 500\n", "");
    RunFile::parse(&appended, "run.toml", &["seats.o.policy=oracle".to_owned()]).expect("an oracle needs no summary");
}

#[test]
fn a_stage_trains_at_its_sampling_temperature() {
    for (set, temperature) in [("stages.0.steps=7", 1.0), ("stages.0.temperature=0.5", 0.5)] {
        let file = RunFile::parse(SMALLEST, "run.toml", &[set.to_owned()]).expect("a sound file");
        let Stage::Rl(stage) = &file.stages[0] else { panic!("the stage is of reinforcement learning") };
        assert_eq!(stage.settings().expect("sound settings").temperature, temperature, "{set}");
    }
}

#[test]
fn set_reaches_stages_by_name_and_by_place() {
    for set in ["stages.rl.steps=7", "stages.0.steps=7"] {
        let text = SMALLEST.replace("kind", "name = \"rl\"\nkind");
        let file = RunFile::parse(&text, "run.toml", &[set.to_owned()]).expect("a sound file");
        assert_eq!(file.stages[0].steps(), 7, "{set}");
    }
    assert!(message(SMALLEST, &["stages.warm.steps=7"]).contains("no `warm`"));
    assert!(message(SMALLEST, &["stages.rl=5"]).contains("`stages.rl.KEY`"));
    assert!(message(SMALLEST, &["steps"]).contains("key=value"));
}

#[test]
fn a_wrong_value_is_blamed_on_its_source() {
    let sets = ["seed=3", "stages.0.steps=five", "threads=2"];
    let refused = message(SMALLEST, &sets);
    assert!(refused.starts_with("--set stages.0.steps=five: `stages.rl.steps` is \"five\""), "{refused}");
    let refused = message(SMALLEST, &["stages.0.optimizer.betaa=1"]);
    assert!(refused.starts_with("--set stages.0.optimizer.betaa=1: unknown field `betaa`"), "{refused}");
    let refused = message(&format!("{SMALLEST}steps = \"five\"\n"), &["seed=3"]);
    assert!(refused.starts_with("run.toml: line 4: stage `rl`: `steps` is \"five\""), "{refused}");
    // Values that are valid only together are accepted in any order.
    let together = ["stages.0.batch=8", "stages.0.kind=sft"];
    RunFile::parse(SMALLEST, "run.toml", &together.map(str::to_owned)).expect("a sound file");
}

#[test]
fn a_value_of_another_type_names_its_key() {
    for (set, expected) in [
        (
            "stages.rl.steps=five",
            "`stages.rl.steps` is \"five\"; it must be a whole number\nhint: its range is 1 to 100000000",
        ),
        ("limits.turns=many", "`limits.turns` is \"many\"; it must be a whole number\nhint: its range is 1 to 100000"),
        ("limits.seconds=true", "`limits.seconds` is true; it must be a number\nhint: its range is 0.001 to 1000000"),
        ("evaluation.tasks=-1", "`evaluation.tasks` is -1; it must be 0 or more\nhint: its range is 0 to 1000000"),
        ("seed=\"7\"", "`seed` is text; it must be a whole number\nhint: write `seed = 7`"),
        (
            "deterministic=yes",
            "`deterministic` is \"yes\"; it must be true or false\nhint: write `deterministic = true` or \
             `deterministic = false`",
        ),
        (
            "policy.tiny=\"off\"",
            "`policy.tiny` is \"off\"; it must be a table\nhint: write a table, such as `tiny = { layers = 4, … }`; to \
             leave it out, remove it from the run file",
        ),
        ("limits.stop=end", "`limits.stop` is \"end\"; it must be a list\nhint: write `stop = [\"end\"]`"),
        (
            "success=5",
            "`success` is 5; it must be text\nhint: write a text, such as `success = \"environment.success\"`",
        ),
        (
            "context={ strategy = \"window\", most = 2.5 }",
            "`context.most` is 2.5; it must be a whole number\nhint: its range is at least 1",
        ),
        (
            "plugins.style.schedule={ shape = \"linear\", to = 0, over = \"9\" }",
            "`plugins.style.schedule.over` is text; it must be a whole number\nhint: write `over = 9`",
        ),
    ] {
        assert_eq!(message(SMALLEST, &[set]), format!("--set {set}: {expected}"));
    }
}

#[test]
fn a_value_of_another_type_in_the_file_has_a_line() {
    for (text, expected) in [
        (
            format!("{SMALLEST}steps = \"20\"\n"),
            "run.toml: line 4: stage `rl`: `steps` is text; it must be a whole number\nhint: write `steps = 20`",
        ),
        (
            format!("{SMALLEST}[evaluation]\ntasks = -1\n"),
            "run.toml: line 5: `evaluation.tasks` is -1; it must be 0 or more\nhint: its range is 0 to 1000000",
        ),
        (
            format!("{SMALLEST}[[stages]]\nkind = \"sft\"\noptimizer = {{ beta1 = \"high\" }}\n"),
            "run.toml: line 6: stage `sft`: `optimizer.beta1` is \"high\"; it must be a number\nhint: its range is at \
             least 0, below 1",
        ),
        (
            format!("{SMALLEST}settings = {{ epochs = \"2\" }}\n"),
            "run.toml: line 4: stage `rl`: `settings.epochs` is text; it must be a whole number\nhint: write `epochs = 2`",
        ),
    ] {
        assert_eq!(message(&text, &[]), expected, "{text}");
    }
}

#[test]
fn a_file_without_stages_has_rules_and_trains_nothing() {
    let file = RunFile::parse("[limits]\nturns = 3\n", "run.toml", &[]).expect("a sound file");
    assert_eq!((file.rules.success.as_str(), file.rules.limits.turns), ("environment.success", 3));
    let refused = file.check_trains().unwrap_err().to_string();
    let no_stage = "the run file has no stage\nhint: add `[[stages]]` with `kind = \"sft\"` or `kind = \"rl\"`";
    assert_eq!(refused, no_stage);
    let resolved = file.resolved().expect("TOML");
    assert_eq!(RunFile::parse(&resolved, "run.toml", &[]).expect("a sound file"), file);
}

#[test]
fn an_algorithm_is_not_a_kind_of_stage() {
    let expected =
        "`grpo` is an algorithm, not a kind of stage\nhint: write `kind = \"rl\"` and `algorithm = \"grpo\"`";
    let text = format!("{SMALLEST}[[stages]]\nkind = \"grpo\"\n");
    assert_eq!(message(&text, &[]), format!("run.toml: line 5: {expected}"));
    assert_eq!(message(SMALLEST, &["stages.rl.kind=grpo"]), format!("--set stages.rl.kind=grpo: {expected}"));
    let unknown = message(SMALLEST, &["stages.rl.kind=lr"]);
    let expected = "--set stages.rl.kind=lr: unknown variant `lr`, expected one of `sft`, `best-of-n`, `rl`, `dpo`, `kto`, \
                    `distill`\nhint: use one of the expected values";
    assert_eq!(unknown, expected);
}

#[test]
fn a_turn_limit_grows_up_to_the_runs_limit() {
    let schedule = TurnSchedule { from: 4, by: 2, every: 10 };
    for (step, limit) in [(0, 4), (9, 4), (10, 6), (25, 8), (30, 10), (39, 10), (1_000_000, 10)] {
        assert_eq!(schedule.at(step, 10), limit, "step {step}");
    }
    let fast = TurnSchedule { from: 1, by: u32::MAX, every: 1 };
    assert_eq!((fast.at(0, 7), fast.at(u64::MAX, 7)), (1, 7));
}

/// Each block of the pages is a run file, or sections that extend the first one.
#[test]
fn blocks_of_the_documentation_parse() {
    let blocks = |page: &'static str| page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let page = include_str!("../../../docs/how-to/write-a-run-file.md");
    let first = blocks(page).next().expect("a whole run file");
    let whole: toml::Table = toml::from_str(first).expect("the first block is TOML");
    RunFile::parse(first, "write-a-run-file.md", &[]).expect("the first block is a run file");
    let hub = include_str!("../../../docs/how-to/use-a-model-from-a-hub.md");
    let memory = include_str!("../../../docs/how-to/save-memory.md");
    let sections: Vec<&str> = blocks(page).skip(1).chain(blocks(hub)).chain(blocks(memory)).collect();
    assert!(sections.len() >= 9, "{} blocks", sections.len());
    for block in sections {
        let mut table = whole.clone();
        table.extend(toml::from_str::<toml::Table>(block).expect("TOML"));
        RunFile::parse(&table.to_string(), block, &[]).unwrap_or_else(|error| panic!("{block}\n{error}"));
    }
}

/// Text of a run file whose first stage has this optimiser, with other keys before and in the stage.
fn averaging(keys: &str, optimizer: &str, stage: &str) -> String {
    let stage = format!("{{ kind = \"rl\", optimizer = {{ {optimizer} }}{stage} }}");
    format!("success = \"environment.success\"\nevaluation = {{ weights = \"average\"{keys} }}\nstages = [{stage}]")
}

#[test]
fn the_average_of_weights_is_evaluated_where_there_is_one_and_nothing_else_generates() {
    let error = |text: &str| RunFile::parse(text, "run.toml", &[]).unwrap_err().to_string();
    RunFile::parse(&averaging("", "ema = 0.99", ", max_staleness = 1"), "run.toml", &[]).unwrap();
    RunFile::parse(&averaging(", every = 5", "ema = 0.99", ""), "run.toml", &[]).unwrap();
    let none = error(&averaging("", "", ""));
    assert!(none.contains("no stage has an average\nhint: set optimizer.ema"), "{none}");
    let overlap = error(&averaging(", every = 5", "ema = 0.99", ", max_staleness = 1"));
    assert!(overlap.contains("episodes of stage `rl` are in flight"), "{overlap}");
    let server =
        "policy = { checkpoint = \"m\", server = { url = \"http://h\", protocol = \"vllm\", name = \"m\" } }\n";
    let served = error(&format!("{server}{}", averaging("", "ema = 0.99", "")));
    assert!(served.contains("policy.server generates with the weights in training"), "{served}");
}

/// Groups and demonstrations are read from the file and written out again.
#[test]
fn parameter_groups_and_demonstrations_reach_the_trainer() {
    let text = "success = \"environment.success\"\n[[stages]]\nkind = \"rl\"\n\
                demonstrations = { batch = 4, weight = 0.2 }\n[[stages.optimizer.groups]]\nof = [\"lora-b\"]\nrate = 16.0\n";
    let file = RunFile::parse(text, "run.toml", &[]).unwrap();
    assert_eq!(RunFile::parse(&file.resolved().unwrap(), "run.toml", &[]).unwrap(), file);
    let Stage::Rl(stage) = &file.stages[0] else { panic!("no `rl` stage") };
    let settings = stage.settings().unwrap();
    assert_eq!(settings.optimizer.of_kind(ParameterKind::LoraB), (16.0, 0.0));
    assert_eq!(settings.demonstrations.map(|shown| (shown.batch, shown.weight)), Some((4, 0.2)));
    let unknown = text.replace("lora-b", "lora-c");
    let error = RunFile::parse(&unknown, "run.toml", &[]).unwrap_err().to_string();
    assert!(error.contains("lora-c"), "{error}");
}

#[test]
fn a_server_needs_one_way_to_reach_it() {
    let wrong = |keys: &str| message(&format!("{SMALLEST}[plugins.clock.mcp]\n{keys}\n"), &[]);
    assert!(wrong("seconds = 5.0").starts_with("plugins.clock.mcp needs either `command` or `url`\nhint: "));
    assert!(wrong("command = [\"a\"]\nurl = \"http://a/\"").contains("needs either `command` or `url`"));
    assert!(wrong("url = \"ftp://a/\"").starts_with("plugins.clock.mcp.url is `ftp://a/`\nhint: "));
    assert!(wrong("command = [\"a\"]\nseconds = 0.0").contains("its range is 0.001 to 3600"));
    assert!(wrong("command = [\"a\"]\nmax_kib = 0").contains("its range is 1 to 65536"));
    assert!(wrong("command = [\"a\"]\nprivate = true").contains("`private` and `secret` belong to a `url`"));
    assert!(wrong("url = \"https://a/\"\nnetwork = true").contains("belong to a `command`"));
    assert!(wrong("command = [\"a\"]\nfolder = \"data\"").contains("use an absolute path"));
    let options = format!("{SMALLEST}[plugins.clock]\noptions = {{ a = 1 }}\nmcp = {{ command = [\"a\"] }}\n");
    assert!(message(&options, &[]).starts_with("plugins.clock.options is set, but an MCP server has none"));
    let text = format!("{SMALLEST}[plugins.clock]\nmcp = {{ command = [\"a\", \"b\"], env = {{ C = \"d\" }} }}\n");
    let file = RunFile::parse(&text, "run.toml", &[]).expect("a sound file");
    let again = RunFile::parse(&file.resolved().expect("TOML"), "again", &[]).expect("a sound file");
    assert_eq!(file, again);
}
