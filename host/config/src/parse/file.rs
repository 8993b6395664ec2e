//! A run file from its text and back: overrides, defaults, types and bounds, and the place of a mistake.

use std::path::Path;

use crate::error::RunFileError;
use crate::parse::mismatch::Mismatch;
use crate::parse::refusal::RunFileRefusal;
use crate::parse::{defaults, from_table, from_text, hint, overlay, table_with_rules};
use crate::run_file::{RunFile, only_one_form};
use crate::sections::{plugins_as_tables, write_out_sources};

impl RunFile {
    /// Reads a run file and overlays `--set key=value`.
    ///
    /// # Errors
    /// If the file cannot be read, is malformed or contradicts itself.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, RunFileError> {
        let text = gymkhana_registry::read_argument(path);
        let text = text.map_err(|source| RunFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, &path.display().to_string(), sets)
    }

    /// Parses the text of a run file; `origin` names it in messages.
    ///
    /// # Errors
    /// If the text is malformed or contradicts itself.
    pub fn parse(text: &str, origin: &str, sets: &[String]) -> Result<Self, RunFileError> {
        let malformed = |error: &toml::de::Error| RunFileError::Malformed {
            origin: origin.to_owned(),
            message: hint::explain(&error.to_string()),
        };
        let mut table: toml::Table = toml::from_str(text).map_err(|error| malformed(&error))?;
        plugins_as_tables(&mut table);
        let overlaid = |sets: &[String]| {
            let mut table = table.clone();
            sets.iter().try_for_each(|set| overlay::apply(&mut table, set)).map(|()| table)
        };
        let with = |sets: &[String]| {
            overlaid(sets).map(|mut table| {
                defaults::write_out(&mut table);
                write_out_sources(&mut table);
                match Mismatch::in_run_file(&table) {
                    Some(mismatch) => Err(RunFileRefusal::Value(Box::new(mismatch))),
                    None => from_table::<Self>(table.clone()).map_err(|error| RunFileRefusal::of_parser(error, &table)),
                }
            })
        };
        only_one_form(&overlaid(sets)?)?;
        let refusal = match with(sets)? {
            Ok((rules, file)) => return Self { rules, ..file }.checked(),
            Err(refusal) => refusal,
        };
        // Blames the first `--set` whose addition causes this refusal, or the file if it is refused without any.
        let mut blamed = sets.len();
        while blamed > 0 && with(&sets[..blamed - 1])?.is_err_and(|before| before.is_like(&refusal)) {
            blamed -= 1;
        }
        let table = overlaid(&sets[..blamed])?;
        Err(match (sets[..blamed].last(), refusal) {
            (Some(set), refusal) => RunFileError::Set { text: set.clone(), reason: refusal.in_set(&table) },
            // An error from the text, not from the table, shows the line.
            (None, RunFileRefusal::Parser(error)) => malformed(&from_text::<Self>(text).err().unwrap_or(error)),
            (None, refusal) => {
                RunFileError::Malformed { origin: origin.to_owned(), message: refusal.in_file(text, &table) }
            }
        })
    }

    /// The run file as parsed, with all defaults written out.
    ///
    /// # Errors
    /// Never for a parsed file: every section is representable in TOML.
    pub fn resolved(&self) -> Result<String, toml::ser::Error> {
        let mut table = table_with_rules(&self.rules, self)?;
        if !self.environments.is_empty() {
            table.remove("environment");
        }
        toml::to_string_pretty(&table)
    }
}
