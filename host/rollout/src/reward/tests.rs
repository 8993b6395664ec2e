//! Sums computed by hand.

use gymkhana_record::{
    Component, Ending, EpisodeId, NamedValue, Part, Phase, PluginScore, PolicyTurn, Score, SeatRewards, Seed, TaskRef,
    Turn, Value,
};

use super::*;

/// A record with default values.
fn record() -> EpisodeRecord {
    EpisodeRecord {
        turn_limit: 8,
        ..EpisodeRecord::new(
            EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: 0, member: 0, attempt: 0 },
            TaskRef { split: "train".to_owned(), index: 0 },
            Seed(0),
            Ending::Terminated,
        )
    }
}

/// A reward's score of a seat; its component `part` has the same value.
fn score(seat: u32, total: f64) -> Score {
    let part = Component { name: "part".to_owned(), value: total };
    Score { seat, total, components: vec![part], turns: vec![], evidence: vec![] }
}

fn scored(scores: &[(&str, Vec<Score>)]) -> EpisodeRecord {
    let scores =
        scores.iter().map(|(plugin, scores)| PluginScore { plugin: (*plugin).to_owned(), scores: scores.clone() });
    EpisodeRecord { scores: scores.collect(), ..record() }
}

fn gated(of: &str, weight: f64, gate: &str) -> RewardTerm {
    RewardTerm { weight: weight.into(), gate: Some(Gate::parse(of, gate).expect("a condition")), seat: None }
}

fn reward_sum(environment: RewardTerm) -> RewardSum {
    let success = "one.part".parse().expect("a rule");
    RewardSum { environment, provoked: ProvokedReward::Least, success }
}

/// Rewards of `seats` seats from these terms.
fn with_reward(mut record: EpisodeRecord, terms: &[(&str, RewardTerm)], seats: usize) -> EpisodeRecord {
    let terms: Vec<(&str, &RewardTerm)> = terms.iter().map(|(name, term)| (*name, term)).collect();
    reward_sum(1.0.into()).assemble(&mut record, &terms, seats);
    record
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    let equal = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12);
    assert!(equal, "{found:?} is not {expected:?}");
}

/// R = R1 + [R1 >= 0.5] (R2 + [R2 >= 0.4] R3).
#[test]
fn levels_count_after_those_above_them_have_passed() {
    let terms = [
        ("one", RewardTerm::from(1.0)),
        ("two", gated("two", 1.0, "one.part >= 0.5")),
        ("three", gated("three", 1.0, "two.total >= 0.4")),
    ];
    for (levels, expected) in [
        ([0.6, 0.3, 0.7], 0.6 + 0.3),
        ([0.6, 0.5, 0.7], 0.6 + 0.5 + 0.7),
        // The second level passes its threshold but does not count, so the third does not count either.
        ([0.4, 0.5, 0.7], 0.4),
        ([0.5, 0.4, -0.2], 0.5 + 0.4 - 0.2),
        ([-1.0, 0.9, 0.9], -1.0),
    ] {
        let [one, two, three] = levels.map(|total| vec![score(0, total)]);
        // The order of scoring does not matter.
        let record = scored(&[("two", two), ("three", three), ("one", one)]);
        near(&with_reward(record, &terms, 1).rewards, &[expected]);
    }
    // Plain sums without gates: G-RA's baseline.
    let plain = ["one", "two", "three"].map(|name| (name, RewardTerm::from(1.0)));
    let record = scored(&[("one", vec![score(0, 0.4)]), ("two", vec![score(0, 0.5)]), ("three", vec![score(0, 0.7)])]);
    near(&with_reward(record, &plain, 1).rewards, &[1.6]);
}

#[test]
fn each_seat_and_the_environment_have_their_own_gate() {
    let terms = [("one", RewardTerm::from(2.0)), ("two", gated("two", 0.5, "one.part > 0"))];
    let mut record =
        scored(&[("one", vec![score(0, 1.0), score(1, 0.0)]), ("two", vec![score(1, 0.8), score(0, 0.6)])]);
    record.environment_rewards = (0..2).map(|seat| SeatRewards { seat, rewards: vec![0.25, 0.5] }).collect();
    near(&with_reward(record.clone(), &terms, 2).rewards, &[0.75 + 2.0 + 0.3, 0.75]);
    let terms: Vec<(&str, &RewardTerm)> = terms.iter().map(|(name, term)| (*name, term)).collect();
    reward_sum(gated("environment", 3.0, "one.total < 0.5")).assemble(&mut record, &terms, 2);
    near(&record.rewards, &[2.0 + 0.3, 3.0 * 0.75]);
    assert!(record.success);
}

#[test]
fn a_gate_on_a_fact_stays_shut_without_the_fact() {
    let terms = [("two", gated("two", 1.0, "environment.goals >= 2"))];
    for (facts, expected) in
        [(vec![("goals", Value::Integer(2))], 1.0), (vec![("goals", Value::Integer(1))], 0.0), (vec![], 0.0)]
    {
        let mut record = scored(&[("two", vec![score(0, 1.0)])]);
        record.extras = facts.into_iter().map(|(name, value)| NamedValue { name: name.to_owned(), value }).collect();
        near(&with_reward(record, &terms, 1).rewards, &[expected]);
    }
}

