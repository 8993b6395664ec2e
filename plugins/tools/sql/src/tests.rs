use super::*;
use gymkhana_sdk::text_of;
use gymkhana_sdk::tool::Session;

const PEOPLE: &str = "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, height REAL, photo BLOB);
    INSERT INTO person VALUES (1, 'Ann', 1.7, x'00ff'), (2, 'NULL', NULL, NULL), (3, 'two\nlines', 2.0, zeroblob(40));";

fn session(options: Vec<NamedValue>) -> Session<Sql> {
    Session::open(Some(PEOPLE.as_bytes().to_vec()), options, 0).expect("a database")
}

fn call(session: &mut Session<Sql>, name: &str, arguments: &serde_json::Value) -> (String, bool) {
    let answer = session.call(&Call::advised(name, arguments.to_string())).expect("mistakes are answers");
    (text_of(&answer.content), answer.failed)
}

fn query(session: &mut Session<Sql>, sql: &str) -> (String, bool) {
    call(session, "query", &serde_json::json!({ "sql": sql }))
}

fn works(session: &mut Session<Sql>, sql: &str) -> String {
    let (answer, failed) = query(session, sql);
    assert!(!failed, "{sql}: {answer}");
    answer
}

fn fails(session: &mut Session<Sql>, sql: &str, words: &str) {
    let (answer, failed) = query(session, sql);
    assert!(failed && answer.contains(words), "{sql}: {answer}");
}

#[test]
fn rows_are_aligned_in_columns_without_ambiguity() {
    let mut session = session(vec![]);
    let table = "id | name       | height | photo\n\
                 ---+------------+--------+--------------------------------------------------\n\
                 \x201 | Ann        |    1.7 | x'00ff' (2 bytes)\n\
                 \x202 | 'NULL'     |   NULL | NULL\n\
                 \x203 | two\\nlines |    2.0 | x'00000000000000000000000000000000…' (40 bytes)\n\
                 (3 rows)";
    let shown = works(&mut session, "SELECT * FROM person");
    let squeezed = |text: &str| text.replace("-", "");
    assert_eq!(squeezed(&shown), squeezed(table), "{shown}");
    let two = works(&mut session, "SELECT '' AS empty; SELECT count(*) FROM person WHERE id > 9");
    assert!(two.starts_with("empty\n-----\n''\n(1 row)\n\ncount(*)\n"), "{two}");
}

#[test]
fn hidden_rows_are_counted() {
    let options = vec![named("rows", 2), named("cell-chars", 4)];
    let mut session = session(options);
    let shown = works(&mut session, "SELECT name FROM person ORDER BY id DESC");
    assert_eq!(shown, "name\n------\ntwo…\n'NULL'\n… 1 more row\n(3 rows)");
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let endless = works(&mut session, numbers);
    assert!(endless.starts_with("i\n-\n1\n2\n… more than "), "{endless}");
    let many = format!("{numbers} LIMIT 300");
    assert!(works(&mut session, &many).ends_with("… 298 more rows\n(300 rows)"));
    let mut narrow = self::session(vec![named("answer-bytes", 200), named("rows", 300)]);
    let shown = works(&mut narrow, &many);
    assert!(shown.len() <= 200 && shown.contains(" more rows\n(300 rows)"), "{shown}");
}

#[test]
fn a_reader_looks_and_changes_nothing() {
    let mut session = session(vec![]);
    fails(&mut session, "DELETE FROM person", "read-only: DELETE is refused");
    fails(&mut session, "DROP TABLE person", "read-only: D");
    fails(&mut session, "CREATE TABLE other (a)", "read-only");
    fails(&mut session, "SELECT 1; UPDATE person SET name = 'x'", "error in statement 2: the database is read-only");
    fails(&mut session, "ATTACH 'x.db' AS other", "ATTACH and DETACH are refused");
    fails(&mut session, "PRAGMA query_only = OFF", "PRAGMA query_only is refused");
    fails(&mut session, "PRAGMA writable_schema = ON", "refused");
    fails(&mut session, "SELECT load_extension('x')", "load_extension");
    fails(&mut session, "VACUUM INTO 'x.db'", "");
    assert!(works(&mut session, "PRAGMA table_info(person)").contains("height"));
    assert!(works(&mut session, "EXPLAIN QUERY PLAN SELECT * FROM person").contains("SCAN person"));
    assert!(works(&mut session, "SELECT count(*) AS all_of_them FROM person").contains('3'));
}

