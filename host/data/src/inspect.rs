//! Describes a source before it is imported.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use gymkhana_rows::MAX_SPLITS;
use serde_json::Value as Json;

use crate::duplicates::{Duplicates, TaskOccurrence};
use crate::error::{DataError, SourceLocation};
use crate::import::{ImportOptions, check_columns, task};
use crate::remarks::Remarks;
use crate::shape::RecordShape;
use crate::source::records;

/// Bad rows that a description lists.
const LISTED: usize = 10;

/// Description of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInspection {
    /// Columns in the order of their first occurrence.
    pub columns: Vec<SourceColumn>,
    /// Shape of the first row that has one.
    pub shape: Option<RecordShape>,
    /// Number of records.
    pub rows: u64,
    /// Tasks by split.
    pub splits: BTreeMap<String, u64>,
    /// Lengths of the tasks in the caller's unit.
    pub lengths: Option<Lengths>,
    /// Tasks that are equal to an earlier one of their split.
    pub repeated: u64,
    /// Tasks that are equal to one of another split.
    pub overlapping: u64,
    /// Number of records that an import would refuse, without those that overlap.
    pub bad: u64,
    /// The first of these.
    pub examples: Vec<(SourceLocation, String)>,
    /// Remarks on the source.
    pub remarks: Remarks,
}

/// Column of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceColumn {
    /// Name.
    pub name: String,
    /// Kinds of its values.
    pub kinds: Vec<&'static str>,
    /// Number of records with a value that is not `null`.
    pub filled: u64,
}

/// Lengths of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Shortest.
    pub least: u64,
    /// Half of the tasks are not longer.
    pub median: u64,
    /// 99 of 100 tasks are not longer.
    pub percentile_99: u64,
    /// Longest.
    pub most: u64,
}

/// Describes a source as an import with these options would read it. `length` measures the text of a message, or says why
/// it cannot.
///
/// # Errors
/// If a file cannot be read, or if the source is empty.
pub fn inspect(
    source: &Path,
    options: &ImportOptions,
    length: impl Fn(&str) -> Result<u64, String>,
    mut progress: impl FnMut(u64),
) -> Result<SourceInspection, DataError> {
    let source_records = records(source)?;
    let mut found = SourceInspection {
        columns: Vec::new(),
        shape: None,
        rows: 0,
        splits: BTreeMap::new(),
        lengths: None,
        repeated: 0,
        overlapping: 0,
        bad: 0,
        examples: Vec::new(),
        remarks: Remarks::on(&source_records),
    };
    let (mut duplicates, mut lengths, mut places) = (Duplicates::default(), Vec::new(), HashMap::new());
    for record in source_records.records {
        let record = record?;
        found.remarks.note(&record);
        if found.rows == 0 {
            check_columns(&record, &options.mapping)?;
        }
        found.rows += 1;
        progress(found.rows);
        if let Ok(columns) = &record.columns {
            columns.iter().for_each(|(name, value)| found.count(name, value, &mut places));
            found.shape = found.shape.or_else(|| RecordShape::of(columns));
        }
        let place = record.place.clone();
        let measured = task(record, options).and_then(|(split, row)| {
            if found.splits.len() == MAX_SPLITS && !found.splits.contains_key(&split) {
                return Err(format!("split `{split}` is one more than the {MAX_SPLITS} of a data set"));
            }
            let total = row.messages.iter().map(|message| length(&message.content)).sum::<Result<u64, String>>()?;
            Ok((split, row, total))
        });
        match measured {
            Ok((split, row, length)) => {
                match duplicates.note(&row, &split, place.number) {
                    TaskOccurrence::New => {}
                    TaskOccurrence::Again => found.repeated += 1,
                    TaskOccurrence::Elsewhere(..) => found.overlapping += 1,
                }
                lengths.push(length);
                found.remarks.note_answer(&row);
                *found.splits.entry(split).or_default() += 1;
            }
            Err(why) => {
                found.bad += 1;
                if found.examples.len() < LISTED {
                    found.examples.push((place, why));
                }
            }
        }
    }
    found.lengths = Lengths::of(lengths);
    if found.rows == 0 { Err(DataError::NoRows(source.to_owned())) } else { Ok(found) }
}

impl SourceInspection {
    /// Counts a value. `places` has the place of each column in their list.
    fn count(&mut self, name: &str, value: &Json, places: &mut HashMap<String, usize>) {
        let kind = match value {
            Json::Null => return,
            Json::Bool(_) => "flag",
            Json::Number(_) => "number",
            Json::String(_) => "text",
            Json::Array(_) => "list",
            Json::Object(_) => "object",
        };
        let place = places.get(name).copied().unwrap_or_else(|| {
            self.columns.push(SourceColumn { name: name.to_owned(), kinds: Vec::new(), filled: 0 });
            places.insert(name.to_owned(), self.columns.len() - 1);
            self.columns.len() - 1
        });
        let column = &mut self.columns[place];
        column.filled += 1;
        if !column.kinds.contains(&kind) {
            column.kinds.push(kind);
        }
    }
}

impl Lengths {
    fn of(mut lengths: Vec<u64>) -> Option<Self> {
        lengths.sort_unstable();
        let at = |percent: usize| lengths.get((lengths.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { least: at(0)?, median: at(50)?, percentile_99: at(99)?, most: at(100)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let lengths = Lengths::of((1..=200).rev().collect()).expect("values");
        assert_eq!(lengths, Lengths { least: 1, median: 100, percentile_99: 198, most: 200 });
        assert_eq!(Lengths::of(vec![7]).map(|lengths| lengths.median), Some(7));
        assert_eq!(Lengths::of(vec![]), None);
    }
}
