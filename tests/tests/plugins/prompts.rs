//! Questions of a mounted file with the real component.

use crate::common::sandbox;
use gymkhana_record::{NamedValue, Seed, TaskRef, Value, text_of};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Advice, Assets, CallError, EnvironmentEpisode, Grants, Plugin};
use gymkhana_tests::component;

/// Starts the first task of a file of one line.
async fn start(line: &str) -> Result<(EnvironmentEpisode, String), CallError> {
    let granted = Grants([Capability::Assets].into());
    let plugin = Plugin::load(sandbox(), &component("prompts"), &granted).expect("a sound plugin");
    let assets: Assets = [("prompts.jsonl".to_owned(), line.as_bytes().into())].into_iter().collect();
    let plugin = plugin.with_assets(assets);
    let task = TaskRef { split: "train".to_owned(), index: 0 };
    let (episode, started) = EnvironmentEpisode::start(&plugin, &task, &[], Seed(1)).await?;
    let [(0, content)] = &started.opening.observations[..] else { panic!("{started:?}") };
    Ok((episode, text_of(content)))
}

#[tokio::test]
async fn examples_are_shown_before_the_question_and_survive_a_snapshot() {
    let line = r#"{"prompt": "2+2", "answer": 4, "split": "train", "messages": [
        {"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2"}]}"#;
    let (mut episode, shown) = start(&line.replace('\n', "")).await.expect("a task");
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
async fn messages_of_another_form_are_refused_by_line_and_index() {
    let line = r#"{"prompt": "2+2", "split": "train", "messages": [{"role": "tool", "content": "4"}]}"#;
    let error = start(line).await.err().expect("refused");
    let words = "asset `prompts.jsonl`, line 1: `messages[0].role` is not `system`, `user` or `assistant`";
    assert!(error.message.contains(words), "{error}");
}
