//! Expert iteration by `examples/runs/expert-iteration.toml`, alone and on a mixture.

use std::collections::BTreeMap;
use std::fs;

use super::{steps, sum};
use crate::common::{Desk, Outcome, WORD_PROBLEMS};
use gymkhana_record::{EpisodeRecord, Phase};

/// The example in a smaller size: two rounds of six tasks.
const SMALLER: [&str; 12] = [
    "deterministic=true",
    "threads=1",
    "policy.tiny.layers=1",
    "policy.tiny.width=16",
    "policy.tiny.mlp=32",
    "policy.max_concurrent_sequences=8",
    "limits.reply_tokens=16",
    "evaluation.tasks=2",
    "stages.sft.steps=2",
    "stages.best-of-n.tasks=6",
    "stages.best-of-n.attempts=4",
    "stages.best-of-n.batch=2",
];

/// Runs the example in its smaller size. A model of this size finds no answer, so that attempts are kept by other figures.
fn run(desk: &Desk, filter: &str, rounds: u32, more: &[&str]) -> Outcome {
    let own = [format!("stages.best-of-n.steps={rounds}"), format!("stages.best-of-n.where=\"{filter}\"")];
    let own = own.iter().map(String::as_str);
    let sets: Vec<&str> = SMALLER.into_iter().chain(own).flat_map(|set| ["--set", set]).collect();
    desk.run(WORD_PROBLEMS, &[&sets[..], more].concat())
}

fn attempts(desk: &Desk) -> Vec<EpisodeRecord> {
    desk.episodes().into_iter().filter(|record| record.id.phase == Phase::Train).collect()
}

fn sampled(record: &EpisodeRecord) -> usize {
    record.sampled_tokens()
}

#[test]
fn a_round_imitates_the_best_attempts_of_each_task() {
    let desk = Desk::of_example("expert-iteration.toml");
    run(&desk, "sampled_tokens > 0", 2, &[]).succeeded();
    let attempts = attempts(&desk);
    assert_eq!(attempts.len(), 2 * 6 * 4);
    let rounds = &steps(&desk, "out")[2..];
    assert_eq!(rounds.len(), 2);
    let number = |round: usize, key: &str| rounds[round][key].as_f64().unwrap_or_else(|| panic!("{key}: {rounds:?}"));
    for round in 0..2 {
        let mut groups: BTreeMap<u32, Vec<&EpisodeRecord>> = BTreeMap::new();
        for record in attempts.iter().filter(|record| record.id.step == round as u64) {
            groups.entry(record.id.group).or_default().push(record);
        }
        // The first attempt of the highest reward is kept; tokens are a mean over three steps of two attempts.
        let best = |group: &Vec<&EpisodeRecord>| {
            let most = group.iter().map(|record| record.rewards[0]).fold(f64::MIN, f64::max);
            group.iter().find(|record| record.rewards[0] == most).map(|record| sampled(record)).expect("an attempt")
        };
        let tokens: usize = groups.values().map(best).sum();
        assert_eq!((number(round, "kept"), number(round, "kept_tasks"), number(round, "updates")), (6.0, 6.0, 3.0));
        assert!((3.0 * number(round, "tokens") - tokens as f64).abs() < 1e-6, "{tokens}: {rounds:?}");
        assert_eq!(number(round, "episodes"), 24.0);
    }
    // Each round samples with the weights of the rounds before.
    let versions: Vec<u32> =
        attempts.iter().flat_map(|record| &record.segments).flat_map(|segment| segment.versions().to_vec()).collect();
    assert_eq!(versions.iter().max(), Some(&5), "two steps of demonstrations, three of the first round");
    let replayed = desk.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains("every byte equal"), "{replayed}");
}

#[test]
fn a_resumed_stage_continues_with_the_same_rounds() {
    let (whole, parts) = (Desk::of_example("expert-iteration.toml"), Desk::of_example("expert-iteration.toml"));
    run(&whole, "length > 0", 3, &[]).succeeded();
    run(&parts, "length > 0", 2, &[]).succeeded();
    parts.host(&["run", "--resume", "out", "--set", "stages.best-of-n.steps=3"]).succeeded();
    assert_eq!(steps(&parts, "out"), steps(&whole, "out"));
    let tokens =
        |desk: &Desk| attempts(desk).into_iter().map(|record| (record.id, record.segments)).collect::<Vec<_>>();
    assert!(tokens(&whole) == tokens(&parts), "the resumed run sampled other tokens");
}

#[test]
fn rounds_without_a_kept_attempt_are_reported() {
    let desk = Desk::of_example("expert-iteration.toml");
    let outcome = run(&desk, "calls > 99", 2, &[]);
    assert!(outcome.talk.contains("none of 24 attempts meets `calls > 99`"), "{}", outcome.talk);
    assert!(outcome.mistake("nothing kept").contains("no attempt met `calls > 99` in 2 rounds"));
    let desk = Desk::of_example("expert-iteration.toml");
    let message = run(&desk, "answer-match.corect > 0", 2, &[]).mistake("a component that no attempt has");
    assert!(message.contains("did you mean `answer-match.correct`?"), "{message}");
    let desk = Desk::of_example("expert-iteration.toml");
    let message = run(&desk, "sucess", 2, &[]).mistake("a typo");
    assert!(message.contains("did you mean `success`?") && !desk.path("out").exists(), "{message}");
}

/// Rounds take their tasks from all environments in their shares, and a filter may tell them apart.
#[test]
fn rounds_cover_a_mixture() {
    let example = fs::read_to_string(gymkhana_tests::root().join("examples/runs/mixture.toml")).expect("an example");
    let (head, _) = example.split_once("[[stages]]").expect("stages");
    let stage = "[[stages]]\nkind = \"best-of-n\"\nsteps = 2\ntasks = 3\nattempts = 2\n\
                 where = \"environment == 'lake' and sampled_tokens > 0\"\n";
    let desk = Desk::with_run_file(&format!("{head}{stage}"));
    let plugins =
        "plugins/word-problems.wasm,plugins/frozen-lake.wasm,plugins/calculator.wasm,plugins/answer-match.wasm";
    let sets = [
        "policy.tiny.layers=1",
        "policy.tiny.width=16",
        "policy.tiny.mlp=32",
        "policy.max_concurrent_sequences=8",
        "environments.stories.limits.reply_tokens=16",
        "environments.lake.limits.turns=4",
        "evaluation.tasks=0",
    ];
    let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
    desk.run(plugins, &sets).succeeded();
    let rounds = steps(&desk, "out");
    // Two of three tasks are stories; the attempts at the other one are kept.
    assert_eq!((sum(&rounds, "stories/episodes"), sum(&rounds, "lake/episodes")), (8.0, 4.0));
    assert_eq!((sum(&rounds, "kept"), sum(&rounds, "lake/kept"), sum(&rounds, "stories/kept")), (2.0, 2.0, 0.0));
}
