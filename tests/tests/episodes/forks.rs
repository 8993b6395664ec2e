//! Forks of real episodes:
//! - an episode forked by snapshot and one forked by replay continue equally, including the host's part: random
//!   streams, clocks, sessions of tools;
//! - a fork can have its own seed, and its prefix keeps the old one: a replay of forks of forks is equal byte by byte;
//! - plugins without snapshots are forked by replay;
//! - a plugin whose snapshot is not its state is detected.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common::{Table, answers, call, limits, play, rollout};
use gymkhana_chat::ReplyPiece;
use gymkhana_policy::{GenerateRequest, Sampling, ScriptedPolicy};
use gymkhana_record::{EpisodeId, EpisodeRecord, Seed, Value};
use gymkhana_rollout::{Actor, EpisodePlan, ForkError, ReplayDifference, Rollout};

/// A policy that gives the same reply in the same turn, whatever its prompt: `replies[turn]`, then the last one.
fn by_turn<'a>(
    rollout: &'a Rollout,
    replies: &[String],
) -> ScriptedPolicy<impl Fn(&GenerateRequest) -> Vec<u32> + Send + Sync + use<'a>> {
    let encoded: Vec<Vec<u32>> =
        replies.iter().map(|reply| rollout.chat().encode_reply(&[ReplyPiece::Frame(reply)]).unwrap()).collect();
    ScriptedPolicy::new(usize::MAX, move |request| {
        let turn = rollout.chat().decode(&request.tokens).unwrap().matches("<|im_start|>a").count() - 1;
        encoded[turn.min(encoded.len() - 1)].clone()
    })
}

fn plan(record: &EpisodeRecord, member: u32, seed: u64) -> EpisodePlan {
    EpisodePlan {
        id: EpisodeId { member, ..record.id },
        task: record.task.clone(),
        seed: Seed(seed),
        sampling: Sampling::GREEDY,
        place: member,
        turns: None,
        guidance: None,
    }
}

fn draws() -> Vec<String> {
    let mut replies = vec![format!("{}{}", call("random", "{}"), call("clock", "{}")); 4];
    replies.push("done".to_owned());
    replies
}

