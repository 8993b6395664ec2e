//! SQLite for plugins: databases in memory, statements of strangers, answers within limits.
//!
//! Nothing here touches a file: as a component SQLite is built without a file system (`files`), and natively, in tests,
//! the authorizer refuses what would open one. What a statement draws (`random()`) comes from the host's stream and what
//! it reads as the time from the host's clock, so that a replay answers the same.
//!
//! As a component it is C, compiled by what `.cargo/config.toml` names and `cargo xtask plugins` sets up.

#[cfg(target_family = "wasm")]
mod files;
mod guard;
mod meter;
mod open;
mod run;

use std::sync::Arc;

use rusqlite::{Connection, MAIN_DB};

use guard::Guard;

pub use guard::Access;
pub use run::{Failure, Keep, Outcome, Table};
pub use rusqlite::types::Value;

/// What begins every file of SQLite's.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// What the statements of one database may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Instructions of SQLite's machine that one call may take; large values that are made on the way count as more.
    pub steps: u64,
    /// Bytes of the longest text or blob.
    pub value_bytes: u32,
    /// Bytes that the database may grow to; one that is larger from the start does not grow.
    pub database_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 1_000_000, value_bytes: 65_536, database_bytes: 4 << 20 }
    }
}

/// One database in memory.
pub struct Database {
    connection: Connection,
    guard: Arc<Guard>,
    limits: Limits,
}

impl Database {
    /// Opens a database from a file of SQLite's or from a script; no bytes make an empty one. What the script may do is
    /// not bounded by `access`.
    ///
    /// # Errors
    ///
    /// If the bytes are neither, or the script fails: in words.
    pub fn open(bytes: &[u8], access: Access, limits: Limits) -> Result<Self, String> {
        let mut database = Self::empty(limits).map_err(|error| error.to_string())?;
        let is_file = bytes.starts_with(MAGIC);
        if is_file {
            database.fill(bytes)?;
        }
        database.arm().map_err(|error| error.to_string())?;
        if !is_file {
            let script = std::str::from_utf8(bytes)
                .map_err(|_| "it is neither a file of SQLite's nor a script in UTF-8".to_owned())?;
            database.load(script)?;
        }
        database.close_to(access).map_err(|error| error.to_string())?;
        Ok(database)
    }

    /// Runs a script of the owner's, with what only the owner may do.
    ///
    /// # Errors
    ///
    /// If a statement fails: in words.
    pub fn extend(&mut self, script: &str, access: Access) -> Result<(), String> {
        self.load(script)?;
        self.close_to(access).map_err(|error| error.to_string())
    }

    /// The whole database as a file of SQLite's; no bytes if nothing was ever written.
    ///
    /// # Errors
    ///
    /// If there is no memory for it: in words.
    pub fn image(&self) -> Result<Vec<u8>, String> {
        let pages: i64 = self
            .connection
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .map_err(|error| error.to_string())?;
        if pages == 0 {
            return Ok(vec![]);
        }
        self.connection.serialize(MAIN_DB).map(|image| image.to_vec()).map_err(|error| error.to_string())
    }

    /// What the statements may use.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

#[cfg(test)]
mod tests;
