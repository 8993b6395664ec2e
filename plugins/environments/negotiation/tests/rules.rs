//! Scripted negotiations, the set of situations, and the information of each seat.

use std::collections::HashSet;

use gymkhana_sdk::environment::{
    Action, Advice, Episode, Oracle, Picture, Privileged, Render, ResetResult, Snapshot, Split, StateKey, StepResult,
};
use gymkhana_sdk::{Error, NamedValue, Task, Value, named, text_of};
use negotiation::{Negotiation, Situation};

fn start(split: &str, index: u64, options: Vec<NamedValue>) -> (Episode<Negotiation>, ResetResult) {
    Episode::reset(&Task { split: split.to_owned(), index }, options, 0).expect("a task that there is")
}

/// Negotiation over a given situation, made from a snapshot whose first fields are the situation.
fn over(counts: [u64; 3], first: [u64; 3], second: [u64; 3]) -> Negotiation {
    let (episode, _) = start("train", 0, vec![]);
    let mut snapshot = episode.environment().snapshot();
    for (place, number) in [counts, first, second].concat().into_iter().enumerate() {
        snapshot[8 * place..8 * place + 8].copy_from_slice(&number.to_le_bytes());
    }
    Negotiation::restore(&snapshot).expect("a situation by the rules")
}

/// Three books, one hat and two balls, worth 1, 3 and 2 to the first seat and 2, 4 and 0 to the second.
fn known() -> Negotiation {
    over([3, 1, 2], [1, 3, 2], [2, 4, 0])
}

fn say(negotiation: &mut Negotiation, seat: u32, words: &str) -> StepResult {
    use gymkhana_sdk::environment::Environment;
    negotiation.step(Action::say(seat, words)).expect("words are never an error")
}

fn shown(stepped: &StepResult) -> Vec<(u32, String)> {
    stepped.observations.iter().map(|seen| (seen.seat, text_of(&seen.content))).collect()
}

fn rewards(stepped: &StepResult) -> Vec<f64> {
    assert!(stepped.rewards.iter().map(|earned| earned.seat).eq([0, 1]));
    stepped.rewards.iter().map(|earned| earned.reward).collect()
}

fn numbers(stepped: &StepResult) -> [Value; 2] {
    let fact = |name| stepped.extras.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone());
    ["first-points", "second-points"].map(|name| fact(name).expect("points"))
}

#[test]
fn a_deal_pays_the_value_of_each_share() {
    let mut talk = known();
    let introduced = "To share: 3 books (2 points each), 1 hat (4 points each), 2 balls (0 points each). Say offer and what \
                      you keep, accept or reject, or talk.";
    let offered = "The other offers you 2 books, 0 hats, 0 balls and keeps 1 book, 1 hat, 2 balls.";
    let heard = say(&mut talk, 0, "offer 1 1 2");
    assert_eq!(shown(&heard), [(1, format!("{introduced}\n{offered}"))]);
    let heard = say(&mut talk, 1, "reject");
    assert_eq!(shown(&heard), [(0, "The other rejects your offer.".to_owned())]);
    let heard = say(&mut talk, 0, "I love balls. <move>offer 0 0 2</move> Deal?");
    let offered = "The other offers you 3 books, 1 hat, 0 balls and keeps 0 books, 0 hats, 2 balls.";
    assert_eq!(shown(&heard), [(1, format!("The other says: I love balls. Deal?\n{offered}"))]);
    let deal = say(&mut talk, 1, "<move>accept</move>");
    assert!(deal.terminated && !deal.truncated);
    assert_eq!(rewards(&deal), [0.4, 1.0]);
    assert_eq!(numbers(&deal), [Value::Integer(4), Value::Integer(10)]);
    assert_eq!(deal.extras[..2], [named("success", true), named("efficient", true)]);
    let told = [
        "A deal: you get 0 books, 0 hats, 2 balls. That is 4 points.",
        "A deal: you get 3 books, 1 hat, 0 balls. That is 10 points.",
    ];
    assert_eq!(shown(&deal), [(0, told[0].to_owned()), (1, told[1].to_owned())]);
    // The second seat keeps the balls, which are worthless to it: the deal is not efficient.
    let mut wasteful = known();
    say(&mut wasteful, 0, "offer 3 0 0");
    let deal = say(&mut wasteful, 1, "accept");
    assert_eq!((rewards(&deal), deal.extras[1].value.clone()), (vec![0.3, 0.4], Value::Flag(false)));
}

