//! The catalogue: one line for each plugin, so that a search reads one file and not ten thousand.

use std::collections::BTreeSet;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::{IndexError, Row, read_line};
use crate::{Kind, PluginName};

/// The number of a line's shape.
pub const CATALOGUE_SCHEMA: u32 = 1;

/// The largest catalogue that is read, in bytes: 256 MiB.
pub const MAX_CATALOGUE_BYTES: u64 = 256 << 20;

/// A plugin, as a search shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueRow {
    /// [`CATALOGUE_SCHEMA`] when it was written.
    pub schema: u32,
    /// The plugin.
    pub name: PluginName,
    /// Its newest version that is not yanked.
    pub version: Version,
    /// What that offers.
    pub kinds: BTreeSet<Kind>,
    /// Its line for people.
    pub description: String,
}

impl CatalogueRow {
    /// The line of a plugin; none if all its versions are yanked.
    #[must_use]
    pub fn of(rows: &[Row]) -> Option<Self> {
        let newest = rows.iter().filter(|row| !row.yanked).max_by(|one, other| one.version.cmp(&other.version))?;
        Some(Self {
            schema: CATALOGUE_SCHEMA,
            name: newest.name.clone(),
            version: newest.version.clone(),
            kinds: newest.kinds.clone(),
            description: newest.description.clone(),
        })
    }

    /// Whether every one of these words stands in its name, its kinds or its description, in any case.
    #[must_use]
    pub fn has_all(&self, words: &[String]) -> bool {
        let kinds: Vec<String> = self.kinds.iter().map(ToString::to_string).collect();
        let text = format!("{} {} {}", self.name, kinds.join(" "), self.description).to_lowercase();
        words.iter().all(|word| text.contains(&word.to_lowercase()))
    }
}

/// Reads a catalogue, without the lines of other shapes.
///
/// # Errors
/// If a line is damaged.
pub fn read_catalogue(file: &str) -> Result<Vec<CatalogueRow>, IndexError> {
    let read = |(index, text)| {
        read_line(text, CATALOGUE_SCHEMA).map_err(|source| IndexError::Line { line: index + 1, source })
    };
    file.lines().enumerate().map(read).filter_map(Result::transpose).collect()
}

/// Writes a catalogue.
///
/// # Errors
/// Never in practice: its lines can be written as JSON.
pub fn write_catalogue(rows: &[CatalogueRow]) -> Result<String, serde_json::Error> {
    rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n")).collect()
}
