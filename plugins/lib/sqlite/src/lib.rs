//! SQLite for plugins: in-memory databases, untrusted statements, bounded results.
//!
//! No file is accessed: in a component, SQLite has no file system (`files`); in native tests, the authorizer rejects
//! statements that would open one. `random()` draws from the host's stream and time functions read the host's clock, so
//! that a replay gives equal results.
//!
//! The C source is compiled for the component with the tools named in `.cargo/config.toml`, which `cargo xtask plugins`
//! installs.

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

/// First bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Limits of the statements of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of SQLite instructions per call; large intermediate values count extra.
    pub steps: u64,
    /// Maximum length of a text or blob, in bytes.
    pub value_bytes: u32,
    /// Maximum size of the database, in bytes; a larger initial database cannot grow.
    pub database_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 1_000_000, value_bytes: 65_536, database_bytes: 4 << 20 }
    }
}

/// In-memory database.
pub struct Database {
    connection: Connection,
    guard: Arc<Guard>,
    limits: Limits,
}

impl Database {
    /// Opens a database from an SQLite file or a script; empty bytes give an empty database. `access` does not limit
    /// the script.
    ///
    /// # Errors
    ///
    /// Message for bytes that are neither, or for a failing script.
    pub fn open(bytes: &[u8], access: Access, limits: Limits) -> Result<Self, String> {
        let mut database = Self::empty(limits).map_err(|error| error.to_string())?;
        let is_file = bytes.starts_with(MAGIC);
        if is_file {
            database.fill(bytes)?;
        }
        database.arm().map_err(|error| error.to_string())?;
        if !is_file {
            let script = std::str::from_utf8(bytes)
                .map_err(|_| "it is neither an SQLite file nor a script in UTF-8".to_owned())?;
            database.load(script)?;
        }
        database.close_to(access).map_err(|error| error.to_string())?;
        Ok(database)
    }

    /// Runs a script with the owner's permissions.
    ///
    /// # Errors
    ///
    /// Message of the first failing statement.
    pub fn extend(&mut self, script: &str, access: Access) -> Result<(), String> {
        self.load(script)?;
        self.close_to(access).map_err(|error| error.to_string())
    }

    /// Complete database as an SQLite file; empty if nothing was ever written.
    ///
    /// # Errors
    ///
    /// Message if memory is insufficient.
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

    /// Limits of the statements.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

#[cfg(test)]
mod tests;
