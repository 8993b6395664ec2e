//! Runs the statements of one call, one after the other, and keeps what fits of their rows.

use fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Error, ErrorCode, Statement, ffi};

use crate::{Database, Value};

/// How much of a result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Rows of one statement.
    pub rows: usize,
    /// Bytes of all values of a call.
    pub bytes: usize,
}

/// What a statement gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Rows.
    Table(Table),
    /// No rows; so many were changed.
    Changed(u64),
}

/// The rows of one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The first rows.
    pub rows: Vec<Vec<Value>>,
    /// How many rows there are.
    pub total: u64,
    /// Whether all rows were counted; if not there are more than `total`.
    pub counted: bool,
}

/// A call that did not come to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What the statements before the failed one gave.
    pub done: Vec<Outcome>,
    /// Why, in SQLite's words where they are SQLite's.
    pub message: String,
}

impl Database {
    /// Runs statements. Whatever transaction they leave open is rolled back, so that no call depends on what an earlier
    /// one did not finish.
    ///
    /// # Errors
    ///
    /// At the first statement that fails; those before it stay done.
    pub fn run(&mut self, sql: &str, keep: Keep) -> Result<Vec<Outcome>, Failure> {
        self.guard.begin();
        // What SQLite would carry from call to call and a snapshot does not hold: its generator, which begins anew when
        // it is asked for no bytes, and the last row's number.
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

    /// Rolls an open transaction back; whether there was one.
    pub(crate) fn end_transaction(&self) -> bool {
        let open = !self.connection.is_autocommit();
        if open {
            // It fails where SQLite has rolled back already.
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
                // What was to be shown is there: that the rest cannot be counted is no mistake.
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

    /// An error in words for whoever wrote the statement.
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

/// A row's values, if there is room for them.
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

/// Text that is not UTF-8, which a mounted file may hold, is shown as well as it can be.
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

/// SQLite's own message, with the place in the statement where it has one.
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
