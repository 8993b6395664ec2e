//! Calls of a session: changes, searches, limits, attacks and snapshots.

use super::*;
use gymkhana_sdk::snapshot::SnapshotState as _;
use gymkhana_sdk::text_of;
use gymkhana_sdk::tool::Session;
use serde_json::json;

fn session(options: Vec<NamedValue>) -> Session<Memory> {
    Session::open(None, options, 0).expect("a memory")
}

fn call(session: &mut Session<Memory>, name: &str, arguments: &serde_json::Value) -> (String, bool) {
    let answer = session.call(&Call::advised(name, arguments.to_string())).expect("mistakes are answers");
    (text_of(&answer.content), answer.failed)
}

fn works(session: &mut Session<Memory>, name: &str, arguments: &serde_json::Value) -> String {
    let (answer, failed) = call(session, name, arguments);
    assert!(!failed, "{name} {arguments}: {answer}");
    answer
}

fn fails(session: &mut Session<Memory>, name: &str, arguments: &serde_json::Value, words: &str) {
    let before = session.tool().stores.clone();
    let (answer, failed) = call(session, name, arguments);
    assert!(failed && answer.contains(words), "{name} {arguments}: {answer}");
    assert_eq!(session.tool().stores, before, "a refused call changes nothing");
}

fn search(session: &mut Session<Memory>, arguments: &serde_json::Value) -> String {
    works(session, "memory_search", arguments)
}

fn viewed(session: &Session<Memory>, name: &str) -> Value {
    let view = session.tool().final_view();
    view.into_iter().find(|fact| fact.name == name).map(|fact| fact.value).expect("a field of the view")
}

/// A memory with a core text, an event and three facts.
fn filled() -> Session<Memory> {
    let mut session = session(vec![]);
    assert_eq!(works(&mut session, "memory_insert", &json!({"text": "Ann pays.", "memory": "core"})), "stored as core");
    assert_eq!(works(&mut session, "memory_insert", &json!({"text": "Met Bo.", "memory": "episodic"})), "stored as e1");
    for (text, id) in [("Bo likes tea.", "s1"), ("Bo's door has the code 4821.", "s2"), ("Cy likes tea, too.", "s3")] {
        assert_eq!(works(&mut session, "memory_insert", &json!({ "text": text })), format!("stored as {id}"));
    }
    session
}

