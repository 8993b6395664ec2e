//! Filters of a record made by hand, and the mistakes that are refused.

use gymkhana_record::{
    Boundary, Call, CallSite, Component, Ending, EpisodeId, EpisodeRecord, Failure, FailureKind, NamedValue, Phase,
    PluginScore, PolicyTurn, Sampled, Score, Seed, Segment, TaskRef, Turn, Value,
};

use super::*;

/// An episode with a reward of 0.75, 2 calls, 1 turn, 5 tokens of which 2 were sampled by versions 3 and 4.
fn record() -> EpisodeRecord {
    let id = EpisodeId { stage: 1, phase: Phase::Train, step: 7, group: 0, member: 0, attempt: 0 };
    let task = TaskRef { split: "train".to_owned(), index: 5 };
    let mut segment = Segment::new(0);
    segment.append_given(&[1, 2, 3], 0);
    let (tokens, log_probs, entropies) = (vec![4, 5], vec![-0.5; 2], vec![0.0; 2]);
    segment.append_sampled(&Sampled { tokens, log_probs, entropies, versions: vec![3, 4] }, 0).unwrap();
    let call = |id: &str| Turn::Call {
        seat: 0,
        call: Call { id: id.to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() },
        cost: 0.0,
    };
    let correct = Component { name: "correct".to_owned(), value: 1.0 };
    let score = Score { seat: 0, total: 0.5, components: vec![correct], turns: vec![], evidence: vec![] };
    EpisodeRecord {
        environment: Some("lake".to_owned()),
        turns: vec![call("a"), call("b")],
        policy_turns: vec![PolicyTurn {
            seat: 0,
            turn: 0,
            transcript: 0,
            steps: 0,
            state: None,
            probe_score: None,
            thought_tokens: 0,
            note: None,
        }],
        segments: vec![segment],
        rewards: vec![0.75, -1.0],
        success: true,
        extras: vec![NamedValue { name: "steps".to_owned(), value: Value::Integer(9) }],
        scores: vec![PluginScore { plugin: "answer-match".to_owned(), scores: vec![score] }],
        failures: vec![failure()],
        ..EpisodeRecord::new(id, task, Seed(1), Ending::TurnLimit)
    }
}

fn failure() -> Failure {
    let (at, call_site) = (Boundary::Tool("add".to_owned()), CallSite::Reset);
    Failure { at, kind: FailureKind::Deadline, call_site, message: "too long".to_owned() }
}

fn holds(text: &str) -> bool {
    Filter::parse(text).unwrap().matches(Episode { record: &record(), stage: "rl" })
}

#[test]
fn figures_have_the_values_of_the_record() {
    for text in [
        "success",
        "success == true",
        "selected",
        "reward == 0.75",
        "calls == 2",
        "malformed_calls == 0",
        "turns == 1",
        "length == 5",
        "sampled_tokens == 2",
        "version == 4",
        "step == 7",
        "failures == 1",
        "answer-match.correct == 1",
        "answer-match.total == 0.5",
        "environment.steps == 9",
        "environment == 'lake'",
        "split == \"train\"",
        "stage == 'rl'",
        "purpose == 'train'",
        "ending == 'turn-limit'",
        "failure == 'deadline'",
    ] {
        assert!(holds(text), "{text}");
        assert!(!holds(&format!("not ({text})")), "not ({text})");
    }
}

#[test]
fn comparisons_and_connectives() {
    for (text, expected) in [
        ("reward > 0.75", false),
        ("reward >= 0.75", true),
        ("reward < 1e0", true),
        ("reward <= -1", false),
        ("0.5 < reward", true),
        ("0.5 >= reward", false),
        ("0.75 >= reward", true),
        ("calls > turns", true),
        ("success != true", false),
        ("false == success", false),
        ("stage != 'sft'", true),
        ("'rl' == stage", true),
        // `and` binds closer than `or`.
        ("success or success and calls == 9", true),
        ("(success or success) and calls == 9", false),
        ("not success or calls == 2", true),
        ("not (success or calls == 2)", false),
        ("not not success", true),
        // A figure that the episode lacks fulfils no comparison.
        ("other.total == 0", false),
        ("other.total != 0", false),
        ("not other.total == 0", true),
        ("failure == 'trap'", false),
    ] {
        assert_eq!(holds(text), expected, "{text}");
    }
}

#[test]
fn mistakes_name_their_column() {
    for (text, column, problem) in [
        ("", 1, "expected a figure"),
        ("reward > 1 and sucess", 16, "did you mean `success`?"),
        ("reward > 1 and zebra", 16, "the figures are success, selected, reward"),
        ("calls = 3", 7, "write `==`"),
        ("success && selected", 9, "write `and`"),
        ("!success", 1, "write `not`"),
        ("calls", 6, "expected a comparison"),
        ("calls >", 8, "expected a figure"),
        ("calls > 'x'", 9, "expected a number"),
        ("split > 'train'", 7, "texts have no order"),
        ("split == 3", 10, "expected a text in quotes"),
        ("success > true", 9, "has no order"),
        ("success == 1", 12, "expected `true` or `false`"),
        ("1 < 2", 1, "name a figure"),
        ("true", 5, "expected a comparison"),
        ("(success", 9, "expected `)` for the parenthesis of column 1"),
        ("success)", 8, "closes nothing"),
        ("success selected", 9, "expected `and`, `or`"),
        ("split == 'train", 10, "no closing '"),
        ("reward > 1.2.3", 10, "`1.2.3` is not a finite number"),
        ("reward > 1e999", 10, "is not a finite number"),
        ("ending == 'turn-limits'", 11, "did you mean `turn-limit`?"),
        ("purpose == 'xyz'", 12, "the values are train, evaluation, demonstrations, served"),
        ("é == 1", 1, "is not a figure"),
        ("success and §", 13, "begins neither"),
    ] {
        let error = Filter::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.problem.contains(problem), "{text}: {error}");
    }
    let nested = |count: usize| format!("{}success{}", "(".repeat(count), ")".repeat(count));
    assert!(Filter::parse(&nested(64)).is_ok());
    assert_eq!(Filter::parse(&nested(65)).unwrap_err().column, 65);
    assert!(Filter::parse(&"not ".repeat(100_000)).is_err());
}

#[test]
fn names_of_the_run_are_checked_against_its_episodes() {
    let (record, mut seen) = (record(), EpisodeNames::default());
    seen.add(Episode { record: &record, stage: "rl" });
    let check = |text: &str| Filter::parse(text).unwrap().check(&seen).map_err(|error| error.to_string());
    for text in ["answer-match.total > 0 and environment.steps > 1", "stage == 'rl' or split == 'train'", "success"] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for (text, expected) in [
        (
            "answer-match.corect > 0",
            "no episode has the figure `answer-match.corect`; did you mean `answer-match.correct`?",
        ),
        (
            "not (1 > zebra.x)",
            "no episode has the figure `zebra.x`; there are answer-match.correct, answer-match.total, environment.steps",
        ),
        ("environment != 'lakes'", "no episode has the environment `lakes`; did you mean `lake`?"),
        ("split == 'x'", "no episode has the split `x`; there are train"),
        ("success or stage == 'sft'", "no episode has the stage `sft`; there are rl"),
    ] {
        assert_eq!(check(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn a_filter_is_its_text_in_files() {
    let filter = Filter::parse("success and calls <= 3").unwrap();
    assert_eq!(String::from(filter.clone()), "success and calls <= 3");
    assert_eq!(Filter::parse("success"), Ok(Filter::success()));
    assert_eq!(Filter::try_from("success and calls <= 3".to_owned()), Ok(filter));
}
