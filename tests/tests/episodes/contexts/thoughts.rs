//! Replies of thinking models in episodes:
//! - environments and rewards get the message, the record keeps the thoughts, and all sampled tokens are trained on;
//! - a call that is only thought about does not run;
//! - a reply that is cut while thinking has an empty message;
//! - rewards that ask for thoughts receive them;
//! - the limit of thoughts cuts a reply, and a replay gives the same record.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common::{Table, answers, call, limits, play, rollout};
use gymkhana_record::{EpisodeRecord, Turn, Value, text_of};
use gymkhana_rollout::{Limits, ReplayDifference};

/// Thoughts and messages of a record, in order.
fn said(record: &EpisodeRecord) -> Vec<String> {
    let said = record.turns.iter().filter_map(|turn| match turn {
        Turn::Thought { text, .. } => Some(format!("({text})")),
        Turn::Message { content, .. } => Some(text_of(content)),
        Turn::Call { call, .. } => Some(call.name.clone()),
        Turn::MalformedCall { .. } | Turn::Answer { .. } | Turn::Observation { .. } => None,
    });
    said.collect()
}

#[tokio::test]
async fn a_message_is_what_stands_behind_the_thoughts() {
    let table = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    let thought_call = call("calculate", r#"{"expression": "1+1"}"#);
    let first =
        format!("<think>\nI could {thought_call} but more.\n</think>\n\n{}", thought_call.replace("1+1", "2+2"));
    let replies = [first.as_str(), "<think>\nperhaps 5\n</think>\n\n4"];
    let record = play(&rollout, &replies).await;
    let thought = format!("(I could {thought_call} but more.)");
    assert_eq!(said(&record), [thought.as_str(), "calculate", "(perhaps 5)", "4"]);
    assert_eq!(answers(&record), [("4".to_owned(), false)]);
    // Tokens of a byte-level model: thoughts and their marks.
    let tokens: Vec<u32> = record.policy_turns.iter().map(|turn| turn.thought_tokens).collect();
    let length = |reply: &str| (reply.find("</think>").unwrap() + "</think>".len()) as u32;
    // The two marks of calls in the thought are one token each.
    let saved = ("<tool_call>".len() + "</tool_call>".len() - 2) as u32;
    assert_eq!(tokens, [length(replies[0]) - saved, length(replies[1])]);
    let sampled: Vec<u32> = record
        .segments
        .iter()
        .flat_map(|segment| {
            segment.tokens().iter().zip(segment.sampled()).filter(|(_, sampled)| **sampled).map(|(token, _)| *token)
        })
        .collect();
    let text = rollout.chat().decode(&sampled).unwrap();
    assert_eq!(text, format!("{}<|im_end|>{}<|im_end|>", replies[0], replies[1]));
    let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
    assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
}

#[tokio::test]
async fn a_reply_that_was_cut_while_thinking_says_nothing() {
    let table = Table::new().reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    let record = play(&rollout, &["<think>\nperhaps answer: 5"]).await;
    assert_eq!(said(&record), ["(perhaps answer: 5)", ""]);
}

#[tokio::test]
async fn the_limit_of_thoughts_cuts_a_reply() {
    let table = Table::new().reward("answer-match", &[]);
    let long = "<think>\none two three\n</think>\n\n5";
    for (limit, expected) in [(12, vec!["(one)", ""]), (40, vec!["(one two three)", "5"])] {
        let rollout = rollout(&table, Limits { reasoning_tokens: Some(limit), ..limits() }).await;
        let record = play(&rollout, &[long]).await;
        assert_eq!(said(&record), expected, "{limit}");
        assert!(record.policy_turns[0].thought_tokens as usize <= limit, "{limit}");
        let sampled = record.segments[0].sampled().iter().filter(|sampled| **sampled).count();
        assert_eq!(sampled == limit, limit == 12, "{sampled}");
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.unwrap();
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

#[tokio::test]
async fn a_reward_that_asks_for_thoughts_receives_them() {
    let checklist = r#"[{"name": "sure", "in": "thought", "not-contains": "perhaps"}]"#;
    let options = [("checklist", Value::Text(checklist.to_owned()))];
    let table = Table::new().reward("rubric", &options);
    let rollout = rollout(&table, limits()).await;
    let group = [
        play(&rollout, &["<think>\nperhaps\n\nit is\n</think>\n\n5"]).await,
        play(&rollout, &["<think>\nit is\n</think>\n\nperhaps 5"]).await,
    ];
    let group = rollout.rescore(&group).await;
    let totals: Vec<f64> = group.iter().map(|record| record.scores[0].scores[0].total).collect();
    assert_eq!(totals, [0.5, 1.0]);
    // The evidence points into the thoughts, in the record's own transcript.
    let evidence = &group[0].scores[0].scores[0].evidence[0];
    assert!(matches!(&group[0].turns[evidence.turn as usize], Turn::Thought { text, .. } if text.contains("perhaps")));
}