#[test]
fn entries_are_changed_deleted_and_never_share_an_id() {
    let mut session = filled();
    assert_eq!(works(&mut session, "memory_update", &json!({"id": "s2", "text": "The code is 7713."})), "updated s2");
    assert_eq!(works(&mut session, "memory_delete", &json!({"id": "s3"})), "deleted s3");
    assert_eq!(works(&mut session, "memory_insert", &json!({"text": "Di sings."})), "stored as s4");
    works(&mut session, "memory_insert", &json!({"text": "Bo is away.", "memory": "core"}));
    let all = works(&mut session, "memory_search", &json!({"query": ""}));
    assert_eq!(
        all,
        "[core] Ann pays.\nBo is away.\n[e1] Met Bo.\n[s1] Bo likes tea.\n[s2] The code is 7713.\n[s4] Di sings."
    );
    works(&mut session, "memory_delete", &json!({"id": "core"}));
    let facts = r#"["Bo likes tea.","The code is 7713.","Di sings."]"#;
    assert_eq!(viewed(&session, "core"), Value::Text(String::new()));
    assert_eq!(viewed(&session, "semantic"), Value::Other(facts.to_owned()));
    assert_eq!(viewed(&session, "episodic"), Value::Other(r#"["Met Bo."]"#.to_owned()));
    // 7 + 13 + 17 + 9 characters.
    assert_eq!(viewed(&session, "chars"), Value::Integer(46));
    let counts = ["inserts", "updates", "deletes", "searches", "failed"].map(|name| viewed(&session, name));
    assert_eq!(counts, [7, 1, 2, 1, 0].map(Value::Integer));
}

#[test]
fn searches_rank_words_or_find_the_exact_text() {
    let mut session = filled();
    // Both texts have two of the words and equal lengths, so they keep their order.
    assert_eq!(
        search(&mut session, &json!({"query": "Who likes tea?"})),
        "[s1] Bo likes tea.\n[s3] Cy likes tea, too."
    );
    assert_eq!(search(&mut session, &json!({"query": "codes"})), "[s2] Bo's door has the code 4821.");
    assert_eq!(search(&mut session, &json!({"query": "codes", "mode": "exact"})), "nothing found among 5 entries");
    assert_eq!(search(&mut session, &json!({"query": "TEA,", "mode": "exact"})), "[s3] Cy likes tea, too.");
    assert_eq!(search(&mut session, &json!({"query": "bo", "memory": "episodic"})), "[e1] Met Bo.");
    assert_eq!(search(&mut session, &json!({"query": "zebra"})), "nothing found among 5 entries");
    works(&mut session, "memory_delete", &json!({"id": "s2"}));
    assert_eq!(search(&mut session, &json!({"query": "4821", "mode": "exact"})), "nothing found among 4 entries");
    assert_eq!(search(&mut session, &json!({"query": "4821"})), "nothing found among 4 entries");
    let mut narrow = self::session(vec![named("results", 1)]);
    works(&mut narrow, "memory_insert", &json!({"text": "tea"}));
    works(&mut narrow, "memory_insert", &json!({"text": "tea and more"}));
    assert_eq!(search(&mut narrow, &json!({"query": "tea"})), "[s1] tea\n… 1 more");
}

#[test]
fn mistakes_are_explained_with_a_fix() {
    let mut session = filled();
    fails(&mut session, "memory_insert", &json!({}), "`text` is missing");
    fails(&mut session, "memory_insert", &json!({"text": " \n"}), "`text` is empty");
    fails(&mut session, "memory_insert", &json!({"text": "x", "memory": "cache"}), "use core, episodic or semantic");
    for id in ["s9", "e2", "s01", "s", "S1", "", "e99999999999999999999"] {
        fails(&mut session, "memory_update", &json!({"id": id, "text": "x"}), &format!("there is no entry `{id}`"));
        fails(&mut session, "memory_delete", &json!({"id": id}), "memory_search lists the ids");
    }
    works(&mut session, "memory_delete", &json!({"id": "s1"}));
    fails(&mut session, "memory_delete", &json!({"id": "s1"}), "there is no entry `s1`");
    fails(&mut session, "memory_update", &json!({"id": "core", "text": ""}), "`text` is empty");
    fails(&mut session, "memory_search", &json!({"query": "x", "mode": "fuzzy"}), "use words or exact");
    fails(&mut session, "memory_search", &json!({"query": "x ".repeat(501)}), "longer than 1000 characters");
    assert_eq!(viewed(&session, "failed"), Value::Integer(21));
    assert!(call(&mut session, "memory_erase", &json!({})).1);
}

#[test]
fn limits_hold_in_characters() {
    let options = vec![named("core-chars", 6), named("entries", 2), named("entry-chars", 4), named("total-chars", 12)];
    let mut session = session(options);
    works(&mut session, "memory_insert", &json!({"text": "äöü🙂"}));
    fails(&mut session, "memory_insert", &json!({"text": "äöü🙂x"}), "an entry may have 4 characters, this would be 5");
    fails(&mut session, "memory_update", &json!({"id": "s1", "text": "12345"}), "an entry may have 4 characters");
    fails(&mut session, "memory_insert", &json!({"text": "x".repeat(1_000_000)}), "this would be 1000000");
    works(&mut session, "memory_insert", &json!({"text": "abc", "memory": "core"}));
    // A line break and two letters make six characters.
    works(&mut session, "memory_insert", &json!({"text": "de", "memory": "core"}));
    fails(&mut session, "memory_insert", &json!({"text": "f", "memory": "core"}), "the core memory may have 6");
    works(&mut session, "memory_insert", &json!({"text": "12"}));
    fails(&mut session, "memory_insert", &json!({"text": "3"}), "it has 2 of 2 entries");
    fails(&mut session, "memory_insert", &json!({"text": "3", "memory": "episodic"}), "would have 13 characters");
    fails(&mut session, "memory_update", &json!({"id": "s2", "text": "123"}), "would have 13 characters");
    works(&mut session, "memory_update", &json!({"id": "s2", "text": "34"}));
    works(&mut session, "memory_delete", &json!({"id": "s2"}));
    works(&mut session, "memory_insert", &json!({"text": "3", "memory": "episodic"}));
}

#[test]
fn many_entries_end_at_the_limit() {
    let mut session = session(vec![named("entries", 1000), named("total-chars", 200_000)]);
    for number in 0..1000 {
        works(&mut session, "memory_insert", &json!({"text": format!("fact {number}")}));
    }
    fails(&mut session, "memory_insert", &json!({"text": "one more"}), "it has 1000 of 1000 entries");
    let found = works(&mut session, "memory_search", &json!({"query": "fact"}));
    assert!(found.starts_with("[s1] fact 0\n[s2] fact 1\n") && found.ends_with("\n… 995 more"), "{found}");
    assert_eq!(works(&mut session, "memory_search", &json!({"query": "733"})), "[s734] fact 733");
}

#[test]
fn an_environment_prepares_entries() {
    let open = |setup: &str| Session::<Memory>::open(Some(setup.as_bytes().to_vec()), vec![named("entry-chars", 9)], 0);
    let mut session = open(r#"{"core": "Ann pays.", "semantic": ["Bo sings.", "Cy sings."]}"#).expect("a memory");
    assert_eq!(works(&mut session, "memory_search", &json!({"query": "Cy"})), "[s2] Cy sings.");
    assert_eq!(viewed(&session, "inserts"), Value::Integer(0));
    for (setup, words) in [
        ("7", "not a memory"),
        (r#"{"facts": []}"#, "unknown field `facts`"),
        (r#"{"semantic": ["Bo sings all day."]}"#, "an entry may have 9 characters"),
        (r#"{"episodic": [""]}"#, "`text` is empty"),
    ] {
        let refused = open(setup).map(|_| ()).expect_err(setup);
        assert!(matches!(&refused, Error::Invalid(message) if message.contains(words)), "{refused:?}");
    }
}

#[test]
fn a_restored_session_continues_alike() {
    let mut session = filled();
    works(&mut session, "memory_delete", &json!({"id": "s3"}));
    let mut again = Session::<Memory>::restore(&session.tool().snapshot()).expect("its own snapshot");
    for session in [&mut session, &mut again] {
        assert_eq!(works(session, "memory_insert", &json!({"text": "Di sings."})), "stored as s4");
    }
    assert_eq!(again.tool(), session.tool());
}

#[test]
fn unsound_snapshots_are_refused() {
    let snapshot = filled().tool().snapshot();
    for length in 0..snapshot.len() {
        let refused = Memory::restore(&snapshot[..length]);
        assert!(matches!(refused, Err(Error::BadSnapshot(_))), "cut at {length}");
    }
    assert!(Memory::restore(&[&snapshot[..], &[0]].concat()).is_err());
    let limits = |entries: usize, entry_chars: usize| {
        let limits = Limits { entries, entry_chars, total_chars: 9, ..Limits::default() };
        limits.write(Writer::new()).text("")
    };
    let calls = |writer: Writer| [0; 5].into_iter().fold(writer, Writer::integer).finish();
    let list = |writer: Writer, inserted: u64, entries: &[(u64, &str)]| {
        let head = writer.integer(inserted).integer(entries.len() as u64);
        entries.iter().fold(head, |writer, (number, text)| writer.integer(*number).text(text))
    };
    let of = |entries: usize, inserted: u64, texts: &[(u64, &str)]| {
        calls(list(list(limits(entries, 4), 0, &[]), inserted, texts))
    };
    assert!(Memory::restore(&of(2, 2, &[(1, "abcd"), (2, "efgh")])).is_ok());
    for (why, entries, inserted, texts) in [
        ("a limit that no option allows", 0, 0, vec![]),
        ("too many entries", 1, 2, vec![(1, "abcd"), (2, "efgh")]),
        ("one number twice", 3, 2, vec![(1, "abcd"), (1, "efgh")]),
        ("a number that was not given yet", 3, 2, vec![(2, "abcd"), (3, "efgh")]),
        ("too long an entry", 3, 2, vec![(1, "abcde")]),
        ("an empty entry", 3, 2, vec![(1, "")]),
        ("12 of 9 characters", 3, 3, vec![(1, "abcd"), (2, "efgh"), (3, "ijkl")]),
        ("no number is left", 3, u64::MAX, vec![(1, "abcd")]),
    ] {
        let refused = Memory::restore(&of(entries, inserted, &texts));
        assert!(matches!(refused, Err(Error::BadSnapshot(_))), "{why}: {refused:?}");
    }
}
