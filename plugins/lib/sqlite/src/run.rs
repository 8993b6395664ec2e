//! Executes the statements of one call in order and keeps their rows within limits.

use fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Error, ErrorCode, Statement, ffi};

use crate::{Database, Value};

/// Limits of kept results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Maximum number of rows per statement.
    pub rows: usize,
    /// Maximum size of all values of a call, in bytes.
    pub bytes: usize,
}

/// Result of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Rows.
    Table(Table),
    /// Number of changed rows, for a statement without rows.
    Changed(u64),
}

/// Rows of one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Column names.
    pub columns: Vec<String>,
    /// First rows.
    pub rows: Vec<Vec<Value>>,
    /// Number of rows.
    pub total: u64,
    /// Whether all rows were counted; otherwise there are more than `total`.
    pub counted: bool,
}

/// Failed call.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Results of the statements before the failed one.
    pub done: Vec<Outcome>,
    /// Reason; errors of SQLite keep its message.
    pub message: String,
}

impl Database {
    /// Runs statements. An open transaction at the end is rolled back, so that calls do not depend on unfinished work
    /// of earlier ones.
    ///
    /// # Errors
    ///
    /// The first failing statement; earlier ones keep their effect.
    pub fn run(&mut self, sql: &str, keep: Keep) -> Result<Vec<Outcome>, Failure> {
        self.guard.begin();
        // Resets state that SQLite keeps between calls and a snapshot lacks: its generator, which restarts on a request
        // for no bytes, and the last row number.
        // SAFETY: no bytes are written, and the connection is open.
        unsafe {
            ffi::sqlite3_randomness(0, std::ptr::null_mut());
            ffi::sqlite3_set_last_insert_rowid(self.connection.handle(), 0);
        }
        let mut done = vec![];
        let result = self.each(sql, keep, &mut done);
        let open = self.end_transaction();
        match result {
            Err(message) => Err(Failure { done, message }),
            Ok(()) if open => Err(Failure {
                done,
                message: "the transaction was not ended and is rolled back; write BEGIN … COMMIT in one call"
                    .to_owned(),
            }),
            Ok(()) => Ok(done),
        }
    }

    /// Rolls back an open transaction; returns whether there was one.
    pub(crate) fn end_transaction(&self) -> bool {
        let open = !self.connection.is_autocommit();
        if open {
            // The command fails if SQLite has already rolled back.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        open
    }

    fn each(&self, sql: &str, mut keep: Keep, done: &mut Vec<Outcome>) -> Result<(), String> {
        let mut statements = Batch::new(&self.connection, sql);
        loop {
            let statement = statements.next().map_err(|error| self.explain(&error))?;
            let Some(mut statement) = statement else { return Ok(()) };
            done.push(self.one(&mut statement, &mut keep)?);
        }
    }

    fn one(&self, statement: &mut Statement<'_>, keep: &mut Keep) -> Result<Outcome, String> {
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let width = columns.len();
        let before = self.connection.total_changes();
        let mut table = Table { columns, rows: vec![], total: 0, counted: true };
        let mut rows = statement.raw_query();
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let room = table.rows.len() as u64 == table.total && table.rows.len() < keep.rows;
                    if let Some(values) = room.then(|| values(row, width, keep)).transpose()?.flatten() {
                        table.rows.push(values);
                    }
                    table.total += 1;
                }
                Ok(None) => break,
                // The visible rows are complete, so a failure to count the rest is not an error.
                Err(error) if interrupted(&error) && table.total > table.rows.len() as u64 => {
                    table.counted = false;
                    break;
                }
                Err(error) => return Err(self.explain(&error)),
            }
        }
        drop(rows);
        Ok(match width {
            0 => Outcome::Changed(self.connection.total_changes() - before),
            _ => Outcome::Table(table),
        })
    }

    /// Error message for the author of the statement.
    fn explain(&self, error: &Error) -> String {
        match error.sqlite_error_code() {
            Some(ErrorCode::AuthorizationForStatementDenied) => {
                self.guard.refused().unwrap_or_else(|| error.to_string())
            }
            Some(ErrorCode::OperationInterrupted) => {
                format!("stopped after {} steps; narrow the query", self.limits.steps)
            }
            Some(ErrorCode::TooBig) => {
                format!("string or blob too big: a value may have {} bytes", self.limits.value_bytes)
            }
            Some(ErrorCode::DiskFull) => {
                format!("the database is full: it may grow to {} bytes", self.limits.database_bytes)
            }
            _ => message(error),
        }
    }
}

/// Values of a row, if they fit.
fn values(row: &rusqlite::Row<'_>, width: usize, keep: &mut Keep) -> Result<Option<Vec<Value>>, String> {
    let cells: Vec<ValueRef<'_>> =
        (0..width).map(|column| row.get_ref(column)).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let bytes: usize = cells.iter().map(size).sum();
    if bytes > keep.bytes {
        keep.bytes = 0;
        return Ok(None);
    }
    keep.bytes -= bytes;
    Ok(Some(cells.into_iter().map(owned).collect()))
}

fn size(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() + size_of::<Value>(),
        _ => size_of::<Value>(),
    }
}

/// Mounted files may contain text that is not UTF-8; invalid bytes are replaced.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::Integer(integer),
        ValueRef::Real(real) => Value::Real(real),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
    }
}

fn interrupted(error: &Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

/// SQLite's message, with the position in the statement if available.
fn message(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(message)) => message.clone(),
        Error::SqlInputError { msg, sql, offset, .. } => {
            let rest = usize::try_from(*offset).ok().and_then(|offset| sql.get(offset..)).unwrap_or_default();
            let place: String = rest.chars().take(24).collect();
            let place = place.split(['\n', '`']).next().unwrap_or_default().trim();
            if place.is_empty() { msg.clone() } else { format!("{msg} (at `{place}`)") }
        }
        other => other.to_string(),
    }
}
