//! Documents that are read part by part with the real components: what the policy sees, the memory in replies and in
//! the tool `memory`, and hostile calls.

use crate::common::{Table, answers, call, limits, play, play_by, rollout_with};
use gymkhana_record::{Ending, EpisodeRecord, NamedValue, Value};
use gymkhana_rollout::{Actor, ContextStrategy, Limits, ReplayDifference, Rollout};

/// Length of a document and number of its parts.
const LENGTH: i64 = 40_000;
const PARTS: i64 = 40;

fn number(name: &str, number: i64) -> (&str, Value) {
    (name, Value::Integer(number))
}

async fn reader(options: &[(&str, Value)], memory: Option<&[(&str, Value)]>, strategy: ContextStrategy) -> Rollout {
    let table = Table::new().environment("long-reader", options);
    let table = if let Some(options) = memory { table.tool("memory", options) } else { table };
    rollout_with(&table, Limits { turns: 200, ..limits() }, strategy).await
}

fn fact<'a>(facts: &'a [NamedValue], name: &str) -> Option<&'a Value> {
    facts.iter().find(|fact| fact.name == name).map(|fact| &fact.value)
}

fn text(facts: &[NamedValue], name: &str) -> String {
    match fact(facts, name) {
        Some(Value::Text(text) | Value::Other(text)) => text.clone(),
        other => panic!("`{name}` is {other:?}"),
    }
}

/// Number of tokens of the longest context; the tiny model has one token for each byte.
fn longest(record: &EpisodeRecord) -> usize {
    record.segments.iter().map(|segment| segment.len()).max().unwrap_or(0)
}

async fn replays(rollout: &Rollout, record: &EpisodeRecord) {
    let replayed = rollout.replay_group(std::slice::from_ref(record)).await.expect("no fault of the host");
    assert_eq!(ReplayDifference::between(record, &replayed[0]), None);
}

#[tokio::test]
async fn the_context_does_not_grow_with_the_document() {
    let options = [number("characters", LENGTH), number("parts", PARTS), number("hops", 2), number("questions", 2)];
    let bounded = reader(&options, None, ContextStrategy::State {}).await;
    let record = play_by(&bounded, Actor::Oracle).await;
    assert_eq!((record.ending, fact(&record.extras, "success")), (Ending::Terminated, Some(&Value::Flag(true))));
    // An opening, a memory for each part, and the answer.
    assert_eq!(record.policy_turns.len() as i64, PARTS + 2);
    // A part has 1,000 characters, a memory at most 400, and the opening some 400.
    assert!(longest(&record) < 3_000, "{}", longest(&record));
    replays(&bounded, &record).await;

    let whole = reader(&options, None, ContextStrategy::default()).await;
    let record = play_by(&whole, Actor::Oracle).await;
    assert_eq!(fact(&record.extras, "success"), Some(&Value::Flag(true)));
    assert!(record.segments.len() == 1 && longest(&record) as i64 > LENGTH, "{}", longest(&record));
}

#[tokio::test]
async fn the_oracle_stores_facts_in_the_tool_and_finds_them_again() {
    let options = [
        number("parts", 3),
        number("hops", 2),
        number("questions", 2),
        number("changed", 50),
        number("memory-chars", 2),
    ];
    let rollout = reader(&options, Some(&[]), ContextStrategy::State {}).await;
    let record = play_by(&rollout, Actor::Oracle).await;
    assert_eq!(fact(&record.extras, "success"), Some(&Value::Flag(true)), "{:?}", record.turns);
    let sorted = |json: String| {
        let mut texts: Vec<String> = serde_json::from_str(&json).expect("a list of texts");
        texts.sort();
        texts
    };
    let needed = sorted(text(&record.privileged, "facts"));
    assert_eq!(sorted(text(&record.views, "memory.semantic")), needed);
    assert_eq!(fact(&record.views, "memory.inserts"), Some(&Value::Integer(needed.len() as i64)));
    // Two steps for each of two questions.
    assert_eq!(fact(&record.views, "memory.searches"), Some(&Value::Integer(4)));
    let found = answers(&record).into_iter().map(|(answer, _)| answer).collect::<Vec<_>>().join("\n");
    assert!(needed.iter().all(|sentence| found.contains(sentence) || sentence.contains(" is now ")), "{found}");
    replays(&rollout, &record).await;
}

#[tokio::test]
async fn hostile_calls_are_answered_and_memories_above_the_bound_show_no_part() {
    let options = [number("parts", 2), number("memory-chars", 5)];
    let limited = [number("entries", 1), number("entry-chars", 10)];
    let rollout = reader(&options, Some(&limited), ContextStrategy::State {}).await;
    let insert = |text: &str| call("memory_insert", &serde_json::json!({ "text": text }).to_string());
    let huge = insert(&"🙂".repeat(2_000));
    let gone = call("memory_update", r#"{"id": "s2", "text": "x"}"#);
    let spoken = ["ok", "too long a memory", "fine", "ok", "1"].map(str::to_owned);
    let replies = [vec![insert("a fact"), insert("another"), huge, gone], spoken.to_vec()].concat();
    let record = play(&rollout, &replies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let words = ["stored as s1", "it has 1 of 1 entries", "an entry may have 10 characters", "there is no entry `s2`"];
    for ((answer, failed), (place, word)) in answers(&record).into_iter().zip(words.into_iter().enumerate()) {
        assert!(failed == (place > 0) && answer.contains(word), "{answer}");
    }
    assert_eq!(text(&record.views, "memory.semantic"), r#"["a fact"]"#);
    assert_eq!(fact(&record.views, "memory.failed"), Some(&Value::Integer(3)));
    let shown = format!("{:?}", record.turns);
    assert_eq!(shown.matches("This memory has 17 characters, at most 5 are allowed").count(), 1, "{shown}");
    assert_eq!((shown.matches("Part 1 of 2").count(), shown.matches("Part 2 of 2").count()), (1, 1), "{shown}");
    assert_eq!((record.ending, fact(&record.extras, "success")), (Ending::Terminated, Some(&Value::Flag(false))));
    replays(&rollout, &record).await;
}