#[test]
fn a_writer_changes_and_a_snapshot_holds_it() {
    let mut session = session(vec![named("read-only", false)]);
    assert_eq!(works(&mut session, "INSERT INTO person (name) VALUES ('Bo'), ('Cy')"), "done, 2 rows changed");
    let moved = "BEGIN; UPDATE person SET height = 1 WHERE name = 'Bo'; COMMIT; SELECT changes_of FROM (SELECT 1 AS changes_of)";
    assert!(works(&mut session, moved).contains("done, 1 row changed"));
    fails(&mut session, "BEGIN; DELETE FROM person", "rolled back");
    fails(&mut session, "PRAGMA page_size = 512", "refused");
    fails(&mut session, "CREATE TEMP TABLE t (a)", "temporary tables are refused");
    fails(&mut session, "CREATE VIRTUAL TABLE t USING fts5(a)", "virtual tables are refused");
    fails(&mut session, "INSERT INTO person (id) VALUES (1)", "UNIQUE constraint failed: person.id");
    fails(&mut session, "SELECT total_changes()", "total_changes");
    assert!(
        works(&mut session, "ALTER TABLE person ADD COLUMN age INTEGER; ALTER TABLE person RENAME TO people")
            .contains("done")
    );
    let mut again = Session::<Sql>::restore(&session.tool().snapshot()).expect("a snapshot");
    assert_eq!(again.tool().snapshot(), session.tool().snapshot());
    assert_eq!(again.tool().final_view(), session.tool().final_view());
    for session in [&mut session, &mut again] {
        assert!(works(session, "SELECT count(*) FROM people WHERE age IS NULL").contains('5'));
        assert!(works(session, "INSERT INTO people (name) VALUES ('Di') RETURNING id").contains('6'));
    }
    let snapshot = session.tool().snapshot();
    for length in [0, 20, snapshot.len() / 2, snapshot.len() - 1] {
        assert!(Session::<Sql>::restore(&snapshot[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn bombs_are_answered() {
    let mut session = session(vec![named("read-only", false), named("database-bytes", 65_536)]);
    for bomb in [
        "SELECT randomblob(1e9)",
        "SELECT zeroblob(1e9)",
        "SELECT printf('%.*c', 1e9, 'x')",
        "SELECT hex(zeroblob(60000))",
    ] {
        fails(&mut session, bomb, "too big");
    }
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    fails(&mut session, &format!("{numbers} SELECT count(*) FROM n"), "stopped after 1000000 steps; narrow the query");
    let heavy =
        format!("{numbers} SELECT sum(length(hex(zeroblob(30000 - i % 2)))) FROM (SELECT i FROM n LIMIT 10000)");
    fails(&mut session, &heavy, "stopped after 1000000 steps");
    assert!(works(&mut session, &heavy.replace("30000", "300")).contains("5990000"));
    fails(&mut session, &format!("CREATE TABLE t AS {numbers} SELECT i FROM n"), "");
    fails(
        &mut session,
        &format!("INSERT INTO person (name) {numbers} SELECT zeroblob(1000) FROM n LIMIT 100"),
        "the database is full",
    );
    fails(&mut session, &format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000)), "");
    fails(&mut session, &format!("SELECT 1{}", " UNION SELECT 1".repeat(500)), "too many terms");
    assert!(works(&mut session, "SELECT length(randomblob(1000)), count(*) FROM person").contains("1000 |        3"));
}

#[test]
fn mistakes_are_explained_with_a_fix() {
    let mut session = session(vec![]);
    fails(&mut session, "SELECT nme FROM person", "error: no such column: nme (at `nme FROM person`)");
    fails(&mut session, "SELEC 1", "near \"SELEC\": syntax error");
    fails(&mut session, "  -- nothing", "there is no statement");
    let (answer, failed) = call(&mut session, "schema", &serde_json::json!({"table": "cat"}));
    assert!(failed && answer.contains("there is no table `cat`; there are: person"), "{answer}");
    let (answer, failed) = call(&mut session, "query", &serde_json::json!({"sql": "SELECT 1", "database": "x"}));
    assert!(failed && answer.contains("there is no database `x`; there are: main"), "{answer}");
    let (answer, failed) = call(&mut session, "schema", &serde_json::json!({}));
    assert!(
        !failed && answer.starts_with("CREATE TABLE person (id INTEGER") && answer.ends_with("-- 3 rows"),
        "{answer}"
    );
    let view = session.tool().final_view();
    assert!(view.contains(&named("statements", 2)) && view.contains(&named("errors", 2)), "{view:?}");
}

#[test]
fn an_invalid_database_opens_no_session() {
    let open = |setup: &[u8], script: &str| {
        Session::<Sql>::open(Some(setup.to_vec()), vec![named("script", script)], 0).map(|_| ()).expect_err("refused")
    };
    let refused = |error: Error, words: &str| assert!(format!("{error:?}").contains(words), "{error:?}");
    refused(open(b"\xff\xfe", ""), "the environment's setup is not a database: it is neither");
    refused(open(b"SQLite format 3\0 and so on", ""), "not a valid SQLite file");
    refused(open(b"CREATE TABLE t (", ""), "incomplete input");
    refused(open(b"", "SELEC"), "option `script` fails");
    refused(open(b"ATTACH 'x.db' AS x", ""), "ATTACH and DETACH are refused");
    let dump = "PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; CREATE TABLE t (a); COMMIT;";
    assert!(Session::<Sql>::open(None, vec![named("script", dump)], 0).is_ok());
}
