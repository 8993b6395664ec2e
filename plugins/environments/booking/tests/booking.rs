//! Bookings by rules: replies of the guest, results of calls, and disjoint splits.

use booking::Booking;
use booking::wish::{SLOTS, Split, draw, split_of};
use gymkhana_sdk::environment::{Action, Advice, Episode, Oracle, Privileged, ResetResult, Snapshot, StepResult};
use gymkhana_sdk::{Call, Error, NamedValue, Task, Value, named, text_of};

fn start(index: u64, options: Vec<NamedValue>) -> (Episode<Booking>, ResetResult) {
    let options = [vec![named("user", "rules")], options].concat();
    Episode::reset(&Task { split: "train".to_owned(), index }, options, 0).expect("a task that there is")
}

/// Values of the guest's wish, in slot order.
fn wanted(booking: &Booking) -> Vec<String> {
    booking.privileged().into_iter().map(|field| field.value.shown()).collect()
}

fn book(wanted: &[String]) -> Action {
    let [day, hour, guests, area] = wanted else { panic!("four slots") };
    let arguments = format!("{{\"day\": \"{day}\", \"hour\": {hour}, \"guests\": {guests}, \"area\": \"{area}\"}}");
    Action { seat: 0, body: gymkhana_sdk::environment::ActionBody::Call(Call::advised("book", arguments)) }
}

fn seen(stepped: &StepResult) -> String {
    stepped.observations.iter().map(|seen| text_of(&seen.content)).collect()
}

fn fact(stepped: &StepResult, name: &str) -> Value {
    stepped.extras.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone()).expect("a fact")
}

#[test]
fn a_guest_answers_one_question_per_message() {
    for index in 0..50 {
        let (mut episode, started) = start(index, vec![named("told", 0)]);
        let opening: String = started.observations.iter().map(|seen| text_of(&seen.content)).collect();
        assert_eq!(opening, "I would like a table.");
        let wanted = wanted(episode.environment());
        for (asked, slot) in SLOTS.iter().enumerate() {
            // A guest answers only the first question of a message.
            let both = format!("{} And which day?", slot.question);
            let heard = seen(&episode.step(Action::say(0, both)).expect("a message"));
            for (place, value) in wanted.iter().enumerate() {
                let said = heard.split(|symbol: char| !symbol.is_alphanumeric()).any(|word| word == value);
                assert!(said == (place == asked) || wanted[asked] == *value, "{heard} {wanted:?}");
            }
        }
        let ended = episode.step(book(&wanted)).expect("a call");
        assert!(ended.terminated);
        assert_eq!(fact(&ended, "success"), Value::Flag(true));
    }
}

#[test]
fn a_guest_names_as_much_as_the_run_says() {
    for told in 0..=3 {
        let named: Vec<[bool; 4]> = (0..40).map(|index| draw(Split::Train, index, told).1).collect();
        assert!(named.iter().all(|named| named.iter().filter(|named| **named).count() == told));
        let differ = named.iter().any(|other| *other != named[0]);
        assert_eq!(differ, told > 0, "which ones is drawn");
    }
}

#[test]
fn a_booking_must_be_valid_and_right_in_every_slot() {
    let (mut episode, _) = start(3, vec![]);
    let right = wanted(episode.environment());
    let mut nowhere = right.clone();
    nowhere[3] = "cellar".to_owned();
    let told = episode.step(book(&nowhere)).expect("a call");
    assert!(
        !told.terminated && seen(&told).starts_with("`cellar` is not a valid value of `area`; choose garden"),
        "{}",
        seen(&told)
    );
    let mut other = right.clone();
    other[2] = if right[2] == "1" { "2" } else { "1" }.to_owned();
    let ended = episode.step(book(&other)).expect("a call");
    assert!(ended.terminated && ended.rewards[0].reward == 0.0);
    assert_eq!((fact(&ended, "success"), fact(&ended, "right")), (Value::Flag(false), Value::Integer(3)));
}

#[test]
fn a_guest_hangs_up_after_two_empty_messages_or_at_the_turn_limit() {
    let (mut episode, _) = start(5, vec![]);
    let say = |episode: &mut Episode<Booking>, words: &str| episode.step(Action::say(0, words)).expect("a message");
    assert_eq!(seen(&say(&mut episode, "Lovely weather.")), "What would you like to know?");
    assert!(!say(&mut episode, "At what time?").truncated, "it was asked something: its patience is back");
    assert!(!say(&mut episode, "Hm.").truncated);
    assert!(say(&mut episode, "Hm.").truncated, "the second in a row");
    let (mut episode, _) = start(5, vec![named("patience", 2)]);
    assert!(!say(&mut episode, "Which day?").truncated);
    let ended = say(&mut episode, "At what time?");
    assert!(ended.truncated && ended.rewards[0].reward == 0.0);
    assert_eq!(seen(&ended), "The guest has hung up.");
}

#[test]
fn the_oracle_asks_for_missing_slots_and_books() {
    for told in 0..=3 {
        for index in 0..100 {
            let (mut episode, _) = start(index, vec![named("told", told)]);
            let mut questions = 0;
            let ended = loop {
                let stepped = match episode.environment().advise(&[], &[]).expect("advice") {
                    Advice::Message(words) => episode.step(Action::say(0, words.as_str())),
                    Advice::Calls(_) => break episode.step(book(&wanted(episode.environment()))),
                };
                questions += 1;
                assert!(!stepped.expect("a message").truncated);
            };
            assert_eq!((questions, ended.expect("a call").rewards[0].reward), (4 - told, 1.0));
        }
    }
}

#[test]
fn splits_share_no_wish() {
    let wishes = |split| (0..2000).map(|index| draw(split, index, 1).0).collect::<std::collections::BTreeSet<_>>();
    let (train, test) = (wishes(Split::Train), wishes(Split::Test));
    assert!(train.is_disjoint(&test) && train.len() > 800 && test.len() > 150, "{} {}", train.len(), test.len());
    assert!(train.iter().all(|wish| split_of(wish) == Split::Train));
    let task = Task { split: "tests".to_owned(), index: 0 };
    assert!(matches!(Episode::<Booking>::reset(&task, vec![], 0), Err(Error::NotFound(_))));
}

#[test]
fn a_restored_episode_continues_alike_and_a_broken_snapshot_is_refused() {
    let (mut episode, _) = start(9, vec![]);
    episode.step(Action::say(0, "Which day?")).expect("a message");
    let snapshot = episode.environment().snapshot();
    assert_eq!(&Booking::restore(&snapshot).expect("its own"), episode.environment());
    for length in 0..snapshot.len() {
        assert!(Booking::restore(&snapshot[..length]).is_err(), "{length} bytes");
    }
    let mut wrong = snapshot.clone();
    wrong[0] = 7;
    assert!(matches!(Booking::restore(&wrong), Err(Error::BadSnapshot(_))), "there is no eighth day");
}