#[test]
fn an_offer_is_open_until_the_next_message() {
    let mut talk = known();
    say(&mut talk, 0, "offer 1 0 2");
    let heard = say(&mut talk, 1, "let me think");
    assert_eq!(shown(&heard), [(0, "The other says: let me think".to_owned())]);
    let refused = say(&mut talk, 0, "accept");
    assert_eq!((refused.next_seat, shown(&refused)[0].1.as_str()), (0, "There is no offer to answer; 2 tries left."));
    say(&mut talk, 0, "fine");
    let heard = say(&mut talk, 1, "");
    assert_eq!(shown(&heard), [(0, "The other says nothing.".to_owned())]);
    // A counter-offer replaces the offer.
    say(&mut talk, 0, "offer 1 0 2");
    say(&mut talk, 1, "OFFER 2 1 0");
    assert_eq!(rewards(&say(&mut talk, 0, "accept")), [0.5, 0.8]);
}

#[test]
fn invalid_moves_are_answered_and_finally_end_the_negotiation() {
    let mut talk = known();
    for (words, why) in [
        ("offer 4 0 0", "You cannot keep more than there is; 2 tries left."),
        ("offer 1 2", "An offer is a number for each kind, such as offer 1 0 1; 1 try left."),
    ] {
        let refused = say(&mut talk, 0, words);
        assert_eq!((refused.next_seat, shown(&refused)), (0, vec![(0, why.to_owned())]), "{words}");
    }
    say(&mut talk, 0, "offer 3 0 0");
    let refused = say(&mut talk, 1, "<move>take it</move>");
    assert_eq!(refused.next_seat, 1, "each seat has tries of its own");
    say(&mut talk, 1, "reject");
    let over = say(&mut talk, 0, "reject");
    assert!(over.terminated);
    assert_eq!((rewards(&over), over.extras[0].clone()), (vec![0.0, 0.0], named("success", false)));
}

#[test]
fn turns_run_out_without_a_deal() {
    let (mut episode, _) = start("train", 3, vec![named("turns", 3)]);
    for (seat, words) in [(0, "hello"), (1, "hello")] {
        assert!(!episode.step(Action::say(seat, words)).expect("words").truncated);
    }
    let last = episode.step(Action::say(0, "offer 0 0 0")).expect("words");
    assert!(last.truncated && !last.terminated);
    assert_eq!(rewards(&last), [0.0, 0.0]);
    assert!(matches!(episode.step(Action::say(1, "accept")), Err(Error::Invalid(_))));
}

/// There are 5,793 situations, 519 of which differ in more than order, as counted by this Python code:
///
/// ```python
/// from itertools import product
/// found, classes = 0, set()
/// for c in (c for c in product(range(1, 6), repeat=3) if 5 <= sum(c) <= 7):
///     worth = [v for v in product(range(11), repeat=3) if sum(x * y for x, y in zip(c, v)) == 10]
///     for a, b in product(worth, worth):
///         if all(x + y for x, y in zip(a, b)) and any(x * y for x, y in zip(a, b)):
///             found += 1
///             classes.add(min(tuple(sorted(zip(c, a, b))), tuple(sorted(zip(c, b, a)))))
/// ```
#[test]
fn splits_contain_every_situation_once() {
    let splits = Episode::<Negotiation>::splits(vec![]).expect("good options");
    let situations = |split: &Split| {
        let task = |index| read_situation(start(&split.name, index, vec![]).0.environment());
        (0..split.tasks.expect("a number of tasks")).map(task).collect::<Vec<_>>()
    };
    let [train, test] = [situations(&splits[0]), situations(&splits[1])];
    assert_eq!((splits.len(), train.len() + test.len()), (2, 5793));
    assert!(test.len() > 500 && train.len() > 4 * test.len(), "{} test situations", test.len());
    let classes = |of: &[Situation]| of.iter().map(Situation::class).collect::<HashSet<_>>();
    let (train_classes, test_classes) = (classes(&train), classes(&test));
    assert!(train_classes.is_disjoint(&test_classes));
    assert_eq!(train_classes.len() + test_classes.len(), 519);
    let distinct: HashSet<String> = train.iter().chain(&test).map(|situation| format!("{situation:?}")).collect();
    assert_eq!(distinct.len(), 5793);
    let past = Task { split: "test".into(), index: test.len() as u64 };
    assert!(matches!(Episode::<Negotiation>::reset(&past, vec![], 0), Err(Error::NotFound(_))));
}

fn read_situation(negotiation: &Negotiation) -> Situation {
    let snapshot = negotiation.snapshot();
    let number = |place: usize| u64::from_le_bytes(snapshot[8 * place..8 * place + 8].try_into().expect("eight bytes"));
    let kinds = |from: usize| [number(from), number(from + 1), number(from + 2)];
    Situation { counts: kinds(0), values: [kinds(3), kinds(6)] }
}

