//! Queries by the real component on mounted and prepared databases, within limits that a statement cannot exceed.

use crate::common::sandbox;
use gymkhana_record::{Call, NamedValue, Seed, Value, text_of};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Assets, Grants, Plugin, ToolSession};
use gymkhana_tests::component;

const SHOP: &str = "CREATE TABLE item (name TEXT, price REAL); INSERT INTO item VALUES ('pen', 1.5), ('ink', NULL);";
const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

fn option(name: &str, value: Value) -> NamedValue {
    NamedValue { name: name.to_owned(), value }
}

fn writable() -> Vec<NamedValue> {
    vec![option("read-only", Value::Flag(false))]
}

fn plugin() -> Plugin {
    Plugin::load(sandbox(), &component("sql"), &Grants([Capability::Assets].into())).expect("granted")
}

async fn open(plugin: &Plugin, setup: Option<&[u8]>, options: &[NamedValue], seed: u64) -> ToolSession {
    ToolSession::open(plugin, setup, options, Seed(seed)).await.expect("a session")
}

async fn call(session: &mut ToolSession, name: &str, arguments: &serde_json::Value) -> (String, bool) {
    let call = Call { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_string() };
    let answer = session.call(&call).await.expect("no trap");
    (text_of(&answer.content), answer.failed)
}

async fn query(session: &mut ToolSession, sql: &str) -> (String, bool) {
    call(session, "query", &serde_json::json!({ "sql": sql })).await
}

async fn works(session: &mut ToolSession, sql: &str) -> String {
    let (answer, failed) = query(session, sql).await;
    assert!(!failed, "{sql}: {answer}");
    answer
}

async fn fails(session: &mut ToolSession, sql: &str, words: &str) {
    let (answer, failed) = query(session, sql).await;
    assert!(failed && answer.contains(words), "{sql}: {answer}");
}

#[tokio::test]
async fn mounted_databases_are_queried_by_name() {
    // An SQLite file; the tool's snapshot contains one after settings and a name.
    let mut maker = open(&plugin(), Some(SHOP.as_bytes()), &[], 1).await;
    let snapshot = maker.snapshot().await.expect("a snapshot");
    let begins = snapshot.bytes.windows(16).position(|bytes| bytes == b"SQLite format 3\0").expect("an image");
    let length = u64::from_le_bytes(snapshot.bytes[begins - 8..begins].try_into().expect("eight bytes")) as usize;
    let file = &snapshot.bytes[begins..begins + length];

    let mount = |files: &[(&str, &[u8])]| {
        let files = files.iter().map(|(name, bytes)| ((*name).to_owned(), (*bytes).into()));
        plugin().with_assets(files.collect::<Assets>())
    };
    let towns = b"CREATE TABLE town (name TEXT); INSERT INTO town VALUES ('Olm');";
    let two = mount(&[("shop.sqlite", file), ("towns.sql", towns)]);
    let mut session = open(&two, None, &[], 1).await;
    let ask = |sql: &str, database: &str| serde_json::json!({"sql": sql, "database": database});
    let (answer, failed) = call(&mut session, "query", &ask("SELECT * FROM item", "shop")).await;
    assert_eq!((answer.as_str(), failed), ("name | price\n-----+------\npen  |   1.5\nink  |  NULL\n(2 rows)", false));
    assert!(!call(&mut session, "query", &ask("SELECT * FROM town", "towns")).await.1);
    let (apart, failed) = call(&mut session, "query", &ask("SELECT * FROM item", "towns")).await;
    assert!(failed && apart.contains("no such table: item"), "{apart}");
    fails(&mut session, "SELECT 1", "one of: shop, towns").await;
    let (schema, _) = call(&mut session, "schema", &serde_json::json!({})).await;
    assert!(schema.starts_with("-- database shop\nCREATE TABLE item") && schema.contains("-- database towns"));

    let refused = |files: &[(&str, &[u8])], words: &'static str| {
        let plugin = mount(files);
        async move {
            let error = ToolSession::open(&plugin, None, &[], Seed(1)).await.err().expect("refused");
            assert!(error.message.contains(words), "{error}");
        }
    };
    refused(&[("a.sql", towns), ("a.sqlite", file)], "two databases have the name `a`").await;
    refused(&[("a.sqlite", &file[..5000.min(file.len() / 2)])], "asset `a.sqlite` is not a database").await;
    refused(&[("a.sql", b"CREATE")], "asset `a.sql` is not a database: incomplete input").await;
    let ungranted = Plugin::load(sandbox(), &component("sql"), &Grants::default()).expect("it can do without");
    assert!(works(&mut open(&ungranted, None, &[], 1).await, "SELECT 6 * 7").await.contains("42"));
}

