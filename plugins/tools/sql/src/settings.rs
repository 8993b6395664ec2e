//! Settings of a session, as read from options and stored in snapshots.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, Options};
use gymkhana_sqlite::{Access, Limits};

use crate::table::Look;

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
    /// Reads validated options.
    pub fn of(options: &Options) -> Self {
        let size = |name: &str| usize::try_from(options.integer(name)).unwrap_or(0);
        Self {
            access: if options.flag("read-only") { Access::ReadOnly } else { Access::ReadWrite },
            rows: size("rows"),
            cell_chars: size("cell-chars"),
            answer_bytes: size("answer-bytes"),
            limits: Limits {
                steps: size("steps") as u64,
                value_bytes: u32::try_from(size("value-bytes")).unwrap_or(u32::MAX),
                database_bytes: size("database-bytes") as u64,
            },
        }
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
