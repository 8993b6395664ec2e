//! Questions answered by queries with the real components, and execution match compared with Python's SQLite.

use crate::common::{Table, answers, call, limits, play, play_by, rollout};
use gymkhana_record::{Ending, EpisodeRecord, Turn, Value, text_of};
use gymkhana_rollout::{Actor, Limits, ReplayDifference};
use gymkhana_sqlite::Value as Cell;
use gymkhana_tests::root;
use serde_json::Value as Json;
use text_to_sql::judge;

const DIFFICULTIES: [&str; 6] = ["filter", "aggregate", "join", "group-having", "nested", "window"];

fn table(difficulty: &str) -> Table {
    let asked = Table::new().environment("text-to-sql", &[("difficulty", Value::Text(difficulty.to_owned()))]);
    asked.tool("sql", &[]).reward("tool-match", &[])
}

fn long() -> Limits {
    Limits { context_tokens: 16_384, ..limits() }
}

fn success(record: &EpisodeRecord) -> Option<&Value> {
    record.extras.iter().find(|extra| extra.name == "success").map(|extra| &extra.value)
}

fn component(record: &EpisodeRecord, name: &str) -> f64 {
    let found = record.scores.iter().flat_map(|plugin| &plugin.scores).flat_map(|score| &score.components);
    found.filter(|component| component.name == name).map(|component| component.value).sum()
}

/// A field of the privileged view.
fn fact(record: &EpisodeRecord, name: &str) -> String {
    match record.privileged.iter().find(|fact| fact.name == name).map(|fact| &fact.value) {
        Some(Value::Text(text)) => text.clone(),
        other => panic!("`{name}` is {other:?}"),
    }
}

/// Observations of the environment, as texts.
fn shown(record: &EpisodeRecord) -> Vec<String> {
    let shown = record.turns.iter().filter_map(|turn| match turn {
        Turn::Observation { content, .. } => Some(text_of(content)),
        _ => None,
    });
    shown.collect()
}

#[tokio::test]
async fn the_oracle_queries_the_same_database_and_succeeds() {
    for difficulty in DIFFICULTIES {
        let rollout = rollout(&table(difficulty), long()).await;
        let record = play_by(&rollout, Actor::Oracle).await;
        assert_eq!((record.ending, success(&record)), (Ending::Terminated, Some(&Value::Flag(true))), "{difficulty}");
        let answers = answers(&record);
        assert!(answers.len() == 1 && !answers[0].1 && answers[0].0.contains(" row"), "{difficulty}: {answers:?}");
        assert_eq!(fact(&record, "kind"), difficulty);
        // Its call is the one that the environment expects.
        assert_eq!((component(&record, "format"), component(&record, "correctness")), (1.0, 3.0), "{difficulty}");
        let replayed = rollout.replay_group(std::slice::from_ref(&record)).await.expect("no fault of the host");
        assert_eq!(ReplayDifference::between(&record, &replayed[0]), None);
    }
}

#[tokio::test]
async fn failing_queries_are_answered_and_running_ones_are_final() {
    let rollout = rollout(&table("aggregate"), long()).await;
    let gold = fact(&play_by(&rollout, Actor::Oracle).await, "answer");
    let schema = play(&rollout, &[&call("schema", "{}"), "SELECT 1"]).await;
    let tables = answers(&schema)[0].0.clone();
    let name = tables.split(' ').nth(2).expect("CREATE TABLE and a name").to_owned();
    let fenced = format!("The tables say it all.\n```sql\n{gold}\n```");
    let write = format!("DELETE FROM {name}");

    let mended = play(&rollout, &["I do not know", &write, &fenced]).await;
    assert_eq!(success(&mended), Some(&Value::Flag(true)), "{:?}", mended.turns);
    let texts = shown(&mended);
    assert!(texts.iter().any(|text| text.contains("syntax error") && text.contains("2 more attempts")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("read-only: DELETE is refused")), "{texts:?}");

    let spent = play(&rollout, &["SELEC", &write, "ATTACH 'x' AS y", &gold]).await;
    assert_eq!((spent.ending, success(&spent)), (Ending::Terminated, Some(&Value::Flag(false))));
    let wrong = play(&rollout, &["SELECT -1", &gold]).await;
    assert_eq!((wrong.ending, success(&wrong)), (Ending::Terminated, Some(&Value::Flag(false))));
    let bomb = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let bombed = play(&rollout, &[bomb, &gold]).await;
    assert_eq!(success(&bombed), Some(&Value::Flag(true)), "{:?}", bombed.turns);
    assert!(shown(&bombed).iter().any(|text| text.contains("stopped after")));
}

#[tokio::test]
async fn a_result_of_the_shown_database_alone_is_not_a_correct_answer() {
    let rollout = rollout(&table("aggregate"), long()).await;
    let seen = answers(&play_by(&rollout, Actor::Oracle).await)[0].0.clone();
    let row = seen.lines().nth(2).expect("a header, a rule and a row");
    let constant = format!("SELECT {}", row.replace(" | ", ", "));
    let record = play(&rollout, &[&constant]).await;
    assert_eq!((record.ending, success(&record)), (Ending::Terminated, Some(&Value::Flag(false))), "{constant}");
}

fn cell(value: &Cell) -> Json {
    match value {
        Cell::Null => Json::Null,
        Cell::Integer(integer) => (*integer).into(),
        Cell::Real(real) => (*real).into(),
        Cell::Text(text) => text.as_str().into(),
        Cell::Blob(blob) => {
            let digits: String = blob.iter().map(|byte| format!("{byte:02x}")).collect();
            serde_json::json!({ "blob": digits })
        }
    }
}

/// Rows of both sides, sorted, with numbers rounded to the common precision of both programs.
fn sorted(mut rows: Vec<Json>) -> Vec<String> {
    let round = |value: &mut Json| {
        if let Some(number) = value.as_f64().filter(|_| value.is_f64()) {
            *value = Json::from((number * 1e9).round() / 1e9);
        }
    };
    rows.iter_mut().filter_map(Json::as_array_mut).flatten().for_each(round);
    let mut texts: Vec<String> = rows.iter().map(Json::to_string).collect();
    texts.sort();
    texts
}

#[test]
fn rows_and_matches_equal_those_of_pythons_sqlite() {
    let text = std::fs::read_to_string(root().join("tests/golden/sql.json")).expect("the goldens");
    let golden: Json = serde_json::from_str(&text).expect("JSON");
    let script = golden["script"].as_str().expect("a script");
    let pairs = golden["pairs"].as_array().expect("pairs");
    assert!(pairs.len() > 30);
    for pair in pairs {
        let ask = |name: &str| {
            let sql = pair[name].as_str().expect("a query");
            judge::ask(&mut judge::database(script).expect("a database"), sql).expect(sql)
        };
        let results = ["gold", "answer"].map(ask);
        for (place, result) in results.iter().enumerate() {
            let rows = result.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
            let wanted = pair["rows"][place].as_array().expect("rows").clone();
            assert_eq!(sorted(rows), sorted(wanted), "{pair}");
        }
        let ordered = pair["ordered"].as_bool().expect("a flag");
        let [gold, answer] = &results;
        assert_eq!(judge::alike(gold, answer, ordered), pair["match"].as_bool().expect("a flag"), "{pair}");
        assert_eq!(judge::alike(answer, gold, ordered), pair["match"].as_bool().expect("a flag"), "{pair}");
    }
}
