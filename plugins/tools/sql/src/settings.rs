//! What the options say, in the form that a session keeps and a snapshot holds.

use gymkhana_sdk::snapshot::{Reader, Writer};
use gymkhana_sdk::{Error, Options};
use gymkhana_sqlite::{Access, Limits};

use crate::table::Look;

/// The options of a session, but for its script, which has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether statements may change something.
    pub access: Access,
    /// Rows that a statement shows.
    pub rows: usize,
    /// Characters shown of a value.
    pub cell_chars: usize,
    /// Bytes of an answer.
    pub answer_bytes: usize,
    /// What statements may use.
    pub limits: Limits,
}

impl Settings {
    /// Reads checked options.
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

    /// How answers look.
    pub fn look(&self) -> Look {
        Look { cell_chars: self.cell_chars, answer_bytes: self.answer_bytes }
    }

    /// Writes them into a snapshot.
    pub fn write(&self, writer: Writer) -> Writer {
        let Limits { steps, value_bytes, database_bytes } = self.limits;
        let writer = writer.flag(self.access == Access::ReadOnly).integer(self.rows as u64);
        let writer = writer.integer(self.cell_chars as u64).integer(self.answer_bytes as u64);
        writer.integer(steps).integer(u64::from(value_bytes)).integer(database_bytes)
    }

    /// Reads them from a snapshot.
    ///
    /// # Errors
    ///
    /// If it holds others.
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
