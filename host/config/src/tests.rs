//! Tests of rejected run files and their messages.

use crate::{RunFile, Stage};

const SMALLEST: &str = "success = \"environment.success\"\n[[stages]]\nkind = \"rl\"\n";

fn message(text: &str, sets: &[&str]) -> String {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    RunFile::parse(text, "run.toml", &sets).expect_err("this run file is wrong").to_string()
}

#[test]
fn a_resolved_file_means_the_same() {
    let text =
        format!("{SMALLEST}settings = {{ entropy_bonus = 0.01 }}\n[rewards.answer-match.options]\nmode = \"text\"\n");
    let file = RunFile::parse(&text, "run.toml", &[]).expect("a sound file");
    let again = RunFile::parse(&file.resolved().expect("TOML"), "again", &[]).expect("a sound file");
    assert_eq!(file, again);
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
        ("rewards.style.weight=1e308", "rewards.style.weight"),
        ("rewards.style.weight=nan", "rewards.style.weight"),
    ] {
        let message = message(SMALLEST, &[set]);
        assert!(message.contains(key), "{set}: {message}");
    }
}

#[test]
fn the_sandbox_gets_what_the_run_file_says() {
    let sets = ["episode_budget_seconds=2.5", "fuel_per_call=5000", "fuel_per_episode=7000", "log_kib=3"];
    let sets = sets.map(|set| format!("sandbox.{set}"));
    let file = RunFile::parse(SMALLEST, "run.toml", &sets).expect("a sound file");
    let limits = gymkhana_sandbox::Limits::from(&file.sandbox);
    assert_eq!(limits.episode_budget, std::time::Duration::from_millis(2500));
    assert_eq!((limits.fuel_per_call, limits.fuel_per_episode, limits.log_bytes), (Some(5000), Some(7000), 3072));
}

#[test]
fn weights_may_be_negative_and_zero() {
    let sets = ["environment.weight=0", "rewards.style.weight=-2.5"].map(str::to_owned);
    let file = RunFile::parse(SMALLEST, "run.toml", &sets).expect("a sound file");
    assert_eq!((file.environment.weight, file.rewards["style"].weight), (0.0, -2.5));
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
    for algorithm in ["loop", "grpo", "gigpo", "rloo", "dpo"] {
        let sets = format!("stages.0.algorithm={algorithm}");
        let refused = message(SMALLEST, &[&sets, "stages.0.group_size=1"]);
        let expected = format!("group_size is 1, but algorithm `{algorithm}` compares the episodes of a group");
        assert!(refused.contains(&expected), "{refused}");
        let two = [sets, "stages.0.group_size=2".to_owned()];
        RunFile::parse(SMALLEST, "run.toml", &two).expect("two episodes are compared");
    }
    for algorithm in ["reinforce++", "ppo"] {
        let sets = [format!("stages.0.algorithm={algorithm}"), "stages.0.group_size=1".to_owned()];
        RunFile::parse(SMALLEST, "run.toml", &sets).expect("single episodes are enough");
    }
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
    assert!(refused.starts_with("--set stages.0.steps=five: invalid type: string \"five\""), "{refused}");
    let refused = message(SMALLEST, &["stages.0.optimizer.betaa=1"]);
    assert!(refused.starts_with("--set stages.0.optimizer.betaa=1: unknown field `betaa`"), "{refused}");
    let refused = message(&format!("{SMALLEST}steps = \"five\"\n"), &["seed=3"]);
    assert!(refused.starts_with("run.toml: ") && refused.contains("line "), "{refused}");
    // Values that are valid only together are accepted in any order.
    let together = ["stages.0.batch=8", "stages.0.kind=sft"];
    RunFile::parse(SMALLEST, "run.toml", &together.map(str::to_owned)).expect("a sound file");
    let refused = message("[[stages]]\nkind = \"rl\"\n", &["seed=3"]);
    assert!(refused.starts_with("run.toml: ") && refused.contains("missing field `success`"), "{refused}");
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
