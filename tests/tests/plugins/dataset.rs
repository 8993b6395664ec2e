//! Rows of a mounted file with the real component.

use crate::common::sandbox;
use gymkhana_record::{Call, NamedValue, Seed, TaskRef, Value, text_of};
use gymkhana_registry::Capability;
use gymkhana_rows::Writer;
use gymkhana_sandbox::{Action, Advice, Assets, CallError, EnvironmentEpisode, Grants, Plugin, ResetResult};
use gymkhana_tests::component;
use serde_json::{Value as Json, json};

/// The plugin with an asset.
fn plugin(bytes: &[u8]) -> Plugin {
    let granted = Grants([Capability::Assets].into());
    let plugin = Plugin::load(sandbox(), &component("dataset"), &granted).expect("a sound plugin");
    plugin.with_assets([("data.rows".to_owned(), bytes.into())].into_iter().collect::<Assets>())
}

fn option(name: &str, value: &str) -> NamedValue {
    NamedValue { name: name.to_owned(), value: Value::Text(value.to_owned()) }
}

/// Starts a task of the split `train`.
async fn start(
    plugin: &Plugin,
    index: u64,
    options: &[NamedValue],
) -> Result<(EnvironmentEpisode, ResetResult, String), CallError> {
    let task = TaskRef { split: "train".to_owned(), index };
    let (episode, started) = EnvironmentEpisode::start(plugin, &task, options, Seed(1)).await?;
    let [(0, content)] = &started.opening.observations[..] else { panic!("{started:?}") };
    let shown = text_of(content);
    Ok((episode, started, shown))
}

/// Conversation about sums.
fn conversation() -> Json {
    json!({ "prompt": "2+2", "answer": 4, "split": "train", "messages": [
        { "role": "system", "content": "Add." }, { "role": "user", "content": "1+1" },
        { "role": "assistant", "content": "2" },
    ] })
}

#[tokio::test]
async fn examples_are_shown_before_the_question_and_survive_a_snapshot() {
    let (mut episode, _, shown) = start(&plugin(conversation().to_string().as_bytes()), 0, &[]).await.expect("a task");
    assert_eq!(shown, "Add.\n\nUser: 1+1\n\nAssistant: 2\n\nUser: 2+2");
    let facts = vec![NamedValue { name: "answer".to_owned(), value: Value::Integer(4) }];
    assert_eq!(episode.privileged().await.expect("a view"), facts);
    let snapshot = episode.snapshot().await.expect("a snapshot");
    episode.rewind(&snapshot).await.expect("its own snapshot");
    assert_eq!(episode.snapshot().await.expect("a snapshot").bytes, snapshot.bytes);
    let advice = episode.advise(&[], &[]).await.expect("advice");
    assert!(matches!(&advice, Advice::Message(message) if message == "4"), "{advice:?}");
}

#[tokio::test]
async fn each_message_of_the_user_can_be_a_turn() {
    let plugin = plugin(conversation().to_string().as_bytes());
    let (mut episode, _, shown) = start(&plugin, 0, &[option("conversation", "each")]).await.expect("a task");
    assert_eq!(shown, "Add.\n\n1+1");
    for (expected, observed, over) in [("2", Some("2+2"), false), ("4", None, true)] {
        let Advice::Message(reply) = episode.advise(&[], &[]).await.expect("advice") else { panic!("a message") };
        assert_eq!(reply, expected);
        let reply = vec![gymkhana_record::Part::Text(reply)];
        let stepped = episode.step(0, Action::Message(&reply)).await.expect("a step");
        let shown = stepped.observations.first().map(|(_, content)| text_of(content));
        assert_eq!((shown.as_deref(), stepped.terminated), (observed, over));
    }
}

#[tokio::test]
async fn rows_are_read_from_an_indexed_file() {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for number in 0..1000 {
        let split = if number % 10 == 0 { "test" } else { "train" };
        let row = json!({ "prompt": format!("question {number}"), "answer": number });
        writer.add(split, row.to_string().as_bytes()).expect("memory");
    }
    let plugin = plugin(&writer.finish().expect("memory"));
    let splits = plugin.splits(&[]).await.expect("splits");
    let sizes: Vec<_> = splits.iter().map(|split| (split.name.as_str(), split.tasks)).collect();
    assert_eq!(sizes, [("test", Some(100)), ("train", Some(900))]);
    // Numbers 1 to 9 are the first of the split.
    assert_eq!(start(&plugin, 9, &[]).await.expect("a task").2, "question 11");
    let none = start(&plugin, 900, &[]).await.err().expect("no such task");
    assert!(none.message.contains("split `train` has 900 tasks, not task 900"), "{none}");
}

#[tokio::test]
async fn a_row_brings_functions_results_and_set_up_data() {
    let row = json!({ "prompt": "Rain?", "split": "train",
        "tools": [{ "type": "function", "function": { "name": "weather", "description": "Weather.",
            "parameters": { "type": "object", "properties": { "city": { "type": "string" } } } } },
            { "name": "other" }],
        "results": { "weather": { "rain": true } }, "setup": { "sql": "create table a (b);" } });
    let (mut episode, started, _) = start(&plugin(row.to_string().as_bytes()), 0, &[]).await.expect("a task");
    let names: Vec<_> =
        started.opening.functions.iter().flat_map(|seat| &seat.functions).map(|each| each.name.as_str()).collect();
    assert_eq!(names, ["weather", "other"]);
    assert_eq!(started.opening.setup, [("sql".to_owned(), b"create table a (b);".to_vec())]);
    for (name, answer) in [("weather", r#"{"rain":true}"#), ("other", "noted")] {
        let call = Call { id: "1".to_owned(), name: name.to_owned(), arguments: "{}".to_owned() };
        let stepped = episode.step(0, Action::Call(&call)).await.expect("a step");
        assert_eq!((text_of(&stepped.observations[0].1).as_str(), stepped.terminated), (answer, false));
    }
}

#[tokio::test]
async fn wrong_files_are_refused_with_the_place() {
    let row = json!({ "prompt": "2+2", "split": "train", "messages": [{ "role": "tool", "content": "4" }] });
    for (bytes, words) in [
        (row.to_string().into_bytes(), "asset `data.rows`, line 1: message 1: `role` is not `system`, `user` or"),
        (b"GYMROWS1 and no more".to_vec(), "asset `data.rows`: the file is damaged: its end is missing"),
        (vec![b' '; (16 << 20) + 1], "import it with `host data import`"),
    ] {
        let error = start(&plugin(&bytes), 0, &[]).await.err().expect("refused");
        assert!(error.message.contains(words), "{error}");
    }
}
