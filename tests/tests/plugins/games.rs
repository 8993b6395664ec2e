//! The first-party games as components, with scripted policies and oracles in their seats:
//! - whole games end by their rules with every assignment of seats, and a replay gives the same bytes;
//! - a seat's policy never sees private information of the other seat, over many seeds and tasks;
//! - each seat has its own player, an oracle and a policy can share an episode, and each oracle receives the answers to
//!   its own calls;
//! - games are forked by snapshot before every turn, and each fork reaches the recorded end;
//! - a strategy is estimated from recorded hands of Kuhn poker.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::HashMap;

use crate::common::{Table, limits, rollout};
use gymkhana_chat::ReplyPiece;
use gymkhana_policy::{GenerateRequest, Sampling, ScriptedPolicy};
use gymkhana_record::{
    Ending, EpisodeId, EpisodeRecord, NamedValue, Phase, Seed, Segment, TaskRef, Turn, Value, text_of,
};
use gymkhana_rollout::{Actor, EpisodePlan, ReplayDifference, Rollout, SeatPlayer};
use kuhn_poker::strategy::{Strategy, observed};

const GAMES: [&str; 3] = ["tic-tac-toe", "kuhn-poker", "negotiation"];

/// A policy that replies to the whole conversation as text.
fn by_text<'a>(
    rollout: &'a Rollout,
    answer: impl Fn(&str, &GenerateRequest) -> String + Send + Sync + 'a,
) -> ScriptedPolicy<impl Fn(&GenerateRequest) -> Vec<u32> + Send + Sync + 'a> {
    ScriptedPolicy::new(usize::MAX, move |request| {
        let text = rollout.chat().decode(&request.tokens).unwrap();
        rollout.chat().encode_reply(&[ReplyPiece::Plain(&answer(&text, request))]).unwrap()
    })
}

fn plan(index: u64, seed: u64) -> EpisodePlan {
    EpisodePlan {
        id: EpisodeId { stage: 0, phase: Phase::Train, step: 0, group: index as u32, member: 0, attempt: 0 },
        task: TaskRef { split: "train".to_owned(), index },
        seed: Seed(seed),
        sampling: Sampling::GREEDY,
        place: 0,
        turns: None,
        guidance: None,
    }
}

async fn play(rollout: &Rollout, index: u64, seed: u64, speaker: Actor<'_>) -> EpisodeRecord {
    let record = rollout.run_group(vec![plan(index, seed)], speaker).await.unwrap().remove(0);
    assert_eq!(record.failures, []);
    record
}

async fn assert_replayed(rollout: &Rollout, record: &EpisodeRecord) {
    let replayed = rollout.replay_group(std::slice::from_ref(record)).await.unwrap();
    assert_eq!(ReplayDifference::between(record, &replayed[0]), None);
}

fn fact(facts: &[NamedValue], name: &str) -> Value {
    facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone()).expect("a fact")
}

fn fact_text(facts: &[NamedValue], name: &str) -> String {
    match fact(facts, name) {
        Value::Text(text) => text,
        other => panic!("{name} is no text: {other:?}"),
    }
}

/// All tokens that a seat's policy saw and sampled, as text.
fn seen_by(rollout: &Rollout, record: &EpisodeRecord, seat: u32) -> String {
    let own = record.segments.iter().filter(|segment| segment.seat() == seat);
    own.map(|segment| rollout.chat().decode(segment.tokens()).unwrap()).collect()
}

