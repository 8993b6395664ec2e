//! Episodes: the protocol, the bound of the memory, the oracle, grading and snapshots.

use super::*;
use gymkhana_sdk::environment::Episode;
use gymkhana_sdk::text_of;

/// Default settings of the options.
pub fn settings() -> Settings {
    Settings::default()
}

fn start(given: Vec<NamedValue>) -> (Episode<LongReader>, String) {
    let task = Task { split: "train".to_owned(), index: 5 };
    let (episode, started) = Episode::<LongReader>::reset(&task, given, 0).expect("a task");
    (episode, text_of(&started.observations[0].content))
}

/// Says a message; returns what is observed and the step.
fn say(episode: &mut Episode<LongReader>, words: &str) -> (String, StepResult) {
    let stepped = episode.step(Action::say(0, words)).expect("mistakes are answers");
    let shown = stepped.observations.iter().map(|observation| text_of(&observation.content)).collect();
    (shown, stepped)
}

fn extra(stepped: &StepResult, name: &str) -> Value {
    let found = stepped.extras.iter().find(|extra| extra.name == name);
    found.map(|extra| extra.value.clone()).expect("an extra of the last step")
}

fn advised(episode: &Episode<LongReader>, tools: &[&str], results: &[&str]) -> Advice {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    episode.environment().advise(&owned(tools), &owned(results)).expect("advice")
}

const TOOLS: [&str; 2] = ["memory_insert", "memory_search"];

#[test]
fn each_part_is_shown_once_and_the_answer_is_graded() {
    let (mut episode, opening) = start(vec![named("parts", 3)]);
    let question = episode.environment().document.facts.questions[0].clone();
    assert!(opening.contains("a document of 3 parts, one at a time") && opening.contains("at most 400 characters"));
    assert!(opening.contains(&format!("Question: {} Answer with the number alone.", question.text)), "{opening}");
    for number in 1..=3 {
        let (shown, stepped) = say(&mut episode, " I know nothing. ");
        let part = episode.environment().document.part(number - 1);
        assert_eq!(shown, format!("Part {number} of 3:\n{part}"));
        assert!(!stepped.terminated && stepped.rewards.is_empty());
    }
    assert_eq!(episode.environment().memory, "I know nothing.");
    let (shown, _) = say(&mut episode, &format!("It is {}.", question.answer));
    assert_eq!(shown, "The document has ended. Answer now.");
    let (_, ended) = say(&mut episode, &format!("The number is {}.", question.answer));
    assert!(ended.terminated && ended.rewards[0].reward == 1.0, "{ended:?}");
    assert_eq!((extra(&ended, "success"), extra(&ended, "kept")), (Value::Flag(true), Value::Integer(1)));
    // `It is 1234.` has eleven characters.
    assert_eq!(extra(&ended, "memory-chars"), Value::Integer(11));
}

#[test]
fn questions_may_come_last_and_be_several() {
    let given = vec![named("parts", 1), named("questions", 2), named("ask", "last"), named("changed", 100)];
    let (mut episode, opening) = start(given);
    let asked: Vec<String> = episode.environment().document.facts.questions.iter().map(|q| q.text.clone()).collect();
    assert!(opening.contains("a document of 1 part.") && !opening.contains(&asked[0]), "{opening}");
    say(&mut episode, "begin");
    let (shown, _) = say(&mut episode, "-");
    let form = "If a number changes, its last value counts. Answer with one number per line, in this order.";
    let expected = format!("The document has ended. Questions:\n1. {}\n2. {}\n{form}", asked[0], asked[1]);
    assert_eq!(shown, expected);
    let second = episode.environment().document.facts.questions[1].answer.clone();
    let (_, ended) = say(&mut episode, &format!("1. none\n2. {second}"));
    assert!(ended.terminated && ended.rewards[0].reward == 0.5, "{ended:?}");
    assert_eq!((extra(&ended, "success"), extra(&ended, "right")), (Value::Flag(false), Value::Integer(1)));
}

#[test]
fn a_memory_above_the_bound_is_refused_and_shows_nothing_new() {
    let (mut episode, _) = start(vec![named("memory-chars", 4)]);
    say(&mut episode, "äöü🙂");
    let (shown, stepped) = say(&mut episode, "12345");
    assert!(shown.starts_with("This memory has 5 characters, at most 4 are allowed."), "{shown}");
    assert!(shown.ends_with("you have 2 more attempts.") && !stepped.truncated, "{shown}");
    assert_eq!(episode.environment().memory, "äöü🙂");
    let (shown, _) = say(&mut episode, &"x".repeat(1_000_000));
    assert!(shown.ends_with("you have 1 more attempt.") && shown.len() < 200, "{shown}");
    // A memory that fits restores all attempts.
    let (shown, _) = say(&mut episode, "abc");
    assert!(shown.starts_with("Part 2 of 8:"), "{shown}");
    say(&mut episode, "12345");
    say(&mut episode, "12345");
    let (_, last) = say(&mut episode, "12345");
    assert!(last.truncated && !last.terminated && last.rewards[0].reward == 0.0, "{last:?}");
    assert_eq!(extra(&last, "success"), Value::Flag(false));
    assert!(episode.step(Action::say(0, "ok")).is_err(), "the episode is over");
}

