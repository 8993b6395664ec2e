//! The index: one JSON-lines file per plugin, one line per version.
//!
//! Each line carries a schema number. A reader skips lines with other schemas, so an older host still sees the versions
//! that it understands. Index files are immutable and named by digest; the checkpoint references the current one.

mod catalogue;
mod row;

use std::collections::BTreeMap;

pub use catalogue::{CATALOGUE_SCHEMA, CatalogueRow, MAX_CATALOGUE_BYTES, read_catalogue, write_catalogue};
pub use row::{INDEX_ROW_SCHEMA, IndexRow};

use semver::Version;
use serde::Deserialize;

use crate::PluginName;

/// Size limit of an index file in bytes (16 MiB, about ten thousand versions).
pub const MAX_INDEX_BYTES: u64 = 16 << 20;

/// An index file was rejected. The caller names the plugin and the registry.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Malformed line.
    #[error("line {line} of the index file is damaged\nhint: report this to the registry's maintainer")]
    Line {
        /// Line number, starting at 1.
        line: usize,
        /// JSON error.
        source: serde_json::Error,
    },
    /// Line of another plugin.
    #[error("line {line} of the index file describes plugin `{found}`\nhint: report this to the registry's maintainer")]
    OtherPlugin {
        /// Line number, starting at 1.
        line: usize,
        /// Plugin named in the line.
        found: PluginName,
    },
    /// Duplicate version.
    #[error("the index file lists version {0} twice\nhint: report this to the registry's maintainer")]
    Duplicate(Version),
    /// Not UTF-8.
    #[error("the index file is not UTF-8\nhint: report this to the registry's maintainer")]
    NotUtf8(#[from] std::str::Utf8Error),
    /// A version was removed or modified.
    #[error(
        "the index file {change} version {version}, but releases are immutable\nhint: report this to the registry's maintainer"
    )]
    Rewritten {
        /// `removed` or `modified`.
        change: &'static str,
        /// Version.
        version: Version,
    },
}

/// Parses an index file: the versions with a known schema, oldest first.
///
/// # Errors
/// If the file is not UTF-8, a line is damaged or describes another plugin, or a version occurs twice.
pub fn read_index(name: &PluginName, file: impl AsRef<[u8]>) -> Result<Vec<IndexRow>, IndexError> {
    let file = std::str::from_utf8(file.as_ref())?;
    let mut rows: BTreeMap<Version, IndexRow> = BTreeMap::new();
    for (index, text) in file.lines().enumerate() {
        let Some(row) = read_line::<IndexRow>(text, INDEX_ROW_SCHEMA)
            .map_err(|source| IndexError::Line { line: index + 1, source })?
        else {
            continue;
        };
        if row.name != *name {
            return Err(IndexError::OtherPlugin { line: index + 1, found: row.name });
        }
        if let Some(duplicate) = rows.insert(row.version.clone(), row) {
            return Err(IndexError::Duplicate(duplicate.version));
        }
    }
    Ok(rows.into_values().collect())
}

/// Serializes an index file.
///
/// # Errors
/// If serialization fails, which does not happen for valid rows.
pub fn write_index(rows: &[IndexRow]) -> Result<String, serde_json::Error> {
    rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n")).collect()
}

/// Checks that an index file extends an older one: every old version is still listed, unchanged except for `yanked`.
///
/// # Errors
/// If a version was removed or modified.
pub fn check_append_only(old: &[IndexRow], new: &[IndexRow]) -> Result<(), IndexError> {
    let new: BTreeMap<&Version, &IndexRow> = new.iter().map(|row| (&row.version, row)).collect();
    for row in old {
        let rewritten = |change| IndexError::Rewritten { change, version: row.version.clone() };
        let now = new.get(&row.version).ok_or_else(|| rewritten("removed"))?;
        if **now != (IndexRow { yanked: now.yanked, ..row.clone() }) {
            return Err(rewritten("modified"));
        }
    }
    Ok(())
}

/// Parses one line; `None` if it has another schema.
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
