//! All possible hands, and properties of the game.

use gymkhana_sdk::environment::{
    Action, Advice, Episode, Oracle, Picture, Render, ResetResult, Split, StateKey, StepResult,
};
use gymkhana_sdk::{Error, NamedValue, Task, Value, named, text_of};
use kuhn_poker::KuhnPoker;
use kuhn_poker::strategy::{Strategy, observed};

const CARDS: [[&str; 2]; 6] =
    [["Jack", "Queen"], ["Jack", "King"], ["Queen", "Jack"], ["Queen", "King"], ["King", "Jack"], ["King", "Queen"]];
/// The five betting lines in words, with their stake; a fold's stake is negative if the first player folds.
const LINES: [(&[&str], Stake); 5] = [
    (&["check", "check"], Stake::Showdown(1.0)),
    (&["bet", "fold"], Stake::First(1.0)),
    (&["bet", "call"], Stake::Showdown(2.0)),
    (&["check", "bet", "fold"], Stake::First(-1.0)),
    (&["check", "bet", "call"], Stake::Showdown(2.0)),
];

#[derive(Clone, Copy)]
enum Stake {
    /// Profit of the player with the higher card.
    Showdown(f64),
    /// Profit of the first player, independent of the cards.
    First(f64),
}

fn start(deal: u64, options: Vec<NamedValue>, seed: u64) -> (Episode<KuhnPoker>, ResetResult) {
    Episode::reset(&Task { split: "train".to_owned(), index: deal }, options, seed).expect("a deal")
}

fn rewards(stepped: &StepResult) -> Vec<(u32, f64)> {
    stepped.rewards.iter().map(|earned| (earned.seat, earned.reward)).collect()
}

fn fact(stepped: &StepResult, name: &str) -> Value {
    stepped.extras.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone()).expect("a fact")
}

/// Plays one word per turn; returns each seat's observations before its last turn, and the last step.
fn play(deal: u64, words: &[&str]) -> ([String; 2], StepResult) {
    let (mut episode, started) = start(deal, vec![], 0);
    let mut shown = [String::new(), String::new()];
    let mut last = StepResult { observations: started.observations, ..StepResult::new() };
    for word in words {
        assert!(!last.terminated, "{words:?}");
        for seen in &last.observations {
            shown[seen.seat as usize] += &format!("{}\n", text_of(&seen.content));
        }
        last = episode.step(Action::say(last.next_seat, *word)).expect("words are never an error");
    }
    (shown, last)
}

#[test]
fn every_hand_pays_by_the_rules_and_names_its_decisions() {
    let rank = |card: &str| ["Jack", "Queen", "King"].iter().position(|known| *known == card);
    for (deal, cards) in (0..).zip(CARDS) {
        for (line, stake) in LINES {
            let (_, last) = play(deal, line);
            let first = match stake {
                Stake::Showdown(stake) if rank(cards[0]) > rank(cards[1]) => stake,
                Stake::Showdown(stake) => -stake,
                Stake::First(stake) => stake,
            };
            assert!(last.terminated, "{line:?}");
            assert_eq!(rewards(&last), [(0, first), (1, -first)], "{cards:?} {line:?}");
            assert_eq!(fact(&last, "success"), Value::Flag(true));
            assert_eq!([fact(&last, "first-card"), fact(&last, "second-card")], cards.map(|card| card.into()));
        }
    }
    let decisions = |deal, line| fact(&play(deal, line).1, "decisions");
    assert_eq!(decisions(3, LINES[4].0), "Q:p Kp:b Qpb:b".into());
    assert_eq!(decisions(4, LINES[1].0), "K:b Jb:p".into());
}

/// A seat's observations do not depend on the other card before the end of the hand.
#[test]
fn nothing_that_a_seat_sees_depends_on_the_others_card() {
    for (line, _) in LINES {
        let all: Vec<[String; 2]> = (0..6).map(|deal| play(deal, line).0).collect();
        for seat in [0, 1] {
            for (one, cards) in all.iter().zip(CARDS) {
                assert!(one[seat].contains(cards[seat]) && !one[seat].contains(cards[1 - seat]), "{one:?}");
                for (other, others) in all.iter().zip(CARDS) {
                    assert_eq!(one[seat] == other[seat], cards[seat] == others[seat], "{line:?}");
                }
            }
        }
    }
}

#[test]
fn a_fold_hides_the_winners_card_and_a_showdown_shows_both() {
    let told = |line: &[&str]| {
        let (_, last) = play(1, line);
        last.observations.iter().map(|seen| text_of(&seen.content)).collect::<Vec<_>>()
    };
    assert_eq!(told(&["bet", "fold"]), ["A fold. You win 1.", "A fold. You lose 1."]);
    assert_eq!(told(&["bet", "call"]), ["The other has the King. You lose 2.", "The other has the Jack. You win 2."]);
}