/// Observations of a seat before its last turn.
fn observations(record: &EpisodeRecord, seat: u32) -> Vec<String> {
    let last = record.turns.iter().rposition(|turn| matches!(turn, Turn::Message { seat: by, .. } if *by == seat));
    let texts = record.turns[..last.map_or(0, |last| last + 1)].iter().filter_map(|turn| match turn {
        Turn::Observation { seat: to, content } if *to == seat => Some(text_of(content)),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn oracles_play_every_game_to_its_end_and_so_does_every_fork() {
    for game in GAMES {
        let rollout = rollout(&Table::new().environment(game, &[]), limits()).await;
        for index in 0..6 {
            let record = play(&rollout, index, 100 + index, Actor::Oracle).await;
            assert_eq!((record.ending, record.success), (Ending::Terminated, true), "{game}");
            assert_eq!(record.rewards.len(), 2);
            let seats: Vec<u32> = record.segments.iter().map(Segment::seat).collect();
            assert_eq!(seats, [0, 1], "{game}: a context for each seat");
            assert_replayed(&rollout, &record).await;
            assert_eq!(rollout.check_forks(&record).await.unwrap().difference, None, "{game}");
        }
    }
}

#[tokio::test]
async fn zero_sum_games_pay_what_they_take() {
    for game in ["tic-tac-toe", "kuhn-poker"] {
        let rollout = rollout(&Table::new().environment(game, &[]), limits()).await;
        // Includes forfeits of a seat whose replies are invalid.
        let silent = by_text(&rollout, |_, _| "pardon".to_owned());
        for index in 0..6 {
            let lost = play(&rollout, index, index, Actor::Policy(&silent)).await;
            assert_eq!((lost.ending, lost.success), (Ending::Terminated, false), "{game}");
            assert!(lost.rewards[0] != 0.0 && lost.rewards[0] + lost.rewards[1] == 0.0, "{:?}", lost.rewards);
            let both =
                play(&rollout, index, index, Actor::Seats(&[SeatPlayer::Policy(&silent), SeatPlayer::Oracle])).await;
            assert!(both.rewards[1] > 0.0 && both.rewards[0] + both.rewards[1] == 0.0, "{:?}", both.rewards);
            assert_replayed(&rollout, &both).await;
        }
    }
}

/// An oracle receives the answers to the calls of its own seat's last turn, and neither those of the other seat nor
/// earlier ones.
#[tokio::test]
async fn each_seats_oracle_receives_the_answers_to_its_own_calls() {
    let table = Table::new().environment("guest-experts", &[]).tool("calculator", &[]);
    let rollout = rollout(&table, limits()).await;
    let messages = |record: &EpisodeRecord| -> Vec<(u32, String)> {
        let message = |turn: &Turn| match turn {
            Turn::Message { seat, content } => Some((*seat, text_of(content))),
            _ => None,
        };
        record.turns.iter().filter_map(message).collect()
    };
    let report = |seat: u32, number: &str| (seat, format!("told {number}"));
    let record = play(&rollout, 0, 0, Actor::Oracle).await;
    assert_eq!(messages(&record), [report(0, "10"), report(1, "20"), report(0, "30"), report(1, "40")]);
    assert_replayed(&rollout, &record).await;
    // Answers to a policy's calls do not go to the oracle.
    let policy = ScriptedPolicy::new(usize::MAX, |request| {
        let text = rollout.chat().decode(&request.tokens).unwrap();
        let asked = text.matches("<|im_start|>a").count() % 2 == 0;
        let call = crate::common::call("calculate", r#"{"expression": "77"}"#);
        rollout.chat().encode_reply(&[ReplyPiece::Frame(if asked { "thanks" } else { &call })]).unwrap()
    });
    let record = play(&rollout, 0, 0, Actor::Seats(&[SeatPlayer::Policy(&policy), SeatPlayer::Oracle])).await;
    let thanks = (0, "thanks".to_owned());
    assert_eq!(messages(&record), [thanks.clone(), report(1, "20"), thanks, report(1, "40")]);
    assert_replayed(&rollout, &record).await;
}

/// The sampled tokens identify the player: scripts put a tag before each move, the oracle none.
#[tokio::test]
async fn each_seat_is_played_by_its_own_player() {
    let rollout = rollout(&Table::new().environment("negotiation", &[]), limits()).await;
    let left = by_text(&rollout, |_, _| "left <move>offer 0 0 0</move>".to_owned());
    let right = by_text(&rollout, |_, _| "right <move>accept</move>".to_owned());
    let players = [SeatPlayer::Policy(&left), SeatPlayer::Policy(&right), SeatPlayer::Oracle];
    let messages = |record: &EpisodeRecord, seat: u32| {
        let own = record.turns.iter().filter_map(move |turn| match turn {
            Turn::Message { seat: by, content } if *by == seat => Some(text_of(content)),
            _ => None,
        });
        own.collect::<Vec<_>>().join("|")
    };
    for (first, second) in [(0, 1), (0, 2), (2, 1), (2, 2)] {
        let record = play(&rollout, 7, 7, Actor::Seats(&[players[first], players[second]])).await;
        assert_eq!((record.ending, record.success), (Ending::Terminated, true), "{first} and {second}");
        let words = [messages(&record, 0), messages(&record, 1)];
        assert_eq!([words[0].contains("left"), words[1].contains("right")], [first == 0, second == 1], "{words:?}");
        assert_replayed(&rollout, &record).await;
    }
    // Seats without a player of their own get the last one.
    let record = play(&rollout, 7, 7, Actor::Seats(&[SeatPlayer::Oracle])).await;
    assert!(record.success);
}

#[tokio::test]
async fn a_seat_of_kuhn_poker_never_sees_the_others_card() {
    let rollout = rollout(&Table::new().environment("kuhn-poker", &[]), limits()).await;
    let words = ["check", "bet", "call", "fold", "what?"];
    for seed in 0..120 {
        let policy = by_text(&rollout, |_, request| {
            words[request.seed.child("word").stream().below(words.len() as u64) as usize].to_owned()
        });
        let record = play(&rollout, seed % 6, seed, Actor::Policy(&policy)).await;
        let cards = ["first-card", "second-card"].map(|name| fact_text(&record.privileged, name));
        for seat in [0, 1] {
            let seen = seen_by(&rollout, &record, seat as u32);
            assert!(seen.is_empty() || seen.contains(&cards[seat]), "{seen}");
            assert!(!seen.contains(&cards[1 - seat]), "seat {seat} holds the {}: {seen}", cards[seat]);
        }
    }
}

/// Values are numbers, which occur everywhere, so a seat's tokens are compared with those of other tasks that have the
/// same items with the same values for this seat and other values for the other seat.
#[tokio::test]
async fn a_seat_of_a_negotiation_never_sees_the_others_values() {
    let rollout = rollout(&Table::new().environment("negotiation", &[]), limits()).await;
    let policy = by_text(&rollout, |text, _| {
        let turn = text.matches("<|im_start|>a").count();
        ["offer 1 0 0", "let us see", "reject", "offer 0 1 0", "no"][turn % 5].to_owned()
    });
    let mut seen: HashMap<(u32, String, String), (String, Vec<u32>)> = HashMap::new();
    let mut compared = 0;
    for index in 0..250 {
        let record = play(&rollout, index, index, Actor::Policy(&policy)).await;
        let values = ["first-values", "second-values"].map(|name| fact_text(&record.privileged, name));
        for segment in &record.segments {
            let seat = segment.seat();
            // Items are outside the brackets, and values inside.
            let introduced = observations(&record, seat)[0].lines().next().unwrap_or_default().to_owned();
            let items: String = introduced.split(['(', ')']).step_by(2).collect();
            let (own, other) = (values[seat as usize].clone(), values[1 - seat as usize].clone());
            let (others, tokens) = seen.entry((seat, items, own)).or_insert((other.clone(), segment.tokens().to_vec()));
            assert_eq!(*tokens, segment.tokens(), "seat {seat} of task {index}");
            compared += usize::from(*others != other);
        }
    }
    assert!(compared > 30, "{compared} situations that differ only in the other seat's values");
}

#[tokio::test]
async fn a_seat_of_tic_tac_toe_sees_the_same_board_as_the_other() {
    let options = [("opening", Value::Integer(0)), ("slips", Value::Integer(100))];
    let rollout = rollout(&Table::new().environment("tic-tac-toe", &options), limits()).await;
    for seed in 0..20 {
        let record = play(&rollout, 0, seed, Actor::Oracle).await;
        let boards: Vec<Vec<String>> = [0, 1].map(|seat| observations(&record, seat)).into();
        for (seat, letter) in ["X", "O"].into_iter().enumerate() {
            assert!(boards[seat].iter().all(|board| board.starts_with(&format!("You are {letter}.\n"))));
        }
        // X sees an even number of marks, O an odd one.
        let marks = |board: &String| board.split_once('\n').unwrap().1.matches(['X', 'O']).count();
        assert!(boards[0].iter().map(marks).eq((0..boards[0].len()).map(|turn| 2 * turn)));
        assert!(boards[1].iter().map(marks).eq((0..boards[1].len()).map(|turn| 2 * turn + 1)));
    }
}

#[tokio::test]
async fn a_strategy_is_estimated_from_recorded_hands() {
    let options = [("alpha", Value::Number(0.0))];
    let rollout = rollout(&Table::new().environment("kuhn-poker", &options), limits()).await;
    let bold = by_text(&rollout, |text, _| {
        if text.ends_with("call.<|im_end|>\n<|im_start|>assistant\n") { "call" } else { "bet" }.to_owned()
    });
    let players = [SeatPlayer::Oracle, SeatPlayer::Policy(&bold)];
    let mut hands = Vec::new();
    for index in 0..60 {
        let record = play(&rollout, index % 6, index, Actor::Seats(&players)).await;
        assert!(record.success, "{record:?}");
        hands.push(fact_text(&record.extras, "decisions"));
    }
    let strategy = observed(hands.iter().map(String::as_str), 0.0).unwrap();
    let bets = |set: &str| hands.iter().any(|hand| hand.split(' ').any(|decision| decision == format!("{set}:b")));
    // With alpha 0 the oracle never bets first, and always calls with a King.
    assert!(["J", "Q", "K", "Jpb"].iter().all(|set| !bets(set)) && bets("Kpb") && bets("Jp"));
    // A player that always bets and calls loses more than in equilibrium.
    assert!(strategy.value() > Strategy::equilibrium(0.0).value());
    assert!(strategy.exploitability() > 0.1, "{}", strategy.exploitability());
}

/// The oracle's choices depend on the seed of the game's start, which is part of its state.
#[tokio::test]
async fn forks_of_a_game_keep_the_oracles_random_state() {
    let options = [("opening", Value::Integer(0)), ("slips", Value::Integer(100))];
    let rollout = rollout(&Table::new().environment("tic-tac-toe", &options), limits()).await;
    let first = play(&rollout, 0, 1, Actor::Oracle).await;
    let forks: Vec<EpisodePlan> =
        (1..9).map(|member| EpisodePlan { id: EpisodeId { member, ..first.id }, ..plan(0, member.into()) }).collect();
    let forks = rollout.fork_recorded(&first, 3, forks, Actor::Oracle).await.unwrap();
    for fork in &forks {
        assert_eq!(fork.forks[0].turns, [2, 1]);
        assert_eq!((&fork.turns, &fork.segments), (&first.turns, &first.segments));
    }
    let replayed = rollout.replay_group(&forks).await.unwrap();
    for (fork, replayed) in forks.iter().zip(&replayed) {
        assert_eq!(ReplayDifference::between(fork, replayed), None);
    }
}