#[tokio::test]
async fn a_fork_with_the_same_seed_continues_like_the_original() {
    let table = Table::new().tool("guest-hostile-tool", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    let replies = draws();
    let first = play(&rollout, &replies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let policy = by_turn(&rollout, &replies);
    for turn in 0..5 {
        let plans = vec![plan(&first, 1, first.seed.0)];
        let forks = rollout.fork_recorded(&first, turn, plans, Actor::Policy(&policy)).await.unwrap();
        assert_eq!(answers(&forks[0]), answers(&first), "forked before turn {turn}");
        assert_eq!(forks[0].turns, first.turns);
        assert_eq!(forks[0].segments, first.segments);
        assert_eq!((forks[0].forks[0].parent, &forks[0].forks[0].turns[..]), (first.id, &[turn][..]));
    }
    let check = rollout.check_forks(&first).await.unwrap();
    assert_eq!((check.forks as usize, check.difference), (first.policy_turns.len(), None));
}

#[tokio::test]
async fn forks_of_forks_have_seeds_of_their_own_and_are_replayed() {
    let table = Table::new().tool("guest-hostile-tool", &[]).reward("answer-match", &[]);
    let rollout = rollout(&table, limits()).await;
    let policy = by_turn(&rollout, &draws());
    let first = play(&rollout, &draws().iter().map(String::as_str).collect::<Vec<_>>()).await;
    let plans = vec![plan(&first, 1, 100), plan(&first, 2, 200)];
    let forks = rollout.fork_recorded(&first, 2, plans, Actor::Policy(&policy)).await.unwrap();
    let [left, right] = &forks[..] else { panic!("two forks") };
    // Each turn has two answers, a random number and the clock. Two turns are shared.
    assert_eq!(answers(left)[..4], answers(&first)[..4]);
    assert_ne!(answers(left)[4], answers(&first)[4], "the fork draws its own numbers");
    assert_ne!(answers(left)[4], answers(right)[4], "and so does its neighbour");
    assert_eq!(answers(left)[5], answers(&first)[5], "the clock goes on as it was");
    let grandchildren =
        rollout.fork_recorded(left, 3, vec![plan(&first, 3, 300)], Actor::Policy(&policy)).await.unwrap();
    let child = &grandchildren[0];
    assert_eq!(answers(child)[..6], answers(left)[..6]);
    assert_ne!(answers(child)[6], answers(left)[6]);
    let parents: Vec<EpisodeId> = child.forks.iter().map(|fork| fork.parent).collect();
    assert_eq!(parents, [first.id, left.id]);
    // Before its parent's fork, a grandchild belongs to the first episode.
    let early = rollout.fork_recorded(left, 1, vec![plan(&first, 4, 400)], Actor::Policy(&policy)).await.unwrap();
    assert_eq!(early[0].forks.iter().map(|fork| (fork.parent, fork.seed)).collect::<Vec<_>>(), [(left.id, first.seed)]);
    for group in [&forks, &grandchildren, &early] {
        let replayed = rollout.replay_group(group).await.unwrap();
        for (record, replayed) in group.iter().zip(&replayed) {
            assert_eq!(ReplayDifference::between(record, replayed), None);
        }
        assert_eq!(rollout.check_forks(&group[0]).await.unwrap().difference, None);
    }
}

/// Two seats and no snapshots.
#[tokio::test]
async fn plugins_without_snapshots_are_forked_by_replay() {
    let rollout = rollout(&Table::new().environment("guest-two-seats", &[]), limits()).await;
    let policy = by_turn(&rollout, &[call("stay", "{}"), "over to you".to_owned()]);
    let first = crate::common::play_by(&rollout, Actor::Policy(&policy)).await;
    assert_eq!(first.rewards, [1.0, 1.0]);
    for turn in 0..4 {
        let forks =
            rollout.fork_recorded(&first, turn, vec![plan(&first, 1, 5)], Actor::Policy(&policy)).await.unwrap();
        assert_eq!((&forks[0].turns, &forks[0].rewards), (&first.turns, &first.rewards), "turn {turn}");
        let replayed = rollout.replay_group(&forks).await.unwrap();
        assert_eq!(ReplayDifference::between(&forks[0], &replayed[0]), None);
    }
    let error = rollout.fork_recorded(&first, 4, vec![plan(&first, 1, 5)], Actor::Policy(&policy)).await.unwrap_err();
    assert!(matches!(error, ForkError::NoTurn { turns: 4, .. }), "{error}");
    assert!(error.to_string().ends_with("it can be forked before turn 0 to 3"), "{error}");
}

#[tokio::test]
async fn every_first_party_plugin_forks_as_it_plays() {
    let words = Table::new().tool("calculator", &[]).reward("answer-match", &[]);
    let lake = Table::new().environment("frozen-lake", &[("slippery", Value::Flag(true))]);
    let booking = Table::new().environment("booking", &[("user", Value::Text("rules".to_owned()))]);
    for table in [words, lake, booking] {
        let rollout = rollout(&table, limits()).await;
        let record = crate::common::play_by(&rollout, Actor::Oracle).await;
        assert!(record.segments[0].turns().last().unwrap() > &0, "an episode of several turns");
        assert_eq!(rollout.check_forks(&record).await.unwrap().difference, None);
    }
}

#[tokio::test]
async fn a_prefix_that_cannot_be_replayed_is_not_forked() {
    let table = Table::new().tool("guest-hostile-tool", &[]);
    let rollout = rollout(&table, limits()).await;
    let replies = draws();
    let mut record = play(&rollout, &replies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    record.seed = Seed(8);
    let policy = by_turn(&rollout, &replies);
    let error = rollout.fork_recorded(&record, 3, vec![plan(&record, 1, 1)], Actor::Policy(&policy)).await.unwrap_err();
    assert!(matches!(error, ForkError::Diverged(_)), "{error}");
}
