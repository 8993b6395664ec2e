//! The catalogue: one line per plugin, so that a search reads a single file.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::{IndexError, IndexRow, read_line};
use crate::{Kind, PluginName};

/// Schema of a catalogue row.
pub const CATALOGUE_SCHEMA: u32 = 1;

/// Size limit of a catalogue in bytes (256 MiB).
pub const MAX_CATALOGUE_BYTES: u64 = 256 << 20;

/// Search entry of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueRow {
    /// [`CATALOGUE_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Plugin name.
    pub name: PluginName,
    /// Newest version that is not yanked.
    pub version: Version,
    /// Kinds of that version.
    pub kinds: BTreeSet<Kind>,
    /// One-line description.
    pub description: String,
}

impl CatalogueRow {
    /// Builds the entry of a plugin; `None` if all versions are yanked.
    #[must_use]
    pub fn of(rows: &[IndexRow]) -> Option<Self> {
        let newest = rows.iter().filter(|row| !row.yanked).max_by(|one, other| one.version.cmp(&other.version))?;
        Some(Self {
            schema: CATALOGUE_SCHEMA,
            name: newest.name.clone(),
            version: newest.version.clone(),
            kinds: newest.kinds.clone(),
            description: newest.description.clone(),
        })
    }

    /// Returns true if the name, kinds and description contain every word, ignoring case.
    #[must_use]
    pub fn matches_all(&self, words: &[String]) -> bool {
        let kinds: Vec<String> = self.kinds.iter().map(ToString::to_string).collect();
        let text = format!("{} {} {}", self.name, kinds.join(" "), self.description).to_lowercase();
        words.iter().all(|word| text.contains(&word.to_lowercase()))
    }
}

/// Parses a catalogue and skips lines with other schemas.
///
/// # Errors
/// If the file is not UTF-8 or a line is damaged.
pub fn read_catalogue(file: impl AsRef<[u8]>) -> Result<Vec<CatalogueRow>, IndexError> {
    let file = std::str::from_utf8(file.as_ref())?;
    let read = |(index, text)| {
        read_line(text, CATALOGUE_SCHEMA).map_err(|source| IndexError::Line { line: index + 1, source })
    };
    file.lines().enumerate().map(read).filter_map(Result::transpose).collect()
}

/// Serializes a catalogue.
///
/// # Errors
/// If serialization fails, which does not happen for valid rows.
pub fn write_catalogue(rows: &[CatalogueRow]) -> Result<String, serde_json::Error> {
    rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n")).collect()
}