/// From 1 to 0 in four steps.
#[test]
fn weights_follow_the_training_step() {
    let schedule = WeightSchedule { shape: WeightShape::Linear, to: 0.0, begin: 0, over: 4, every: None };
    let terms =
        [("one", RewardTerm { weight: Weight { start: 1.0, schedule: Some(schedule) }, gate: None, seat: None })];
    for (step, expected) in [(0, 0.8), (1, 0.6), (3, 0.2), (9, 0.0)] {
        let record = EpisodeRecord { training_step: step, ..scored(&[("one", vec![score(0, 0.8)])]) };
        near(&with_reward(record, &terms, 1).rewards, &[expected]);
    }
}

#[test]
fn all_seats_get_the_score_of_one() {
    let shares = RewardTerm { seat: Some(1), ..RewardTerm::from(1.0) };
    let numbers = |scores: Vec<Score>| -> Vec<(u32, f64, f64)> {
        scores.iter().map(|score| (score.seat, score.total, score.components[0].value)).collect()
    };
    assert_eq!(numbers(shares.shared(vec![score(0, 0.25), score(1, 1.0)])), [(0, 1.0, 1.0), (1, 1.0, 1.0)]);
    // The seat did not act.
    assert_eq!(numbers(shares.shared(vec![score(0, 0.25)])), [(0, 0.0, 0.0)]);
    assert_eq!(numbers(RewardTerm::from(1.0).shared(vec![score(0, 0.25)])), [(0, 0.25, 0.25)]);
}

/// Two turns, of which the first earned 0.5 and the second provoked the failure: -1 in all, -1.5 of it for the second.
#[test]
fn a_failure_costs_the_turn_that_provoked_it() {
    let mut record = scored(&[("one", vec![score(0, 1.0)])]);
    let turn = |turn| PolicyTurn {
        seat: 0,
        turn,
        transcript: turn,
        steps: turn,
        state: None,
        probe_score: None,
        thought_tokens: 0,
        note: None,
    };
    record.policy_turns = vec![turn(0), turn(1)];
    record.environment_rewards = vec![SeatRewards { seat: 0, rewards: vec![0.25] }];
    reward_sum(2.0.into()).assemble_failed(&mut record, &[("one", &1.0.into())], 1, -1.0);
    assert_eq!((record.rewards, record.turn_rewards, record.success), (vec![-1.0], vec![vec![0.5, 0.0]], false));
}

/// Two seats. Seat 0 calls a tool, then acts (step 0); seat 1 acts (step 1); seat 0 writes a note, then acts (step 2).
fn two_seats() -> EpisodeRecord {
    let says = |seat| Turn::Message { seat, content: vec![Part::Text("…".to_owned())] };
    let turn = |seat, turn, transcript, steps, note: Option<&str>| PolicyTurn {
        seat,
        turn,
        transcript,
        steps,
        state: None,
        probe_score: None,
        thought_tokens: 0,
        note: note.map(str::to_owned),
    };
    let call = gymkhana_record::Call { id: "call-0".to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
    EpisodeRecord {
        turns: vec![Turn::Call { seat: 0, call, cost: 0.0 }, says(0), says(1), says(0)],
        policy_turns: vec![
            turn(0, 0, 0, 0, None),
            turn(0, 1, 1, 0, None),
            turn(1, 0, 2, 1, None),
            turn(0, 2, 3, 2, Some("a note")),
            turn(0, 3, 3, 2, None),
        ],
        ..record()
    }
}

#[test]
fn steps_and_messages_belong_to_their_turns() {
    let mut record = two_seats();
    record.environment_rewards = vec![
        SeatRewards { seat: 0, rewards: vec![1.0, 2.0, 4.0] },
        SeatRewards { seat: 1, rewards: vec![8.0, 16.0, 32.0] },
    ];
    let with_turns = |seat, turns: &[f64]| Score { turns: turns.to_vec(), ..score(seat, 0.5) };
    let scores = |seats: [Score; 2]| seats.to_vec();
    record.scores = vec![
        PluginScore { plugin: "one".to_owned(), scores: scores([with_turns(0, &[0.1, 0.2]), with_turns(1, &[0.3])]) },
        // Only the total counts.
        PluginScore { plugin: "two".to_owned(), scores: scores([score(0, 0.5), score(1, 0.5)]) },
    ];
    let terms = [("one", RewardTerm::from(10.0)), ("two", RewardTerm::from(1.0))];
    let both = with_reward(record.clone(), &terms, 2);
    // The reward of seat 0 for seat 1's step belongs to its second turn; the reward of seat 1 before its first turn
    // belongs to that turn.
    near(&both.turn_rewards[0], &[0.0, 1.0 + 2.0 + 1.0, 0.0, 4.0 + 2.0]);
    near(&both.turn_rewards[1], &[8.0 + 16.0 + 32.0 + 3.0]);
    near(&both.rewards, &[7.0 + 5.0 + 0.5, 56.0 + 5.0 + 0.5]);
    // A shut gate also removes the rewards of turns.
    let shut = [("one", gated("one", 10.0, "two.part > 0.5")), ("two", RewardTerm::from(1.0))];
    let shut = with_reward(record, &shut, 2);
    near(&shut.turn_rewards[0], &[0.0, 3.0, 0.0, 4.0]);
    near(&shut.rewards, &[7.0 + 0.5, 56.0 + 0.5]);
}
