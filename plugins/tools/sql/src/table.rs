//! Rows as a text table: aligned columns under a header, within limits, followed by the row count.

use std::fmt::Write as _;

use gymkhana_sqlite::{Outcome, Table, Value};

/// Number of bytes shown of a blob.
const BLOB: usize = 16;

/// Format of answers.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Maximum length of a shown value, in characters.
    pub cell_chars: usize,
    /// Maximum length of an answer, in bytes.
    pub answer_bytes: usize,
}

/// Results of statements, one below the other, within the length limit.
pub fn show(outcomes: &[Outcome], look: Look) -> String {
    let mut shown = String::new();
    for (place, outcome) in outcomes.iter().enumerate() {
        if place > 0 {
            shown.push_str("\n\n");
        }
        let room = look.answer_bytes.saturating_sub(shown.len());
        let text = match outcome {
            Outcome::Changed(1) => "done, 1 row changed".to_owned(),
            Outcome::Changed(count) => format!("done, {count} rows changed"),
            Outcome::Table(table) => lay_out(table, look.cell_chars, room),
        };
        if text.len() > room {
            let left = outcomes.len() - place;
            shown.push_str(&cut(&text, room));
            let _ = write!(shown, "\n… the answer is full; {} more results", left - 1);
            break;
        }
        shown.push_str(&text);
    }
    shown
}

/// Start of a text within a length limit, with a note about the remaining bytes.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n… {} more bytes", &text[..end], text.len() - end)
}

/// Kept rows as JSON: `{"columns": […], "rows": […], "total": …}`, with blobs as hexadecimal text.
pub fn json(table: &Table) -> String {
    let cell = |value: &Value| match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(integer) => (*integer).into(),
        Value::Real(real) => (*real).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Blob(blob) => hexadecimal(blob, blob.len()).into(),
    };
    let rows: Vec<Vec<serde_json::Value>> = table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    serde_json::json!({"columns": table.columns, "rows": rows, "total": table.total}).to_string()
}

fn lay_out(table: &Table, cell_chars: usize, room: usize) -> String {
    let header: Vec<String> = table.columns.iter().map(|name| shortened(&escaped(name), cell_chars)).collect();
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|row| row.iter().map(|value| cell(value, cell_chars)).collect()).collect();
    let columns: Vec<Column> = (0..header.len())
        .map(|place| Column {
            width: rows.iter().chain([&header]).map(|row| row[place].chars().count()).max().unwrap_or(0),
            right: is_number(table, place),
        })
        .collect();
    let rule = columns.iter().map(|column| "-".repeat(column.width)).collect::<Vec<_>>().join("-+-");
    let mut text = format!("{}\n{rule}\n", line(&header, &columns));
    // Space for the two lines with the row counts.
    let reserved = 64;
    let mut fitting = 0;
    for row in &rows {
        let next = line(row, &columns);
        if text.len() + next.len() + reserved > room {
            break;
        }
        text.push_str(&next);
        text.push('\n');
        fitting += 1;
    }
    text.push_str(&counted(table, fitting));
    text
}

/// Line with the number of rows and of hidden rows.
fn counted(table: &Table, shown: u64) -> String {
    let rows = |count: u64| if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
    let left = table.total - shown;
    match (left, table.counted) {
        (0, true) => format!("({})", rows(table.total)),
        (1, true) => format!("… 1 more row\n({})", rows(table.total)),
        (_, true) => format!("… {left} more rows\n({})", rows(table.total)),
        (_, false) => format!("… more than {left} more rows\n(more than {}; not all were counted)", rows(table.total)),
    }
}

struct Column {
    width: usize,
    right: bool,
}

/// Whether all non-null values of a column are numbers, and at least one exists.
fn is_number(table: &Table, place: usize) -> bool {
    let mut values = table.rows.iter().map(|row| &row[place]).filter(|value| **value != Value::Null).peekable();
    values.peek().is_some() && values.all(|value| matches!(value, Value::Integer(_) | Value::Real(_)))
}

fn line(cells: &[String], columns: &[Column]) -> String {
    let padded = cells.iter().zip(columns).map(|(cell, column)| {
        let padding = " ".repeat(column.width - cell.chars().count());
        if column.right { format!("{padding}{cell}") } else { format!("{cell}{padding}") }
    });
    padded.collect::<Vec<_>>().join(" | ").trim_end().to_owned()
}

/// Text of a value. A text that could be confused with NULL is quoted.
fn cell(value: &Value, most: usize) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) if real.is_infinite() => if *real > 0.0 { "Inf" } else { "-Inf" }.to_owned(),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) if text.is_empty() || text == "NULL" => format!("'{text}'"),
        Value::Text(text) => shortened(&escaped(text), most),
        Value::Blob(blob) => {
            let more = if blob.len() > BLOB { "…" } else { "" };
            format!("x'{}{more}' ({} bytes)", hexadecimal(blob, BLOB), blob.len())
        }
    }
}

fn hexadecimal(bytes: &[u8], most: usize) -> String {
    bytes.iter().take(most).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Text on one line, with Rust's escapes for control characters.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut line, letter| {
        if letter.is_control() {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
        line
    })
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
