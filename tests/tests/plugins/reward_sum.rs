//! Rewards assembled from real components: gates on other rewards' metrics, per turn, and in replays.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use crate::common::{Table, play, play_by, rollout};
use gymkhana_record::{EpisodeRecord, Value};
use gymkhana_rollout::{Actor, Gate, MetricRuleError, ReplayDifference, RewardTerm, Rollout};

/// A table with a reward that gives every seat 1, and 1/8, 2/8, 3/8, … for its messages.
fn table(gate: &str) -> Table {
    let share = RewardTerm { gate: Some(Gate::parse("guest-hostile-reward", gate).unwrap()), ..RewardTerm::from(0.5) };
    let turns = [("behaviour", Value::Text("turns".to_owned()))];
    Table::new().reward("answer-match", &[]).reward_sharing("guest-hostile-reward", &turns, share)
}

async fn again(rollout: &Rollout, record: &EpisodeRecord) {
    let replayed = rollout.replay_group(std::slice::from_ref(record)).await.unwrap();
    assert_eq!(ReplayDifference::between(record, &replayed[0]), None);
}

#[tokio::test]
async fn a_dense_reward_counts_only_after_the_outcome_has_passed() {
    let rollout = rollout(&table("answer-match.correct >= 0.5"), crate::common::limits()).await;
    rollout.check_rules().unwrap();
    let right = play_by(&rollout, Actor::Oracle).await;
    let wrong = play(&rollout, &["no number"]).await;
    assert_eq!((&right.rewards[..], &wrong.rewards[..]), (&[1.5][..], &[0.0][..]));
    assert_eq!((&right.turn_rewards[..], &wrong.turn_rewards[..]), (&[vec![0.0625]][..], &[vec![0.0]][..]));
    again(&rollout, &right).await;
    again(&rollout, &wrong).await;
}

#[tokio::test]
async fn gates_that_can_never_open_are_refused() {
    let refused = async |gate: &str| rollout(&table(gate), crate::common::limits()).await.check_rules().unwrap_err();
    assert!(matches!(refused("answer-mach.correct > 0").await, MetricRuleError::NoReward { .. }));
    assert!(matches!(refused("answer-match.right > 0").await, MetricRuleError::NoComponent { .. }));
    let circle = refused("guest-hostile-reward.whole > 0").await;
    assert_eq!(
        circle.to_string(),
        "the gates of `guest-hostile-reward` wait for each other and can never open\nhint: remove one of them"
    );
    // Facts of an environment are known after it has ended an episode.
    let facts = async |gate: &str| {
        let honest = [("behaviour", Value::Text("honest".to_owned()))];
        let rollout =
            rollout(&table(gate).environment("guest-hostile-environment", &honest), crate::common::limits()).await;
        rollout.check_rules().unwrap();
        rollout.check_facts(&play(&rollout, &["yes"]).await)
    };
    assert_eq!(facts("environment.success > 0").await, Ok(()));
    let error = facts("environment.speed > 0").await.unwrap_err();
    assert!(error.to_string().starts_with("plugins.guest-hostile-reward.gate names the fact `speed`, but"), "{error}");
}