/// The observations of a seat before its last turn do not depend on the other seat's values.
#[test]
fn observations_of_a_seat_do_not_depend_on_the_others_values() {
    let script = [(0, "hello"), (1, "offer 1 0 1"), (0, "offer 0 0 1"), (1, "reject"), (0, "offer 1 0 0"), (1, "hm")];
    let heard = |mut negotiation: Negotiation, seat: u32, opening: &str| {
        let mut heard = if seat == 0 { opening.to_owned() } else { String::new() };
        for (mover, words) in script {
            let stepped = say(&mut negotiation, mover, words);
            heard +=
                &shown(&stepped).into_iter().filter(|(to, _)| *to == seat).map(|(_, text)| text).collect::<String>();
        }
        heard
    };
    let all: Vec<(Situation, [String; 2])> = (0..400)
        .map(|index| {
            let (episode, started) = start("train", index, vec![]);
            let opening = text_of(&started.observations[0].content);
            let negotiation = || Negotiation::restore(&episode.environment().snapshot()).expect("its own snapshot");
            (read_situation(episode.environment()), [0, 1].map(|seat| heard(negotiation(), seat, &opening)))
        })
        .collect();
    let mut compared = 0;
    for (one, heard) in &all {
        for (other, also) in &all {
            for seat in [0, 1] {
                let same = (one.counts, one.values[seat]) == (other.counts, other.values[seat]);
                assert_eq!(heard[seat] == also[seat], same, "{one:?} {other:?}");
                compared += usize::from(same && one != other);
            }
        }
    }
    assert!(compared > 100, "{compared} pairs that differ in the other's values alone");
}

#[test]
fn oracles_agree_immediately_on_the_fair_deal() {
    for split in ["train", "test"] {
        for index in 0..100 {
            let (mut episode, _) = start(split, index, vec![]);
            let fair = |negotiation: &Negotiation| {
                negotiation.privileged()[2..].iter().map(|fact| fact.value.clone()).collect::<Vec<_>>()
            };
            let wanted = fair(episode.environment());
            let mut last = StepResult::new();
            for seat in [0, 1] {
                let Ok(Advice::Message(words)) = episode.environment().advise(&[], &[]) else { panic!("no advice") };
                last = episode.step(Action::say(seat, words)).expect("a move");
            }
            assert!(last.terminated && last.extras[..2] == [named("success", true), named("efficient", true)]);
            assert_eq!(numbers(&last).to_vec(), wanted);
        }
    }
    // By hand: 2 balls and the hat for the first seat give 7 * 6 = 42; with one book in addition 8 * 4 = 32, with two
    // books instead of the hat 6 * 6 = 36, and without the hat 4 * 10 = 40.
    let fair = known().privileged();
    assert_eq!(fair[2..], [named("fair-first", 7_i64), named("fair-second", 6_i64)]);
    assert_eq!(fair[0], named("first-values", "1 3 2"));
}

#[test]
fn a_restored_negotiation_continues_alike() {
    let (mut episode, _) = start("train", 9, vec![]);
    for (seat, words) in
        [(0, "hello"), (1, "offer 0 1 0"), (0, "offer 9 9 9"), (0, "reject"), (1, "offer 1 0 0"), (0, "accept")]
    {
        let mut restored = Episode::<Negotiation>::restore(&episode.snapshot()).expect("its own snapshot");
        assert_eq!(episode.environment().advise(&[], &[]), restored.environment().advise(&[], &[]));
        let (one, other) = (episode.step(Action::say(seat, words)), restored.step(Action::say(seat, words)));
        assert_eq!(one, other);
        assert_eq!(episode.snapshot(), restored.snapshot());
    }
    let Picture::Text(drawn) = episode.environment().render() else { panic!("no text") };
    assert!(drawn.starts_with("to share: ") && drawn.lines().count() == 4, "{drawn}");
}

#[test]
fn damaged_snapshots_are_refused() {
    let (mut episode, _) = start("train", 0, vec![]);
    episode.step(Action::say(0, "offer 1 0 1")).expect("a move");
    let snapshot = episode.snapshot();
    for length in 0..snapshot.len() {
        let cut = Episode::<Negotiation>::restore(&snapshot[..length]);
        assert!(matches!(cut, Err(Error::BadSnapshot(_))), "cut at {length}");
    }
    for place in 0..8 * snapshot.len() {
        let mut damaged = snapshot.clone();
        damaged[place / 8] ^= 1 << (place % 8);
        // Corrupted bytes may restore another state, but must not panic. This also holds for the next cases.
        if let Ok(mut restored) = Episode::<Negotiation>::restore(&damaged) {
            let _ = restored.step(Action::say(1, "accept"));
        }
    }
}

#[test]
fn state_keys_forget_the_path() {
    let key = |script: &[&str]| {
        let mut talk = known();
        script.iter().zip([0, 1, 0, 1]).for_each(|(words, seat)| drop(say(&mut talk, seat, words)));
        talk.state_key()
    };
    assert_eq!(key(&["hello", "offer 1 0 0"]), key(&["offer 0 0 1", "offer 1 0 0"]));
    assert_ne!(key(&["offer 1 0 0"]), key(&["offer 0 0 1"]));
}
