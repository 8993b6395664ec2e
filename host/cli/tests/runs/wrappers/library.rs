//! A library that grows by the successes of a run: `examples/runs/library.toml` in a smaller size.

use gymkhana_record::{EpisodeRecord, Turn, text_of};
use serde_json::json;

use crate::common::{Desk, Outcome};

const PLUGINS: &str =
    "plugins/word-problems.wasm,plugins/library.wasm,plugins/calculator.wasm,plugins/answer-match.wasm";

const SMALLER: [&str; 13] = [
    "deterministic=true",
    "threads=1",
    "policy.tiny={ layers = 1, width = 16, heads = 2, kv_heads = 1, mlp = 32, context = 1536 }",
    "policy.max_concurrent_sequences=8",
    "evaluation.tasks=2",
    "stages.sft.steps=2",
    "stages.sft.batch=4",
    "stages.rl.steps=1",
    "stages.rl.groups=2",
    "stages.rl.group_size=2",
    "limits.reply_tokens=8",
    "environment.wrap=[{ plugin = 'library', entries = 2 }]",
    "plugins.library.assets={ 'library.jsonl' = 'library.jsonl' }",
];

fn run(desk: &Desk, library: &str, more: &[&str]) -> Outcome {
    desk.write("library.jsonl", library);
    let sets = SMALLER.into_iter().chain(more.iter().copied()).flat_map(|set| ["--set", set]);
    desk.run(PLUGINS, &sets.collect::<Vec<_>>())
}

/// What the solver reads before its first reply.
fn start(record: &EpisodeRecord) -> Vec<String> {
    let observed = record.turns.iter().map_while(|turn| match turn {
        Turn::Observation { content, .. } => Some(text_of(content)),
        _ => None,
    });
    observed.collect()
}

#[test]
fn successes_of_a_run_are_found_by_the_next_one() {
    let first = Desk::of_example("library.toml");
    let skill =
        json!({ "title": "How many pens, cups, nuts, coins or eggs has somebody?", "text": "Call the calculator." });
    run(&first, &format!("{skill}\n"), &[]).succeeded();
    let records = first.episodes();
    for record in &records {
        assert_eq!(start(record)[0], "From the library:\n\nCall the calculator.", "{record:?}");
    }
    let exported =
        first.host(&["data", "export", "out", "--format", "openai", "--where", "purpose == 'demonstrations'"]);
    let exported = exported.succeeded();
    // Two steps of four demonstrations.
    assert_eq!(exported.lines().count(), 8, "{exported}");

    let second = Desk::of_example("library.toml");
    run(&second, &format!("{skill}\n{exported}"), &[]).succeeded();
    let stories: Vec<String> = records.iter().map(|record| start(record)[1].clone()).collect();
    let mut from_episodes = 0;
    for record in second.episodes() {
        let [page, story] = &start(&record)[..] else { panic!("{record:?}") };
        // Other stories with their calls, and not the pages that the first run has shown.
        assert_eq!(page.matches("From the library:").count(), 1, "{page}");
        assert!(!page.contains(story), "the task itself: {page}");
        let shown = stories.iter().filter(|story| page.contains(*story)).count();
        assert!(shown == 0 || page.contains("> calculate("), "{page}");
        from_episodes += usize::from(shown > 0);
    }
    assert!(from_episodes > 0);
    let replayed = second.host(&["replay", "out"]).succeeded();
    assert!(replayed.contains(&format!("every byte equal: {}", second.episodes().len())), "{replayed}");
}

#[test]
fn wrong_libraries_are_refused_before_anything_is_written() {
    let desk = Desk::of_example("library.toml");
    let good = "{\"title\": \"a\", \"text\": \"b\"}\n";
    for (library, set, message) in [
        ("{\"title\": \"a\"}\n", "seed=1", "asset `library.jsonl`, line 1: there is neither `messages`"),
        (
            good,
            "environment.wrap=[{ plugin = 'library', file = 'other.jsonl' }]",
            "the run mounts no asset `other.jsonl`",
        ),
        (good, "environment.wrap=[{ plugin = 'library', entries = 0 }]", "environment.wrap.library.entries is 0"),
        (good, "environment.wrap=[{ plugin = 'library', splits = 'some' }]", "environment.wrap.library.splits"),
    ] {
        let refused = run(&desk, library, &[set]).mistake(set);
        assert!(refused.contains(message), "{set}: {refused}");
        assert!(!desk.path("out").exists(), "{set}");
    }
    let refused = run(&desk, &good.repeat((5 << 20) / good.len()), &[]).mistake("a large file");
    assert!(refused.contains("but the limit is 4; export fewer episodes"), "{refused}");
}