#[test]
fn other_words_are_answered_and_then_cost_two_antes() {
    let (mut episode, _) = start(0, vec![], 0);
    let say = |episode: &mut Episode<KuhnPoker>, seat, word: &str| {
        episode.step(Action::say(seat, word)).expect("words are never an error")
    };
    let refused = say(&mut episode, 0, "call");
    let told = "That is neither check nor bet; 2 tries left. You are first. Your card: Jack. Say check or bet.";
    assert_eq!(text_of(&refused.observations[0].content), told);
    assert_eq!(say(&mut episode, 0, "I check.").next_seat, 1);
    for word in ["bet or check", ""] {
        assert_eq!(say(&mut episode, 1, word).next_seat, 1, "{word}");
    }
    let forfeit = say(&mut episode, 1, "raise");
    assert!(forfeit.terminated);
    assert_eq!(rewards(&forfeit), [(0, 2.0), (1, -2.0)]);
    assert_eq!((fact(&forfeit, "success"), fact(&forfeit, "decisions")), (Value::Flag(false), "J:p".into()));
    assert!(matches!(episode.step(Action::say(0, "check")), Err(Error::Invalid(_))));
    let (mut strict, _) = start(0, vec![named("tries", 1)], 0);
    assert_eq!(rewards(&say(&mut strict, 0, "fold")), [(0, -2.0), (1, 2.0)]);
}

/// Oracles play their equilibrium: their empirical strategy is hardly exploitable and bets with the right frequency.
#[test]
fn the_experts_decisions_are_an_equilibrium() {
    let mut hands = Vec::new();
    for seed in 0..12_000 {
        let (mut episode, _) = start(seed % 6, vec![named("alpha", 0.3)], seed);
        let mut seat = 0;
        loop {
            let Ok(Advice::Message(word)) = episode.environment().advise(&[], &[]) else { panic!("no advice") };
            let stepped = episode.step(Action::say(seat, word)).expect("a word");
            seat = stepped.next_seat;
            if stepped.terminated {
                match fact(&stepped, "decisions") {
                    Value::Text(decisions) => hands.push(decisions),
                    other => panic!("no text: {other:?}"),
                }
                break;
            }
        }
    }
    let strategy = observed(hands.iter().map(String::as_str), 0.0).expect("sound records");
    // Each set was visited some hundreds of times, so this distance from an equilibrium is sampling error.
    assert!(strategy.exploitability() < 0.02, "{}", strategy.exploitability());
    assert!(Strategy::everywhere(0.5).exploitability() > 0.4);
    let jack = strategy.bet(kuhn_poker::rules::Card::Jack, &[]);
    // 4,000 draws; five standard deviations are 0.036.
    assert!((jack - 0.3).abs() < 0.036, "{jack}");
}

#[test]
fn the_six_deals_are_the_tasks() {
    let splits = Episode::<KuhnPoker>::splits(vec![]).expect("good options");
    assert_eq!(splits, [Split::of("train", 6), Split::of("test", 6)]);
    let missing =
        |split: &str, index| Episode::<KuhnPoker>::reset(&Task { split: split.to_owned(), index }, vec![], 0).err();
    assert!(matches!(missing("train", 6), Some(Error::NotFound(_))));
    assert!(matches!(missing("dev", 0), Some(Error::NotFound(_))));
    assert_eq!((missing("train", 5), missing("test", 5)), (None, None));
}

#[test]
fn a_restored_hand_continues_alike() {
    for (line, _) in LINES {
        let (mut episode, started) = start(2, vec![], 7);
        let mut seat = started.next_seat;
        for word in line {
            let mut restored = Episode::<KuhnPoker>::restore(&episode.snapshot()).expect("its own snapshot");
            assert_eq!(episode.environment().advise(&[], &[]), restored.environment().advise(&[], &[]));
            let (one, other) = (episode.step(Action::say(seat, *word)), restored.step(Action::say(seat, *word)));
            assert_eq!(one, other);
            assert_eq!(episode.snapshot(), restored.snapshot());
            seat = one.expect("a word").next_seat;
        }
        let Picture::Text(drawn) = episode.environment().render() else { panic!("no text") };
        assert_eq!(drawn.lines().count(), 1 + line.len());
    }
}

#[test]
fn damaged_snapshots_are_refused() {
    let (mut episode, _) = start(0, vec![], 0);
    episode.step(Action::say(0, "check")).expect("a word");
    let snapshot = episode.snapshot();
    for length in 0..snapshot.len() {
        let cut = Episode::<KuhnPoker>::restore(&snapshot[..length]);
        assert!(matches!(cut, Err(Error::BadSnapshot(_))), "cut at {length}");
    }
    for place in 0..snapshot.len() {
        for bit in 0..8 {
            let mut damaged = snapshot.clone();
            damaged[place] ^= 1 << bit;
            // Corrupted bytes may restore another state, but must not panic. This also holds for the next cases.
            if let Ok(mut restored) = Episode::<KuhnPoker>::restore(&damaged) {
                let _ = restored.step(Action::say(1, "bet"));
            }
        }
    }
}

#[test]
fn state_keys_tell_cards_and_acts_and_forget_tries() {
    let key = |deal, words: &[&str]| {
        let (mut episode, _) = start(deal, vec![], 0);
        words.iter().for_each(|word| drop(episode.step(Action::say(0, *word))));
        episode.environment().state_key()
    };
    assert_eq!(key(0, &["check"]), key(0, &["what", "check"]));
    assert_ne!(key(0, &["check"]), key(0, &["bet"]));
    assert_ne!(key(0, &[]), key(1, &[]));
}
