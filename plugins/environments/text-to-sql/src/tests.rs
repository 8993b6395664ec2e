use super::*;

fn episode(kind: Kind, index: u64) -> TextToSql {
    let settings = Settings { test: false, index, kind: Some(kind), rows: 40, attempts: 2 };
    TextToSql::new(settings).expect("a task")
}

fn step(episode: &mut TextToSql, words: &str) -> StepResult {
    episode.step(Action::say(0, words)).expect("mistakes are answers")
}

#[test]
fn every_form_of_question_is_answered_by_its_query() {
    for (name, kind) in Kind::ALL {
        let mut forms = std::collections::BTreeSet::new();
        for index in 0..40 {
            let mut episode = episode(kind, index);
            let sql = episode.task.question.sql.clone();
            forms.insert(episode.task.question.text.split(' ').take(2).collect::<Vec<_>>().join(" "));
            let ended = step(&mut episode, &sql);
            assert!(ended.terminated && ended.rewards[0].reward == 1.0, "{name} {index}: {sql}");
        }
        assert!(forms.len() >= 3, "{name}: {forms:?}");
    }
}

#[test]
fn accidentally_right_constants_are_wrong() {
    for (name, kind) in Kind::ALL {
        for index in 0..10 {
            let mut episode = episode(kind, index);
            let shown =
                judge::ask(&mut judge::database(&episode.task.script(0)).expect("rows"), &episode.task.question.sql);
            let shown = shown.expect("an answer");
            let constant = shown.rows.iter().map(|row| {
                let cells = row.iter().map(|value| match value {
                    gymkhana_sqlite::Value::Null => "NULL".to_owned(),
                    gymkhana_sqlite::Value::Integer(integer) => integer.to_string(),
                    gymkhana_sqlite::Value::Real(real) => format!("{real:?}"),
                    gymkhana_sqlite::Value::Text(text) => format!("'{text}'"),
                    gymkhana_sqlite::Value::Blob(_) => unreachable!("no generated table holds blobs"),
                });
                format!("({})", cells.collect::<Vec<_>>().join(", "))
            });
            let constant = format!("VALUES {}", constant.collect::<Vec<_>>().join(", "));
            let ended = step(&mut episode, &constant);
            assert!(ended.terminated && ended.rewards[0].reward == 0.0, "{name} {index}: {constant}");
        }
    }
}

#[test]
fn a_query_that_does_not_run_may_be_mended() {
    let mut episode = episode(Kind::Join, 1);
    let wrong = step(&mut episode, "DELETE FROM missing");
    assert!(!wrong.terminated, "{wrong:?}");
    let said = gymkhana_sdk::text_of(&wrong.observations[0].content);
    assert!(said.starts_with("This query does not run: no such table: missing"), "{said}");
    assert!(said.ends_with(". You have 1 more attempt."), "{said}");
    let again = TextToSql::restore(&episode.snapshot()).expect("a snapshot");
    assert_eq!((again.state_key(), again.privileged()), (episode.state_key(), episode.privileged()));
    let last = step(&mut episode, "");
    assert!(last.terminated && last.rewards[0].reward == 0.0);
    assert_ne!(again.state_key(), episode.state_key());
}

#[test]
fn a_query_is_read_from_the_last_fence_or_the_whole_text() {
    assert_eq!(query_in(" SELECT 1;\n"), "SELECT 1;");
    assert_eq!(query_in("Perhaps ```sql\nSELECT 1\n``` or better\n```sql\nSELECT 2\n```"), "SELECT 2");
    assert_eq!(query_in("```SELECT 1```"), "SELECT 1");
    assert_eq!(query_in("```\nSELECT 1\n```\n"), "SELECT 1");
}

#[test]
fn splits_share_no_task() {
    for index in 0..30 {
        for test in [false, true] {
            let task = Task::at(test, index, None, 40).expect("a task");
            assert_eq!(task.is_held_out(), test);
        }
    }
}

#[test]
fn a_snapshot_of_something_else_is_refused() {
    let wrong = Writer::new().flag(false).integer(1).text("hard").integer(40).integer(2).integer(0).flag(false);
    assert!(TextToSql::restore(&wrong.finish()).is_err());
    let many = Writer::new().flag(false).integer(1).text("join").integer(40).integer(2).integer(3).flag(false);
    assert!(TextToSql::restore(&many.finish()).is_err());
}
