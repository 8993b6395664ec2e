//! Trials of an oracle before a run: functions that nothing offers, facts that the end of an episode lacks, and plugins that
//! fail.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;

use crate::common::{Table, limits, plan, rollout};
use gymkhana_egress::{CompletionSource, Egress};
use gymkhana_record::{Seed, Value};
use gymkhana_rollout::{Gate, MetricRuleError, RewardTerm};
use gymkhana_sandbox::Quota;

async fn missing(table: &Table, others: &[&str]) -> Vec<String> {
    rollout(table, limits()).await.missing_functions(&plan(0, 7).task, Seed(7), others).await
}

async fn facts(table: &Table) -> Result<(), MetricRuleError> {
    let rollout = rollout(table, limits()).await;
    match rollout.oracle_trial(&plan(0, 7).task, Seed(7)).await {
        Some(trial) => rollout.check_trial_facts(&trial),
        None => Ok(()),
    }
}

/// A reward whose gate names a fact that no environment of these tests has.
fn gated(table: Table) -> Table {
    let gate = Some(Gate::parse("answer-match", "environment.speed > 0").unwrap());
    table.reward_sharing("answer-match", &[], RewardTerm { gate, ..RewardTerm::from(1.0) })
}

#[tokio::test]
async fn functions_that_nothing_offers_are_found() {
    let experts = || Table::new().environment("guest-experts", &[]);
    assert_eq!(missing(&experts(), &[]).await, ["calculate"]);
    assert!(missing(&experts().tool("calculator", &[]), &[]).await.is_empty());
    // This oracle answers directly unless it is told of a calculator.
    assert!(missing(&Table::new(), &[]).await.is_empty());
    assert_eq!(missing(&Table::new(), &["search", "calculate"]).await, ["calculate"]);
    assert!(missing(&Table::new().tool("calculator", &[]), &["calculate"]).await.is_empty());
    let no_oracle = Table::new().environment("guest-two-seats", &[]);
    assert!(missing(&no_oracle, &["calculate"]).await.is_empty());
}

#[tokio::test]
async fn facts_that_the_end_lacks_are_found() {
    let lake = || Table::new().environment("frozen-lake", &[]);
    assert_eq!(facts(&lake()).await, Ok(()));
    let ended = "but the environment ended its oracle's episode of task train/0 without it\nhint: it";
    assert_eq!(
        facts(&gated(lake())).await.unwrap_err().to_string(),
        format!(
            "plugins.answer-match.gate names the fact `speed`, {ended}s facts that are flags or numbers are `success`"
        )
    );
    // Word problems end without facts.
    let error = facts(&Table::new()).await.unwrap_err().to_string();
    let none = "has no fact that is a flag or a number; name a component of a reward";
    assert_eq!(error, format!("success names the fact `success`, {ended} {none}"));
}

/// Failures of the plugins in a trial, in words.
async fn failures(table: &Table) -> Vec<String> {
    let trial = rollout(table, limits()).await.oracle_trial(&plan(0, 7).task, Seed(7)).await;
    trial.unwrap().failures.iter().map(ToString::to_string).collect()
}

/// The lake has no answer that the reward could compare.
#[tokio::test]
async fn rewards_that_cannot_score_are_found() {
    assert_eq!(failures(&Table::new().reward("answer-match", &[])).await, [""; 0]);
    let lake =
        Table::new().environment("frozen-lake", &[]).reward("answer-match", &[]).reward("guest-hostile-reward", &[]);
    let failed = failures(&lake).await;
    let begin = "reward `answer-match` failed during score: ";
    assert!(
        matches!(&failed[..], [one] if one.starts_with(begin) && one.contains("no privileged `answer`")),
        "{failed:?}"
    );
}

#[tokio::test]
async fn environments_that_fail_are_found() {
    for (behaviour, site) in [("trap-start", "start"), ("trap-step", "step"), ("trap-advise", "advise")] {
        let behaviour = [("behaviour", Value::Text(behaviour.to_owned()))];
        let failed = failures(&Table::new().environment("guest-hostile-environment", &behaviour)).await;
        let is_named = |one: &String| one.contains(site) && one.contains("a panic, as asked");
        assert!(matches!(&failed[..], [one] if is_named(one)), "{failed:?}");
    }
}

/// The third reply of the model ends the oracle's episode, which would lack the gate's fact.
#[tokio::test]
async fn plugins_with_outbound_calls_are_not_tried() {
    let replies = ["Good evening.", "polite", "thanks"].map(str::to_owned);
    let quota = Quota { model_calls: 8, model_tokens: 1000, http_requests: 0, tool_calls: 0 };
    let model = Egress { model: Some(CompletionSource::Script(replies.to_vec()).into()), http: None, quota };
    let asking = Table::new().environment("guest-asking-environment", &[]);
    let asking = gated(asking.with_granted_outbound("guest-asking-environment", Arc::new(model)));
    assert_eq!(facts(&asking).await, Ok(()));
    assert!(missing(&asking, &["calculate"]).await.is_empty());
}