#[tokio::test]
async fn attacks_are_answered_and_the_session_continues() {
    let mut session = open(&plugin(), Some(SHOP.as_bytes()), &writable(), 1).await;
    for bomb in ["SELECT randomblob(1e9)", "SELECT zeroblob(1e9)", "SELECT printf('%.*c', 1e9, 'x')"] {
        fails(&mut session, bomb, "too big").await;
    }
    fails(&mut session, &format!("{NUMBERS} SELECT max(i) FROM n"), "stopped after 1000000 steps").await;
    fails(&mut session, &format!("{NUMBERS} SELECT a.i FROM n a, n b, n c ORDER BY 1"), "stopped after").await;
    // Each step creates a large value: limits count its cost, not only steps.
    let heavy = format!("{NUMBERS} SELECT sum(length(hex(zeroblob(30000 - i % 2)))) FROM n");
    fails(&mut session, &heavy, "stopped after 1000000 steps").await;
    fails(&mut session, &format!("{NUMBERS} SELECT i FROM n WHERE hex(zeroblob(30000 - i % 2)) LIKE '%1'"), "stopped")
        .await;
    let grow = format!("INSERT INTO item (name) {NUMBERS} SELECT hex(zeroblob(20000)) FROM n");
    fails(&mut session, &grow, "the database is full").await;
    for outside in [
        "ATTACH '/etc/passwd' AS p",
        "VACUUM INTO '/tmp/x'",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
    ] {
        fails(&mut session, outside, "").await;
    }
    fails(&mut session, "PRAGMA temp_store_directory = '/tmp'", "refused").await;
    fails(&mut session, &format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000)), "").await;
    fails(&mut session, &format!("SELECT {}1", "-".repeat(2) + &"~".repeat(50_000)), "").await;
    // Allowed counterparts.
    assert!(works(&mut session, "SELECT length(randomblob(1000)) + length(zeroblob(9))").await.contains("1009"));
    assert!(
        works(&mut session, &format!("{NUMBERS} SELECT max(i) FROM (SELECT i FROM n LIMIT 1000)"))
            .await
            .contains("1000")
    );
    assert!(
        works(&mut session, "INSERT INTO item (name) VALUES ('cap'); SELECT count(*) FROM item").await.contains('3')
    );
    assert!(works(&mut session, "PRAGMA table_info(item)").await.contains("price"));
    assert!(works(&mut session, "SELECT ((((1))))").await.contains('1'));
}

#[tokio::test]
async fn randomness_and_time_come_from_the_host() {
    let drawn = "SELECT random(), hex(randomblob(8)), strftime('%s', 'now')";
    let mut session = open(&plugin(), None, &[], 1).await;
    let first = works(&mut session, drawn).await;
    assert_ne!(works(&mut session, "SELECT random()").await, works(&mut session, "SELECT random()").await);
    assert_eq!(works(&mut open(&plugin(), None, &[], 1).await, drawn).await, first, "the same seed");
    assert_ne!(works(&mut open(&plugin(), None, &[], 2).await, drawn).await, first, "another seed");
    // The host's clock starts at the same time in every episode and never shows the machine's time.
    assert!(works(&mut session, "SELECT date('now') < '2026-01-01' AS before").await.contains('1'));
}

#[tokio::test]
async fn written_data_persists_and_is_restored() {
    let mut session = open(&plugin(), Some(SHOP.as_bytes()), &writable(), 1).await;
    works(&mut session, "UPDATE item SET price = 2 WHERE name = 'ink'; CREATE TABLE more (a)").await;
    let snapshot = session.snapshot().await.expect("a snapshot");
    works(&mut session, "DROP TABLE item").await;
    fails(&mut session, "SELECT * FROM item", "no such table: item").await;
    let view = session.final_view().await.expect("a view");
    let fact = |name: &str| view.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone()).expect("a fact");
    assert_eq!((fact("statements"), fact("errors")), (Value::Integer(4), Value::Integer(1)));
    assert_eq!(fact("error"), Value::Text("no such table: item".to_owned()));
    let mut again = ToolSession::restore(&plugin(), &snapshot, Seed(1)).await.expect("restored");
    assert!(works(&mut again, "SELECT sum(price) FROM item").await.contains("3.5"));
}
