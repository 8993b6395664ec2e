//! Execution match: whether two queries give the same result, as far as the question requires.

use gymkhana_sqlite::{Access, Database, Keep, Limits, Outcome, Table, Value};

/// Limits of a judged query.
const KEEP: Keep = Keep { rows: 2_000, bytes: 1 << 20 };
/// Tolerance between two numbers, relative to the larger one or to 1.
const TOLERANCE: f64 = 1e-6;
/// Maximum number of steps of a query.
const LIMITS: Limits = Limits { steps: 300_000, value_bytes: 65_536, database_bytes: 1 << 20 };

/// Database created by a script, for queries only.
///
/// # Errors
///
/// Message if the script fails.
pub fn database(script: &str) -> Result<Database, String> {
    Database::open(script.as_bytes(), Access::ReadOnly, LIMITS)
}

/// Rows of one query.
///
/// # Errors
///
/// Message for the author of a query that fails, gives too much, or is not a single query.
pub fn ask(database: &mut Database, query: &str) -> Result<Table, String> {
    let mut done = database.run(query, KEEP).map_err(|failure| failure.message)?;
    match (done.pop(), done.is_empty()) {
        (Some(Outcome::Table(table)), true) if table.rows.len() as u64 == table.total && table.counted => Ok(table),
        (Some(Outcome::Table(_)), true) => Err(format!("the result is too large: at most {} rows", KEEP.rows)),
        (None, _) => Err("there is no query".to_owned()),
        _ => Err("write one query, and nothing else".to_owned()),
    }
}

/// Whether two results are equal. Duplicates count and column names do not; the order of rows counts if the question
/// requires one.
#[must_use]
pub fn alike(one: &Table, other: &Table, ordered: bool) -> bool {
    if one.columns.len() != other.columns.len() || one.total != other.total {
        return false;
    }
    if ordered {
        return one.rows.iter().zip(&other.rows).all(|(one, other)| same_row(one, other));
    }
    let mut left: Vec<&Vec<Value>> = other.rows.iter().collect();
    one.rows.iter().all(|row| match left.iter().position(|other| same_row(row, other)) {
        Some(place) => {
            left.swap_remove(place);
            true
        }
        None => false,
    })
}

fn same_row(one: &[Value], other: &[Value]) -> bool {
    one.iter().zip(other).all(|(one, other)| same(one, other))
}

fn same(one: &Value, other: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Real(real) => Some(*real),
        _ => None,
    };
    match (one, other) {
        (Value::Real(_), _) | (_, Value::Real(_)) => match (number(one), number(other)) {
            (Some(one), Some(other)) => {
                one == other || (one - other).abs() <= TOLERANCE * one.abs().max(other.abs()).max(1.0)
            }
            _ => false,
        },
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sql: &str) -> Table {
        ask(&mut database("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (2)").expect("a script"), sql).expect(sql)
    }

    fn refused(sql: &str) -> String {
        ask(&mut database("CREATE TABLE t (a)").expect("a script"), sql).expect_err(sql)
    }

    #[test]
    fn rows_are_compared_as_the_question_asks() {
        let [up, down] = [table("SELECT a FROM t ORDER BY a"), table("SELECT a FROM t ORDER BY a DESC")];
        assert!(alike(&up, &down, false) && !alike(&up, &down, true) && alike(&up, &up, true));
        assert!(!alike(&up, &table("SELECT DISTINCT a FROM t"), false), "duplicates count");
        assert!(!alike(&up, &table("SELECT a, a FROM t"), false));
        assert!(!alike(&table("SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 2"), &up, false));
        assert!(alike(&table("SELECT 0.1 + 0.2"), &table("SELECT 0.3 AS x"), false));
        assert!(alike(&table("SELECT 2.0"), &table("SELECT 2"), false));
        assert!(!alike(&table("SELECT 2"), &table("SELECT '2'"), false));
        assert!(!alike(&table("SELECT NULL"), &table("SELECT 0"), false));
        assert!(alike(&table("SELECT NULL"), &table("SELECT NULL"), true));
    }

    #[test]
    fn invalid_queries_are_explained() {
        assert!(refused("DELETE FROM t").contains("read-only"));
        assert!(refused("SELECT 1; SELECT 2").contains("one query"));
        assert!(refused("").contains("no query"));
        assert!(refused("SELECT b FROM t").contains("no such column: b"));
        let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
        assert!(refused(&format!("{numbers} SELECT i FROM n LIMIT 5000")).contains("too large"));
        assert!(refused(&format!("{numbers} SELECT max(i) FROM n")).contains("stopped after 300000 steps"));
    }
}
