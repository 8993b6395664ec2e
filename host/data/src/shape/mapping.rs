//! Columns that a user names.

use std::fmt;
use std::str::FromStr;

use gymkhana_rows::COLUMNS;
use serde_json::{Map, Value as Json};

use super::chat::parsed;

/// Column of a row that a source's column can become.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TargetColumn(String);

/// `TARGET=SOURCE`, where SOURCE may name a field of an object, such as `reward_model.ground_truth`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Renamed {
    target: TargetColumn,
    source: Vec<String>,
}

/// Columns by target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnMapping(Vec<Renamed>);

impl FromStr for TargetColumn {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if COLUMNS.contains(&name) || name == "answer" {
            return Ok(Self(name.to_owned()));
        }
        Err(format!("`{name}` is not a column of rows; there are: `{}`, `answer`", COLUMNS.join("`, `")))
    }
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source.join("."))
    }
}

impl ColumnMapping {
    /// Parses `TARGET=SOURCE` for each column.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn parse<'a>(given: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut renamed: Vec<Renamed> = Vec::new();
        for text in given {
            let (target, source) = text.split_once('=').ok_or(format!("`{text}` has no `=`"))?;
            let target: TargetColumn = target.parse()?;
            if source.split('.').any(str::is_empty) {
                return Err(format!("`{text}` names no column after `=`"));
            }
            if renamed.iter().any(|other| other.target == target) {
                return Err(format!("`{}` is given twice", target.0));
            }
            renamed.push(Renamed { target, source: source.split('.').map(str::to_owned).collect() });
        }
        Ok(Self(renamed))
    }

    /// Names of the columns that a source must have.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|renamed| renamed.source[0].as_str())
    }

    /// Moves the columns of a record. A field of an object is copied, and the object stays.
    pub(super) fn apply(&self, columns: &mut Map<String, Json>) -> Result<(), String> {
        let mut moved = Vec::new();
        for renamed in &self.0 {
            let [column, fields @ ..] = &renamed.source[..] else { continue };
            let mut value = match fields {
                [] => columns.remove(column),
                _ => columns.get(column).map(parsed),
            };
            for field in fields {
                value = value.and_then(|value| value.get(field).cloned());
            }
            let value = value.ok_or_else(|| format!("there is no `{renamed}`"))?;
            moved.push((renamed.target.0.clone(), value));
        }
        columns.extend(moved);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(given: &[&str], columns: Json) -> Result<Json, String> {
        let Json::Object(mut columns) = columns else { panic!("{columns}") };
        ColumnMapping::parse(given.iter().copied())?.apply(&mut columns)?;
        Ok(Json::Object(columns))
    }

    #[test]
    fn columns_are_moved_and_fields_copied() {
        let columns = json!({ "a": "1", "b": { "c": 2 }, "d": "{\"e\": 3}" });
        let moved = json!({ "prompt": "1", "answer": 2, "split": 3, "b": { "c": 2 }, "d": "{\"e\": 3}" });
        assert_eq!(applied(&["prompt=a", "answer=b.c", "split=d.e"], columns), Ok(moved));
        // Two columns change places.
        let swapped = applied(&["prompt=answer", "answer=prompt"], json!({ "prompt": "1", "answer": "2" }));
        assert_eq!(swapped, Ok(json!({ "prompt": "2", "answer": "1" })));
    }

    #[test]
    fn mistakes_are_named() {
        for (given, said) in [
            (&["prompt"][..], "`prompt` has no `=`"),
            (&["question=a"], "`question` is not a column of rows; there are: `prompt`, `messages`"),
            (&["prompt="], "`prompt=` names no column"),
            (&["prompt=a", "prompt=b"], "`prompt` is given twice"),
            (&["prompt=b.d"], "there is no `b.d`"),
        ] {
            let error = applied(given, json!({ "a": 1, "b": { "c": 2 } })).expect_err(said);
            assert!(error.starts_with(said), "{error}");
        }
    }
}