#[test]
fn the_oracle_answers_from_a_memory_that_fits() {
    for given in [
        vec![],
        vec![named("hops", 3), named("questions", 2), named("changed", 100), named("memory-chars", 2_000)],
        vec![named("ask", "last"), named("memory-chars", 1_000)],
        vec![named("characters", 100_000), named("parts", 64)],
    ] {
        let (mut episode, _) = start(given.clone());
        for _ in 0..=episode.environment().settings.parts {
            let Advice::Message(memory) = advised(&episode, &[], &[]) else { panic!("a memory") };
            let (shown, _) = say(&mut episode, &memory);
            assert!(!shown.starts_with("This memory"), "{memory}");
        }
        let facts = &episode.environment().document.facts;
        assert!(facts.questions.iter().flat_map(|q| &q.steps).all(|step| episode.environment().memory.contains(step)));
        let Advice::Message(answer) = advised(&episode, &[], &[]) else { panic!("an answer") };
        let (_, ended) = say(&mut episode, &answer);
        assert_eq!(extra(&ended, "success"), Value::Flag(true), "{given:?}");
    }
}

#[test]
fn the_oracle_stores_facts_in_the_memory_and_searches_step_by_step() {
    let (mut episode, _) = start(vec![named("hops", 2), named("parts", 2), named("memory-chars", 2)]);
    let question = episode.environment().document.facts.questions[0].clone();
    let mut stored = vec![];
    while episode.environment().memories <= 2 {
        if let Advice::Calls(calls) = advised(&episode, &TOOLS, &[]) {
            assert!(calls.iter().all(|call| call.name == "memory_insert"));
            stored.extend(calls.iter().map(|call| call.text("text").expect("a text")));
            assert_eq!(advised(&episode, &TOOLS, &["stored as s1"]), Advice::Message("ok".to_owned()));
        }
        say(&mut episode, "ok");
    }
    assert_eq!(stored, question.steps);
    let searched = |advice: Advice| {
        let Advice::Calls(calls) = advice else { panic!("a search: {advice:?}") };
        calls[0].text("query").expect("a query")
    };
    assert_eq!(searched(advised(&episode, &TOOLS, &[])), question.people[0]);
    let first = format!("[s1] {}", question.steps[0]);
    assert_eq!(searched(advised(&episode, &TOOLS, &[&first])), question.people[1]);
    let answer = Advice::Message(question.answer.clone());
    assert_eq!(advised(&episode, &TOOLS, &[&format!("[s2] {}", question.steps[1])]), answer);
    assert_eq!(advised(&episode, &TOOLS, &["nothing found among 0 entries"]), answer);
}

#[test]
fn a_careless_oracle_remembers_other_sentences_at_the_chosen_rate() {
    for (care, expected) in [(0, 0..=0), (40, 150..=250), (100, 500..=500)] {
        let kept = (0..500).filter(|index| {
            let reader = LongReader::new(false, *index, Settings { parts: 1, oracle_care: care, ..settings() });
            let reader = LongReader { memories: 1, ..reader };
            let Advice::Message(memory) = oracle::advise(&reader, &[], &[]) else { panic!("a memory") };
            let step = &reader.document.facts.questions[0].steps[0];
            assert!(memory == *step || reader.document.part(0).contains(&memory), "{memory}");
            memory == *step
        });
        let kept = kept.count();
        assert!(expected.contains(&kept), "{kept} of 500 at {care}");
    }
}

#[test]
fn a_restored_episode_continues_alike() {
    let (mut episode, _) = start(vec![named("parts", 2), named("memory-chars", 10)]);
    for words in ["one", "much too long", "two", "three", "1234"] {
        let before = episode.environment().state_key();
        let mut again = Episode::<LongReader>::restore(&episode.snapshot()).expect("its own snapshot");
        assert_eq!(again.environment(), episode.environment());
        assert_eq!(say(&mut again, words), say(&mut episode, words));
        assert_eq!(again.snapshot(), episode.snapshot());
        assert_ne!(episode.environment().state_key(), before);
    }
}

#[test]
fn unsound_snapshots_are_refused() {
    let sound = LongReader::new(true, 7, settings());
    let refused = |reader: LongReader, words: &str| {
        let error = LongReader::restore(&reader.snapshot()).expect_err(words);
        assert!(matches!(&error, Error::BadSnapshot(why) if why.contains(words)), "{error:?}");
    };
    let altered = |change: fn(&mut LongReader)| {
        let mut reader = LongReader::new(true, 7, settings());
        change(&mut reader);
        reader
    };
    assert_eq!(LongReader::restore(&sound.snapshot()), Ok(sound));
    refused(altered(|reader| reader.memories = 10), "beyond the document");
    refused(altered(|reader| reader.refused = 4), "beyond the document");
    refused(altered(|reader| reader.memory = "x".repeat(401)), "too long");
    refused(altered(|reader| reader.settings.parts = 0), "option `parts` must be 1 to 256");
    refused(altered(|reader| reader.settings.characters = u64::MAX), "option `characters` must be 100 to 524288");
    let bytes = altered(|_| ()).snapshot();
    assert!((0..bytes.len()).all(|length| LongReader::restore(&bytes[..length]).is_err()));
}
