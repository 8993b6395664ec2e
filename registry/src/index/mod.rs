//! The index: for each plugin one file of JSON lines, a line for each version.
//!
//! A line carries the number of its shape, and a reader steps over shapes that it cannot know: an older host goes on
//! with the versions that it understands. Files are named by their digest and never change; the checkpoint says which
//! one counts.

mod catalogue;
mod row;

use std::collections::BTreeMap;

pub use catalogue::{CATALOGUE_SCHEMA, CatalogueRow, MAX_CATALOGUE_BYTES, read_catalogue, write_catalogue};
pub use row::{ROW_SCHEMA, Row};

use semver::Version;
use serde::Deserialize;

use crate::PluginName;

/// The largest index file that is read, in bytes: 16 MiB, some ten thousand versions.
pub const MAX_INDEX_BYTES: u64 = 16 << 20;

/// An index file is refused. The caller says whose it is.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A line is not what it must be.
    #[error("line {line} of its index file is damaged; ask the registry's maintainer")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A line is of another plugin.
    #[error("line {line} of its index file is of plugin `{found}`; ask the registry's maintainer")]
    Stranger {
        /// Counted from 1.
        line: usize,
        /// The other plugin.
        found: PluginName,
    },
    /// A version stands twice.
    #[error("its index file has version {0} twice; ask the registry's maintainer")]
    Twice(Version),
    /// A version was taken out or changed.
    #[error("its index file {what} version {version}: a release is never changed; ask the registry's maintainer")]
    Rewritten {
        /// What happened to it.
        what: &'static str,
        /// The version.
        version: Version,
    },
}

/// Reads an index file: the versions that this host can understand, oldest first.
///
/// # Errors
/// If a line is damaged or of another plugin, or a version stands twice.
pub fn read_index(name: &PluginName, file: &str) -> Result<Vec<Row>, IndexError> {
    let mut rows: BTreeMap<Version, Row> = BTreeMap::new();
    for (index, text) in file.lines().enumerate() {
        let Some(row) =
            read_line::<Row>(text, ROW_SCHEMA).map_err(|source| IndexError::Line { line: index + 1, source })?
        else {
            continue;
        };
        if row.name != *name {
            return Err(IndexError::Stranger { line: index + 1, found: row.name });
        }
        if let Some(twice) = rows.insert(row.version.clone(), row) {
            return Err(IndexError::Twice(twice.version));
        }
    }
    Ok(rows.into_values().collect())
}

/// Writes an index file.
///
/// # Errors
/// Never in practice: rows can be written as JSON.
pub fn write_index(rows: &[Row]) -> Result<String, serde_json::Error> {
    rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n")).collect()
}

/// Sees that an index file goes on from an older one: every version is still there, and the same but for its yank.
///
/// # Errors
/// If a version was taken out or changed.
pub fn check_goes_on(old: &[Row], new: &[Row]) -> Result<(), IndexError> {
    let new: BTreeMap<&Version, &Row> = new.iter().map(|row| (&row.version, row)).collect();
    for row in old {
        let rewritten = |what| IndexError::Rewritten { what, version: row.version.clone() };
        let now = new.get(&row.version).ok_or_else(|| rewritten("no longer has"))?;
        if **now != (Row { yanked: now.yanked, ..row.clone() }) {
            return Err(rewritten("changed"));
        }
    }
    Ok(())
}

/// Reads one line, or steps over it if its schema is another.
fn read_line<'a, T: Deserialize<'a>>(text: &'a str, known: u32) -> Result<Option<T>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    match serde_json::from_str(text)? {
        Schema { schema } if schema == known => serde_json::from_str(text).map(Some),
        Schema { .. } => Ok(None),
    }
}
