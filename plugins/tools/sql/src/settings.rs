//! Options of a run, and the settings of a session, which snapshots store.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, PluginOptions};
use gymkhana_sqlite::{Access, Limits};

use crate::table::Look;

/// Options of a run.
#[derive(PluginOptions)]
pub struct Options {
    /// Script for the database `main`, run after the environment's set-up data
    #[option(default = "")]
    pub script: String,
    /// Reject statements that change data
    #[option(default = true)]
    pub read_only: bool,
    /// Maximum number of rows shown per statement
    #[option(default = 50, range = 1..=10_000)]
    rows: usize,
    /// Maximum length of a shown value, in characters
    #[option(default = 80, range = 4..=10_000)]
    cell_chars: usize,
    /// Maximum length of an answer, in bytes
    #[option(default = 8_000, range = 200..=1_000_000)]
    answer_bytes: usize,
    /// Maximum number of SQLite instructions per call
    #[option(default = 1_000_000, range = 1_000..=1_000_000_000)]
    steps: u64,
    /// Maximum length of a value, in bytes
    #[option(default = 65_536, range = 1_000..=100_000_000)]
    value_bytes: u32,
    /// Maximum size of a database, in bytes
    #[option(default = 4_194_304, range = 8_192..=1_000_000_000)]
    database_bytes: u64,
}

/// Options of a session, except the script, which runs only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether statements may change data.
    pub access: Access,
    /// Maximum number of rows shown per statement.
    pub rows: usize,
    /// Maximum length of a shown value, in characters.
    pub cell_chars: usize,
    /// Maximum length of an answer, in bytes.
    pub answer_bytes: usize,
    /// Limits of statements.
    pub limits: Limits,
}

impl Settings {
    /// Settings from the options of a run.
    pub fn of(options: &Options) -> Self {
        let &Options { read_only, rows, cell_chars, answer_bytes, steps, value_bytes, database_bytes, .. } = options;
        let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        let limits = Limits { steps, value_bytes, database_bytes };
        Self { access, rows, cell_chars, answer_bytes, limits }
    }

    /// Format of answers.
    pub fn look(&self) -> Look {
        Look { cell_chars: self.cell_chars, answer_bytes: self.answer_bytes }
    }

    /// Writes the settings into a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let Limits { steps, value_bytes, database_bytes } = self.limits;
        let writer = writer.flag(self.access == Access::ReadOnly).integer(self.rows as u64);
        let writer = writer.integer(self.cell_chars as u64).integer(self.answer_bytes as u64);
        writer.integer(steps).integer(u64::from(value_bytes)).integer(database_bytes)
    }

    /// Reads the settings from a snapshot.
    ///
    /// # Errors
    ///
    /// Invalid bytes.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let large = |_| Error::bad_snapshot("a size in the snapshot is too large");
        let access = if reader.flag()? { Access::ReadOnly } else { Access::ReadWrite };
        let mut size = || usize::try_from(reader.integer()?).map_err(large);
        let (rows, cell_chars, answer_bytes) = (size()?, size()?, size()?);
        let limits = Limits {
            steps: reader.integer()?,
            value_bytes: u32::try_from(reader.integer()?).map_err(large)?,
            database_bytes: reader.integer()?,
        };
        Ok(Self { access, rows, cell_chars, answer_bytes, limits })
    }
}
