//! Context strategies over real components:
//! - with every strategy, the segments hold exactly what the policy saw and sampled, each sampled token once;
//! - each strategy shows what its rule says, and nothing older;
//! - a context that a strategy shortens lasts longer than one that only grows, and limits still end it;
//! - replays, forks and the store's sharing of prefixes work with several segments.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod thoughts;

use crate::common::{Table, answers, call, limits, plan, play_by, rollout, rollout_with};
use crate::recorder::{Recorder, assert_saw};
use gymkhana_chat::ReplyPiece;
use gymkhana_policy::GenerateRequest;
use gymkhana_record::{Ending, EpisodeRecord, FailureKind, Turn};
use gymkhana_rollout::{
    Actor, ContextStrategy, Limits, PluginSetError, ReplayDifference, RestartReason, Rollout, Summary, Window,
};
use gymkhana_store::RunFolder;

fn table() -> Table {
    Table::new().tool("guest-hostile-tool", &[]).reward("answer-match", &[])
}

/// Policy that replies with a function of the context's text.
fn speaker<'a>(
    rollout: &'a Rollout,
    reply: impl Fn(&str, usize) -> String + Send + Sync + 'a,
) -> Recorder<impl Fn(&GenerateRequest) -> Vec<u32> + Send + Sync + 'a> {
    let taken = std::sync::Mutex::new(std::collections::HashMap::new());
    Recorder::new(move |request: &GenerateRequest| {
        let shown = rollout.chat().decode(&request.tokens).unwrap();
        let mut taken = taken.lock().unwrap();
        let turn: &mut usize = taken.entry(request.conversation.id).or_default();
        *turn += 1;
        rollout.chat().encode_reply(&[ReplyPiece::Frame(&reply(&shown, *turn - 1))]).unwrap()
    })
}

