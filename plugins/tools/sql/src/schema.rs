//! Schema of a database: the statements that create its tables, with row counts.

use gymkhana_sqlite::{Database, Keep, Outcome, Value};

/// Maximum number of tables.
const MOST: usize = 500;

/// All tables and views, or the one with this name.
///
/// # Errors
///
/// Message that lists the tables, for an unknown name.
pub fn show(database: &mut Database, table: Option<&str>) -> Result<String, String> {
    let sql =
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC, name";
    let entries = rows(database, sql)?;
    let text = |row: &[Value], column: usize| match &row[column] {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let chosen: Vec<&Vec<Value>> =
        entries.iter().filter(|row| table.is_none_or(|table| text(row, 2).eq_ignore_ascii_case(table))).collect();
    if chosen.is_empty() {
        let names: Vec<String> = entries.iter().filter(|row| text(row, 0) != "index").map(|row| text(row, 1)).collect();
        return match table {
            Some(table) => Err(format!("there is no table `{table}`; there are: {}", names.join(", "))),
            None => Ok("there are no tables".to_owned()),
        };
    }
    let mut shown = vec![];
    for row in chosen {
        let counted = if text(row, 0) == "table" { count(database, &text(row, 1)) } else { String::new() };
        shown.push(format!("{};{counted}", text(row, 3)));
    }
    Ok(shown.join("\n"))
}

/// Comment with the number of rows of a table, if they can be counted.
fn count(database: &mut Database, table: &str) -> String {
    let sql = format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\""));
    match rows(database, &sql).ok().and_then(|rows| rows.into_iter().next()).as_deref() {
        Some([Value::Integer(1)]) => " -- 1 row".to_owned(),
        Some([Value::Integer(count)]) => format!(" -- {count} rows"),
        _ => String::new(),
    }
}

fn rows(database: &mut Database, sql: &str) -> Result<Vec<Vec<Value>>, String> {
    let done = database.run(sql, Keep { rows: MOST, bytes: crate::KEPT }).map_err(|failure| failure.message)?;
    Ok(match done.into_iter().next() {
        Some(Outcome::Table(table)) => table.rows,
        _ => vec![],
    })
}
