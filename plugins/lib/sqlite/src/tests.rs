use super::*;

const KEEP: Keep = Keep { rows: 10, bytes: 10_000 };

fn database(script: &str, access: Access) -> Database {
    Database::open(script.as_bytes(), access, Limits::default()).expect("a database")
}

fn first(database: &mut Database, sql: &str) -> Vec<Vec<Value>> {
    match database.run(sql, KEEP).expect("rows").remove(0) {
        Outcome::Table(table) => table.rows,
        Outcome::Changed(count) => panic!("{count} rows changed"),
    }
}

#[test]
fn an_image_contains_the_complete_database() {
    let mut one = database("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2.5), ('x'), (NULL)", Access::ReadWrite);
    one.run("DELETE FROM t WHERE a = 1", KEEP).expect("a change");
    let mut other = Database::open(&one.image().expect("an image"), Access::ReadOnly, Limits::default()).expect("it");
    let rows = vec![vec![Value::Real(2.5)], vec![Value::Text("x".into())], vec![Value::Null]];
    assert_eq!(first(&mut other, "SELECT a FROM t"), rows);
    assert!(other.run("DELETE FROM t", KEEP).is_err());
    let empty = database("", Access::ReadOnly).image().expect("an image");
    assert!(Database::open(&empty, Access::ReadOnly, Limits::default()).is_ok());
}

#[test]
fn a_failed_statement_keeps_earlier_effects() {
    let mut database = database("CREATE TABLE t (a UNIQUE)", Access::ReadWrite);
    let failure = database.run("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2), (1)", KEEP).expect_err("twice");
    assert_eq!(failure.done, [Outcome::Changed(1)]);
    assert_eq!(failure.message, "UNIQUE constraint failed: t.a");
    assert_eq!(first(&mut database, "SELECT a FROM t"), [[Value::Integer(1)]]);
}

#[test]
fn rows_are_kept_while_there_is_room_and_counted_beyond() {
    let mut database = database("", Access::ReadOnly);
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100)";
    let done = database.run(&format!("{numbers} SELECT i FROM n"), KEEP).expect("rows");
    let [Outcome::Table(table)] = &done[..] else { panic!("a table") };
    assert_eq!((table.rows.len(), table.total, table.counted), (10, 100, true));
    let wide = format!("{numbers} SELECT zeroblob(4000) FROM n; SELECT 1");
    let done = database.run(&wide, KEEP).expect("rows");
    let [Outcome::Table(blobs), Outcome::Table(one)] = &done[..] else { panic!("tables") };
    assert_eq!((blobs.rows.len(), blobs.total), (2, 100));
    assert_eq!((one.rows.len(), one.total), (0, 1), "what was too large closes the room");
}

#[test]
fn calls_do_not_reveal_earlier_calls() {
    let mut database = database("CREATE TABLE t (a)", Access::ReadWrite);
    let inserted = database.run("INSERT INTO t VALUES (7); SELECT last_insert_rowid()", KEEP).expect("a row");
    assert!(matches!(&inserted[1], Outcome::Table(table) if table.rows == [[Value::Integer(1)]]));
    assert_eq!(first(&mut database, "SELECT last_insert_rowid()"), [[Value::Integer(0)]]);
    assert!(database.run("BEGIN; INSERT INTO t VALUES (8)", KEEP).is_err());
    assert_eq!(first(&mut database, "SELECT count(*) FROM t"), [[Value::Integer(1)]]);
    assert!(database.run("COMMIT", KEEP).is_err_and(|failure| failure.message.contains("no transaction")));
}

#[test]
fn a_long_script_runs_and_a_failing_one_is_explained() {
    let rows: String = (0..5_000).map(|row| format!("INSERT INTO t VALUES ({row});\n")).collect();
    let mut database = database(&format!("CREATE TABLE t (a);\nBEGIN;\n{rows}COMMIT;"), Access::ReadOnly);
    assert_eq!(first(&mut database, "SELECT count(*) FROM t"), [[Value::Integer(5_000)]]);
    let wrong =
        |script: &str| Database::open(script.as_bytes(), Access::ReadOnly, Limits::default()).err().expect("wrong");
    assert_eq!(wrong("CREATE TABLE t (a); INSERT INTO u VALUES (1)"), "no such table: u");
    assert_eq!(wrong("SELECT 1; \0"), "the script contains a zero byte");
}
