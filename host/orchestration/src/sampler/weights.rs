//! Weights of tasks, read from a column of a file.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use gymkhana_config::WeightedTasks;
use gymkhana_nearest::did_you_mean;
use gymkhana_rows::{OnDisk, Reader};
use serde_json::{Map, Value};

use crate::error::{Classify, RunError, RunResult};

/// Sums of the weights of the tasks up to each one, the last of which is above 0.
pub(crate) fn cumulative(section: &WeightedTasks, split: &str) -> RunResult<Vec<f64>> {
    let WeightedTasks { file, column } = section;
    let is = |ending: &str| file.extension().is_some_and(|found| found == ending);
    let weights = if is("rows") {
        of_rows(file, split, column)?
    } else if is("jsonl") {
        of_lines(file, column)?
    } else {
        return Err(RunError::user(format!("sampler.file `{}` is neither JSON lines nor rows", file.display()))
            .with_hint("use a file that ends in .jsonl, or one of `host data import` that ends in .rows"));
    };
    let mut sum = 0.0;
    let sums: Vec<f64> = weights
        .into_iter()
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    match sums.last() {
        None => Err(RunError::user(format!("sampler.file `{}` has no record", file.display()))),
        Some(sum) if *sum <= 0.0 || !sum.is_finite() => {
            Err(RunError::user(format!("the weights in column `{column}` of `{}` add up to {sum}", file.display()))
                .with_hint("give at least one task a weight above 0"))
        }
        Some(_) => Ok(sums),
    }
}

fn of_lines(path: &Path, column: &str) -> RunResult<Vec<f64>> {
    let file = File::open(path).user_context(cannot_read(path))?;
    let mut weights = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.user_context(cannot_read(path))?;
        let place = || format!("`{}`, line {}", path.display(), index + 1);
        let record = serde_json::from_str::<Map<String, Value>>(&line);
        let record = record.map_err(|error| RunError::user(format!("{}: no record: {error}", place())))?;
        weights.push(weight(&record, column).map_err(|error| error.prefixed(place()))?);
    }
    Ok(weights)
}

fn of_rows(path: &Path, split: &str, column: &str) -> RunResult<Vec<f64>> {
    let file = OnDisk::open(path).user_context(cannot_read(path))?;
    let refused = |error: &dyn std::fmt::Display| RunError::user(format!("`{}`: {error}", path.display()));
    let reader = Reader::open(file).map_err(|error| refused(&error))?;
    let Some(place) = reader.splits().iter().position(|each| each.name == split) else {
        let known: Vec<&str> = reader.splits().iter().map(|split| split.name.as_str()).collect();
        return Err(refused(&format!("it has no split `{split}`, only `{}`", known.join("`, `"))));
    };
    let mut weights = Vec::new();
    for row in 0..reader.splits()[place].rows {
        let bytes = reader.row(place, row).map_err(|error| refused(&error))?;
        let record: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| refused(&error))?;
        weights.push(weight(&record, column).map_err(|error| error.prefixed(format!("row {row} of `{split}`")))?);
    }
    Ok(weights)
}

/// The weight in a record.
fn weight(record: &Map<String, Value>, column: &str) -> RunResult<f64> {
    let Some(value) = record.get(column) else {
        let near = did_you_mean(column, record.keys().map(String::as_str));
        return Err(RunError::user(format!("it has no column `{column}`"))
            .with_hint(format!("set sampler.column to a column of numbers{near}")));
    };
    match value.as_f64().filter(|weight| weight.is_finite() && *weight >= 0.0) {
        Some(weight) => Ok(weight),
        None => Err(RunError::user(format!("its weight `{column}` is {value}"))
            .with_hint("weights are finite numbers from 0 on")),
    }
}

fn cannot_read(path: &Path) -> String {
    format!("sampler.file `{}` cannot be read", path.display())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use gymkhana_rows::Writer;

    use super::*;

    fn section(file: PathBuf) -> WeightedTasks {
        WeightedTasks { file, column: "weight".to_owned() }
    }

    fn of_text(text: &str) -> RunResult<Vec<f64>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights.jsonl");
        std::fs::write(&file, text).unwrap();
        cumulative(&section(file), "train")
    }

    #[test]
    fn weights_add_up_in_the_order_of_lines() {
        assert_eq!(
            of_text("{\"weight\": 2}\n{\"weight\": 0.0, \"x\": 1}\n{\"weight\": 0.5}\n").unwrap(),
            [2.0, 2.0, 2.5]
        );
    }

    #[test]
    fn weights_of_the_training_split_are_read_from_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sums.rows");
        let mut writer = Writer::new(File::create(&path).unwrap()).unwrap();
        for (split, weight) in [("train", 1), ("test", 7), ("train", 3)] {
            writer.add(split, format!("{{\"prompt\":\"?\",\"weight\":{weight}}}").as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(cumulative(&section(path.clone()), "train").unwrap(), [1.0, 4.0]);
        let refused = cumulative(&section(path), "tran").unwrap_err().to_string();
        assert!(refused.contains("it has no split `tran`, only `train`, `test`"), "{refused}");
    }

    #[test]
    fn bad_weights_are_refused_with_their_place() {
        for (text, message) in [
            ("", "has no record"),
            ("{\"weight\": 0}\n", "add up to 0\nhint: give at least one task a weight above 0"),
            ("{\"weight\": 1}\n{\"weigth\": 1}\n", "line 2: it has no column `weight`"),
            ("{\"weight\": -1}\n", "line 1: its weight `weight` is -1"),
            ("{\"weight\": \"1\"}\n", "its weight `weight` is \"1\""),
            ("[1]\n", "line 1: no record"),
        ] {
            let found = of_text(text).unwrap_err().to_string();
            assert!(found.contains(message), "{message}\n{found}");
        }
        let other = cumulative(&section(PathBuf::from("weights.txt")), "train").unwrap_err().to_string();
        assert!(other.contains("is neither JSON lines nor rows\nhint: use a file that ends in .jsonl"), "{other}");
    }
}