fn echo(text: &str) -> String {
    call("echo", &format!(r#"{{"text": "{text}"}}"#))
}

/// Plays, and checks that the record holds what the policy saw and sampled, that a replay is equal byte by byte, and
/// that forks before every turn reach the same end. Returns the record and its segments as text.
async fn play(rollout: &Rollout, reply: impl Fn(&str, usize) -> String + Send + Sync) -> (EpisodeRecord, Vec<String>) {
    let policy = speaker(rollout, reply);
    let record = play_by(rollout, Actor::Policy(&policy)).await;
    assert_saw(&record, &policy.take());
    let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
    assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    assert_eq!(rollout.check_forks(&record).await.unwrap().difference, None);
    let shown = record.segments.iter().map(|segment| rollout.chat().decode(segment.tokens()).unwrap()).collect();
    (record, shown)
}

/// Six echoes and a final message.
fn echoes(_: &str, turn: usize) -> String {
    if turn < 6 { echo(&format!("result-{turn}")) } else { "done".to_owned() }
}

/// Whether the answer to a call is still in the context.
fn stands(shown: &str, result: usize) -> bool {
    shown.contains(&format!("tresult-{result}<"))
}

#[tokio::test]
async fn a_growing_context_is_one_segment() {
    let rollout = rollout(&table(), limits()).await;
    let (record, shown) = play(&rollout, echoes).await;
    assert_eq!((record.ending, shown.len()), (Ending::Terminated, 1));
    assert!((0..6).all(|result| stands(&shown[0], result)));
}

#[tokio::test]
async fn the_window_replaces_older_results_and_keeps_every_reply() {
    let window = Window { most: 3, keep: 1, placeholder: "(gone)".to_owned(), ..Window::default() };
    let rollout = rollout_with(&table(), limits(), ContextStrategy::Window(window)).await;
    let (record, shown) = play(&rollout, echoes).await;
    // The fourth result replaces three; then two more fit next to the remaining one, and the next replaces again.
    assert_eq!(shown.len(), 2);
    let restarts = RestartReason::ALL.map(|reason| rollout.metrics().restarts(reason));
    // Forks and replays are counted, too.
    assert!(restarts[0] > 0 && restarts[1] == 0, "by the strategy, not by the template: {restarts:?}");
    assert!((0..3).all(|result| stands(&shown[0], result) && !stands(&shown[1], result)), "{shown:?}");
    assert!((3..6).all(|result| !stands(&shown[0], result) && stands(&shown[1], result)), "{shown:?}");
    assert_eq!(shown[1].matches("t(gone)<").count(), 3);
    assert_eq!(shown[1].matches("<tool_call>").count(), 6, "calls stay");
    // The second segment samples the replies after the window moved.
    let sampled_from = |segment: usize| {
        let segment = &record.segments[segment];
        (0..segment.len()).find(|&at| segment.sampled()[at]).map(|at| segment.turns()[at])
    };
    assert_eq!((sampled_from(0), sampled_from(1)), (Some(0), Some(4)));
    // Rewards and readers see the whole transcript.
    assert_eq!(answers(&record).len(), 6);
}

#[tokio::test]
async fn a_summary_is_sampled_trained_on_and_continued_from() {
    let instruction = "Now sum up.".to_owned();
    let strategy = ContextStrategy::Summary(Summary { tokens: 600, instruction: instruction.clone() });
    let rollout = rollout_with(&table(), limits(), strategy).await;
    let long = "y".repeat(100);
    let reply = |shown: &str, turn: usize| {
        if shown.ends_with("uNow sum up.<|im_end|><|im_start|>a") {
            format!("I have echoed {turn}.")
        } else if turn < 7 {
            echo(&format!("result-{turn} {long}"))
        } else {
            "done".to_owned()
        }
    };
    let (record, shown) = play(&rollout, reply).await;
    assert_eq!(record.ending, Ending::Terminated);
    let notes: Vec<(u32, &str)> =
        record.policy_turns.iter().filter_map(|turn| Some((turn.turn, turn.note.as_deref()?))).collect();
    assert_eq!(notes[0], (2, "I have echoed 2."), "two echoes of some 300 tokens each: {notes:?}");
    assert_eq!(shown.len(), notes.len() + 1);
    let task = shown[0].split("<|im_end|>").next().unwrap();
    for (index, (_, note)) in notes.iter().enumerate() {
        // The note is at the end of its segment; the next segment has only the task and the note.
        assert!(shown[index].ends_with(&format!("uNow sum up.<|im_end|><|im_start|>a{note}<|im_end|>")));
        let begins = format!("{task}<|im_end|><|im_start|>uYour summary of what came before:\n{note}<|im_end|>");
        assert!(shown[index + 1].starts_with(&begins), "{}", shown[index + 1]);
        let sampled = record.segments[index].sampled();
        assert!(sampled[sampled.len() - note.len() - 1..].iter().all(|sampled| *sampled));
    }
    // A note is not a message: the transcript has the calls, their answers and the final message.
    let is_message = |turn: &&Turn| matches!(turn, Turn::Message { .. });
    assert_eq!(record.turns.iter().filter(is_message).count(), 1);
    assert_eq!(answers(&record).len() + notes.len() + 1, record.policy_turns.len());
    // Notes count as turns.
    let strategy = ContextStrategy::Summary(Summary { tokens: 600, instruction });
    let rollout = rollout_with(&table(), Limits { turns: 3, ..limits() }, strategy).await;
    let (record, _) = play(&rollout, reply).await;
    assert_eq!((record.ending, record.policy_turns.len()), (Ending::TurnLimit, 3));
}

/// After a summary, an observation that followed the task is known only if the summary repeats it.
#[tokio::test]
async fn a_summary_decides_what_is_recalled() {
    let table = Table::new().environment("guest-recall", &[]);
    let strategy = ContextStrategy::Summary(Summary { tokens: 64, instruction: "Now sum up.".to_owned() });
    for (note, reward) in [("A", 1.0), ("B", 0.0)] {
        let rollout = rollout_with(&table, limits(), strategy.clone()).await;
        let reply = |shown: &str, _: usize| match shown.rsplit_once("what came before:\n") {
            Some((_, after)) => after[..1].to_owned(),
            None if shown.contains("Now sum up.") => note.to_owned(),
            None => "go on".to_owned(),
        };
        let (record, shown) = play(&rollout, reply).await;
        assert_eq!((record.ending, record.rewards.as_slice()), (Ending::Terminated, [reward].as_slice()));
        assert!(shown[0].contains("at the end of the episode: A") && !shown[1].contains("episode: A"), "{shown:?}");
    }
}

/// An oracle cannot write a summary, so its episode ends, also in a replay.
#[tokio::test]
async fn an_oracles_episode_ends_at_a_summary() {
    let summary = Summary { tokens: 100, instruction: "Now sum up.".to_owned() };
    for (strategy, ending) in [
        (ContextStrategy::Summary(summary), Ending::EnvironmentFailed),
        (ContextStrategy::State {}, Ending::Terminated),
        (ContextStrategy::default(), Ending::Terminated),
    ] {
        let rollout = rollout_with(&Table::new().tool("calculator", &[]), limits(), strategy).await;
        let record = play_by(&rollout, Actor::Oracle).await;
        assert_eq!(record.ending, ending, "{:?}", record.failures);
        if let Some(failure) = record.failures.first() {
            assert_eq!(
                (failure.kind, failure.message.as_str()),
                (FailureKind::Refused, "an oracle writes no summaries")
            );
        }
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

#[tokio::test]
async fn the_state_is_the_task_the_last_reply_and_its_answers() {
    let rollout = rollout_with(&table(), limits(), ContextStrategy::State {}).await;
    let (record, shown) = play(&rollout, |shown, turn| {
        assert!(shown.matches("<tool_call>").count() <= 1, "more than the last reply is shown: {shown}");
        format!("I know {turn}.{}", echoes(shown, turn))
    })
    .await;
    assert_eq!(record.ending, Ending::Terminated);
    // The first two turns share a segment, because nothing can be removed yet; then each turn begins a segment.
    assert_eq!(shown.len(), 6);
    let task = shown[0].split("<|im_end|>").next().unwrap();
    for (index, segment) in shown.iter().enumerate().skip(1) {
        let before = format!("I know {index}.{}", echo(&format!("result-{index}")));
        let begins = format!("{task}<|im_end|><|im_start|>a{before}<|im_end|><|im_start|>tresult-{index}<|im_end|>");
        assert!(segment.starts_with(&begins), "{segment}");
        assert_eq!(segment.matches("I know").count(), 2, "the old state and the new one: {segment}");
    }
}

#[tokio::test]
async fn a_policy_edits_its_context() {
    let rollout = rollout_with(&table(), limits(), ContextStrategy::Edits {}).await;
    let edit = |arguments: &str| call("edit_context", arguments);
    let (record, shown) = play(&rollout, |_, turn| match turn {
        0 | 1 => echo(&format!("result-{turn}")),
        2 => edit(r#"{"turns": [9]}"#),
        3 => format!("{}{}", edit(r#"{"turns": [0, 2]}"#), echo("beside")),
        4 => edit(r#"{"turns": [1], "text": "it was result-1"}"#),
        _ => "done".to_owned(),
    })
    .await;
    let answered: Vec<(String, bool)> = answers(&record);
    let answered: Vec<(&str, bool)> = answered.iter().map(|(text, failed)| (text.as_str(), *failed)).collect();
    assert_eq!(
        answered[2..],
        [
            ("no such turn to edit: 9; there is 0, 1", true),
            ("deleted: 0, 2", false),
            ("beside", false),
            ("rewritten: 1", false)
        ]
    );
    assert_eq!((record.ending, shown.len()), (Ending::Terminated, 3));
    assert!(shown[0].contains("t[turn 0]\nresult-0<") && shown[0].contains("t[turn 1]\nresult-1<"), "{}", shown[0]);
    let calls = |index: usize| shown[index].matches("<tool_call>").count();
    assert!(!shown[1].contains("result-0") && shown[1].contains("t[turn 1]\nresult-1<"), "{}", shown[1]);
    assert!(!shown[1].contains("no such turn"), "{}", shown[1]);
    assert!(shown[2].contains("u[turn 1]\nit was result-1<") && !shown[2].contains("t[turn 1]"), "{}", shown[2]);
    assert_eq!((calls(0), calls(1), calls(2)), (4 + 1, 3 + 1, 2 + 1));
    assert!(record.opening.functions[0].functions.iter().any(|function| function.name == "edit_context"));
}

/// Other strategies do not offer the function.
#[tokio::test]
async fn edits_are_offered_only_by_their_strategy() {
    let rollout = rollout_with(&table(), limits(), ContextStrategy::State {}).await;
    let reply = |_: &str, turn: usize| {
        if turn == 0 { call("edit_context", r#"{"turns": [0]}"#) } else { "done".to_owned() }
    };
    let (record, _) = play(&rollout, reply).await;
    let (answer, failed) = &answers(&record)[0];
    assert!(*failed && answer.starts_with("unknown function `edit_context`"), "{answer}");
}

#[tokio::test]
async fn a_tool_that_offers_the_same_function_is_refused() {
    let table = || Table::new().tool("guest-editing-tool", &[]);
    let refused = rollout(&table(), limits()).await.with_context(ContextStrategy::Edits {}).err().unwrap();
    assert!(
        matches!(&refused, PluginSetError::ContextFunction { tool, .. } if tool == "guest-editing-tool"),
        "{refused}"
    );
    rollout_with(&table(), limits(), ContextStrategy::State {}).await;
}

/// With the same replies and the same limit, a context that only grows is full early.
#[tokio::test]
async fn limits_are_checked_after_the_strategy() {
    let replies = |_: &str, turn: usize| {
        if turn < 8 { echo(&format!("result-{turn} {}", "y".repeat(100))) } else { "done".to_owned() }
    };
    let narrow = Limits { context_tokens: 700, ..limits() };
    let ended = async |limits: Limits, strategy: ContextStrategy| {
        let rollout = rollout_with(&table(), limits, strategy).await;
        let (record, _) = play(&rollout, replies).await;
        assert!(record.segments.iter().all(|segment| segment.len() <= limits.context_tokens));
        record.ending
    };
    assert_eq!(ended(narrow, ContextStrategy::default()).await, Ending::ContextLimit);
    assert_eq!(ended(narrow, ContextStrategy::State {}).await, Ending::Terminated);
    assert_eq!(
        ended(Limits { context_tokens: 250, ..limits() }, ContextStrategy::State {}).await,
        Ending::ContextLimit
    );
    // The turn limit takes precedence over the limit of a context that a strategy can still shorten.
    let both = Limits { turns: 1, context_tokens: 250, ..limits() };
    assert_eq!(ended(both, ContextStrategy::State {}).await, Ending::TurnLimit);
}

/// Forks of an episode of several segments are stored, read back and replayed.
#[tokio::test]
async fn forks_of_several_segments_are_stored_and_replayed() {
    let rollout = rollout_with(&table(), limits(), ContextStrategy::State {}).await;
    let policy =
        speaker(&rollout, |shown, _| match shown.split("result-").last().and_then(|rest| rest.chars().next()) {
            Some(last) if last.is_ascii_digit() && last < '5' => echo(&format!("result-{}", (last as u8 + 1) as char)),
            Some('5') => "done".to_owned(),
            _ => echo("result-0"),
        });
    let first = play_by(&rollout, Actor::Policy(&policy)).await;
    assert_eq!(first.segments.len(), 6);
    let plans = vec![plan(1, 7), plan(2, 200)];
    let forks = rollout.fork_recorded(&first, 4, plans, Actor::Policy(&policy)).await.unwrap();
    for fork in &forks {
        let tokens = |record: &EpisodeRecord| -> Vec<Vec<u32>> {
            record.segments.iter().map(|segment| segment.tokens().to_vec()).collect()
        };
        assert_eq!(tokens(fork), tokens(&first), "equal contexts have equal replies");
        assert_eq!(fork.segments[..3], first.segments[..3], "turns 0 to 3");
        assert_eq!(fork.shared_turns(0), 4);
    }
    let records: Vec<EpisodeRecord> = std::iter::once(first).chain(forks).collect();
    let replayed = rollout.replay_group(&records[1..]).await.unwrap();
    for (record, replayed) in records[1..].iter().zip(&replayed) {
        assert_eq!(ReplayDifference::between(record, replayed), None);
    }
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::create(&folder.path().join("run"), "seed = 1\n").unwrap();
    let mut store = run.episodes().unwrap();
    for record in &records {
        assert!(store.append(record).unwrap());
    }
    store.commit().unwrap();
    let read: Vec<EpisodeRecord> = run.reader().episodes().unwrap().read_all().map(Result::unwrap).collect();
    assert_eq!(read, records);
}
