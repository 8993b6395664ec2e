//! Opening of databases: SQLite's own limits, and replacements of functions with outside effects.

use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use gymkhana_sdk::random;
use rusqlite::config::DbConfig;
use rusqlite::ffi;
use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::AuthContext;
use rusqlite::limits::Limit;
use rusqlite::serialize::OwnedData;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, MAIN_DB};

use crate::guard::{Access, Guard};
use crate::{Database, Limits, meter};

/// Number of SQLite instructions between two checks of the limit.
const STRIDE: i32 = 500;

/// Fixed limits of SQLite. Parsing is recursive, so the stack bounds nesting; pattern matching does not check the step
/// limit.
const FIXED: [(Limit, i32); 10] = [
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_COLUMN, 200),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (Limit::SQLITE_LIMIT_VDBE_OP, 100_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 64),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 16),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

impl Database {
    /// Database without a table. The authorizer is installed later, because loading a file is an ATTACH.
    pub(crate) fn empty(limits: Limits) -> Result<Self, Error> {
        meter::install();
        let connection = Connection::open_in_memory()?;
        let guard = Arc::new(Guard::new(limits.steps));
        for (limit, value) in FIXED {
            connection.set_limit(limit, value)?;
        }
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.execute_batch("PRAGMA temp_store = MEMORY;")?;
        add_functions(&connection, limits.value_bytes)?;
        let watching = Arc::clone(&guard);
        connection.progress_handler(STRIDE, Some(move || watching.spend(STRIDE as u64)))?;
        Ok(Self { connection, guard, limits })
    }

    /// Loads an SQLite file into an empty database.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.connection
            .deserialize(MAIN_DB, copied(bytes)?, false)
            .and_then(|()| self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))
            .map_err(|error| format!("it is not a valid SQLite file ({error})"))
    }

    /// Installs the authorizer for all following statements.
    pub(crate) fn arm(&self) -> Result<(), Error> {
        let deciding = Arc::clone(&self.guard);
        self.connection.authorizer(Some(move |context: AuthContext<'_>| deciding.decide(&context.action)))
    }

    /// Runs the owner's script in one call. Compiling its statements one by one would copy the rest of the script each
    /// time.
    pub(crate) fn load(&mut self, script: &str) -> Result<(), String> {
        self.guard.enter(Access::Owner);
        self.connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, i32::MAX).map_err(|error| error.to_string())?;
        let script = CString::new(script).map_err(|_| "the script contains a zero byte".to_owned())?;
        // SAFETY: the connection is open and the script ends with a zero byte; rows and messages are not requested.
        let code = unsafe {
            let connection = self.connection.handle();
            ffi::sqlite3_exec(connection, script.as_ptr(), None, ptr::null_mut(), ptr::null_mut())
        };
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the connection is open, and its message is copied before any other call.
        let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.connection.handle())) };
        Err(self.guard.refused().unwrap_or_else(|| message.to_string_lossy().into_owned()))
    }

    /// Ends the owner's permissions.
    pub(crate) fn close_to(&mut self, access: Access) -> Result<(), Error> {
        self.end_transaction();
        self.guard.enter(Access::Owner);
        let page: u32 = self.connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = (self.limits.database_bytes / u64::from(page.max(1))).max(1);
        self.connection.execute_batch(&format!("PRAGMA foreign_keys = ON; PRAGMA max_page_count = {pages};"))?;
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        let longest = i32::try_from(self.limits.value_bytes).unwrap_or(i32::MAX);
        self.connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest)?;
        self.connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, FIXED[0].1)?;
        self.guard.enter(access);
        Ok(())
    }
}

/// Copy in memory that SQLite owns and frees.
fn copied(bytes: &[u8]) -> Result<OwnedData, String> {
    // SAFETY: SQLite is asked for as many bytes as are copied, and may return null.
    let memory = unsafe { ffi::sqlite3_malloc64(bytes.len() as u64) }.cast::<u8>();
    let memory = NonNull::new(memory).ok_or("memory is insufficient")?;
    // SAFETY: both buffers have this length, and one was allocated just now.
    unsafe { memory.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    // SAFETY: it was allocated by `sqlite3_malloc64`.
    Ok(unsafe { OwnedData::from_raw_nonnull(memory, bytes.len()) })
}

/// `random()` and `randomblob(n)` from the host's stream; SQLite's own generator is shared by the process.
fn add_functions(connection: &Connection, longest: u32) -> Result<(), Error> {
    let flags = FunctionFlags::SQLITE_UTF8;
    connection.create_scalar_function("random", 0, flags, |_| Ok(random::next() as i64))?;
    connection.create_scalar_function("randomblob", 1, flags, move |context| {
        // As in SQLite, the length is at least one byte.
        let length = match context.get_raw(0) {
            ValueRef::Integer(length) => length.max(1) as u64,
            ValueRef::Real(length) => length.max(1.0) as u64,
            _ => 1,
        };
        if length > u64::from(longest) {
            return Err(Error::UserFunctionError("string or blob too big".into()));
        }
        let words = std::iter::repeat_with(random::next).flat_map(u64::to_le_bytes);
        Ok(words.take(length as usize).collect::<Vec<u8>>())
    })
}
