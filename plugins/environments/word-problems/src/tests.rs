//! Tests of the environment through the SDK's episode.

use super::*;
use gymkhana_sdk::environment::Episode;
use gymkhana_sdk::text;

fn task(split: &str, index: u64) -> Task {
    Task { split: split.to_owned(), index }
}

fn start(index: u64, seed: u64) -> (Episode<WordProblems>, ResetResult) {
    Episode::reset(&task("train", index), Vec::new(), seed).expect("a task of the train split")
}

#[test]
fn the_seed_of_an_episode_does_not_change_its_story() {
    let ((first, seen), (second, seen_again)) = (start(7, 1), start(7, 2));
    assert_eq!(seen, seen_again);
    assert_eq!(first.snapshot(), second.snapshot());
}

#[test]
fn the_first_message_ends_the_episode() {
    let (mut episode, _) = start(0, 0);
    let stepped = episode.step(Action::say(0, "42")).expect("a message");
    assert!(stepped.terminated && !stepped.truncated);
    assert!(matches!(episode.step(Action::say(0, "43")), Err(Error::Invalid(_))));
}

#[test]
fn unknown_splits_and_options_are_refused() {
    let unknown = Episode::<WordProblems>::reset(&task("dev", 0), Vec::new(), 0);
    assert!(matches!(unknown, Err(Error::NotFound(message)) if message.contains("train, test")));
    let hard = Episode::<WordProblems>::reset(&task("test", 0), vec![named("difficulty", 5)], 0);
    assert!(matches!(hard, Err(Error::Invalid(message)) if message.contains("1 to 4")));
}

#[test]
fn the_expert_is_right_with_and_without_a_calculator() {
    for difficulty in 1..=4 {
        for index in 0..200 {
            let options = vec![named("difficulty", difficulty)];
            let (episode, _) =
                Episode::<WordProblems>::reset(&task("test", index), options, 0).expect("a task of the test split");
            let problem = episode.environment();
            let answer = problem.story.answer.to_string();
            assert_eq!(problem.privileged(), [named("answer", answer.as_str())]);
            assert_eq!(problem.advise(&[], &[]), Ok(Advice::Message(answer.clone())));
            let Ok(Advice::Calls(calls)) = problem.advise(&[CALCULATE.to_owned()], &[]) else {
                panic!("the expert does not call")
            };
            let [call] = calls.as_slice() else { panic!("{} calls instead of one", calls.len()) };
            assert_eq!(call.text("expression"), Ok(problem.story.expression.clone()));
            let said = problem.advise(&[CALCULATE.to_owned()], &[format!("{answer}\n")]);
            assert_eq!(said, Ok(Advice::Message(answer)));
        }
    }
}

#[test]
fn the_oracle_calls_the_calculator_at_the_chosen_rate() {
    for (share, expected) in [(0, 0..=0), (35, 280..=420), (100, 1000..=1000)] {
        let calls = (0..1000).filter(|index| {
            let options = vec![named("oracle-calls", share)];
            let (episode, _) =
                Episode::<WordProblems>::reset(&task("train", *index), options, 0).expect("a task of the train split");
            matches!(episode.environment().advise(&[CALCULATE.to_owned()], &[]), Ok(Advice::Calls(_)))
        });
        let calls = calls.count();
        assert!(expected.contains(&calls), "{calls} of 1000 with oracle-calls = {share}");
    }
}

#[test]
fn a_restored_episode_continues_alike() {
    let (mut episode, _) = start(3, 0);
    let mut restored = Episode::<WordProblems>::restore(&episode.snapshot()).expect("its own snapshot");
    assert_eq!(episode.environment(), restored.environment());
    assert_eq!(episode.step(Action::say(0, "1")), restored.step(Action::say(0, "1")));
    assert_eq!(episode.snapshot(), restored.snapshot());
    let ended = Episode::<WordProblems>::restore(&episode.snapshot()).map(|mut ended| ended.step(Action::say(0, "2")));
    assert!(matches!(ended, Ok(Err(Error::Invalid(_)))), "an ended episode is restored as ended");
    assert!(matches!(Episode::<WordProblems>::restore(b"ice"), Err(Error::BadSnapshot(_))));
}

#[test]
fn state_keys_tell_states_apart() {
    let (mut episode, seen) = start(3, 0);
    let before = episode.environment().state_key();
    assert_ne!(before, start(4, 0).0.environment().state_key());
    assert_eq!(seen.observations[0].content, text(episode.environment().story.text.as_str()));
    episode.step(Action::say(0, "1")).expect("a message");
    assert_ne!(before, episode.environment().state_key());
}
