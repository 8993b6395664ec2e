//! `docs/reference/records.md` lists exactly the fields of a record and the columns of a part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::{id, record};
use gymkhana_record::{Fork, Seed};
use gymkhana_store::RunFolder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

/// First cells of the rows of every table below a heading, by heading and by the header of the first column.
fn tables() -> BTreeMap<(String, String), Vec<Vec<String>>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/records.md");
    let text = fs::read_to_string(page).expect("the page exists");
    let mut tables: BTreeMap<_, Vec<Vec<String>>> = BTreeMap::new();
    let (mut heading, mut header) = (String::new(), None);
    for line in text.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_owned();
        }
        let Some(row) = line.strip_prefix("| ") else {
            header = None;
            continue;
        };
        let cells: Vec<String> = row.trim_end_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        match &header {
            None => header = Some(cells[0].clone()),
            Some(_) if cells[0].starts_with("---") => {}
            Some(header) => tables.entry((heading.clone(), header.clone())).or_default().push(cells),
        }
    }
    tables
}

/// Texts in backticks.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The values at a path; `[]` goes into a list.
fn at<'v>(value: &'v Value, path: &[&str]) -> Vec<&'v Value> {
    match path {
        [] => vec![value],
        ["[]", rest @ ..] => value.as_array().into_iter().flatten().flat_map(|entry| at(entry, rest)).collect(),
        [key, rest @ ..] => value.get(key).into_iter().flat_map(|entry| at(entry, rest)).collect(),
    }
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

/// Random records in which every optional field occurs.
fn records() -> Vec<Value> {
    let record = |number| {
        let mut record = record(number);
        record.forks = vec![Fork { parent: id(7), turns: vec![1], seed: Seed(3) }];
        serde_json::to_value(record).expect("JSON")
    };
    (0..200).map(record).collect()
}

#[test]
fn the_fields_of_a_record_are_documented() {
    let (tables, records) = (tables(), records());
    for (heading, path) in [
        ("Episode record", &[][..]),
        ("Episode id", &["id"]),
        ("Opening", &["opening"]),
        ("Policy turns", &["policy_turns", "[]"]),
        ("Segments", &["segments", "[]"]),
        ("Scores", &["scores", "[]", "scores", "[]"]),
        ("Failures", &["failures", "[]"]),
        ("Exchanges", &["exchanges", "[]"]),
        ("Agent runs", &["agent"]),
        ("Costs", &["costs", "[]"]),
        ("Logs", &["logs", "[]"]),
        ("Timing", &["timing"]),
        ("Forks", &["forks", "[]"]),
    ] {
        let rows = &tables[&(heading.to_owned(), "field".to_owned())];
        let documented: BTreeSet<String> = rows.iter().flat_map(|row| names(&row[0])).collect();
        let found: BTreeSet<String> = records.iter().flat_map(|record| at(record, path)).flat_map(keys).collect();
        assert_eq!(documented, found, "{heading}");
    }
}

#[test]
fn the_entries_of_a_transcript_are_documented() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in records() {
        for turn in at(&record, &["turns", "[]"]) {
            let mut keys = keys(turn);
            keys.remove("turn");
            // The table also names the fields of the call.
            keys.extend(at(turn, &["call"]).into_iter().flat_map(self::keys));
            found.insert(turn["turn"].as_str().expect("a text").to_owned(), keys);
        }
    }
    let rows = &tables()[&("Transcript".to_owned(), "`turn`".to_owned())];
    let documented: BTreeMap<String, BTreeSet<String>> =
        rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), names(&row[1]))).collect();
    assert_eq!(documented, found);
}

#[test]
fn the_columns_of_a_part_are_documented() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    let run = RunFolder::create(&path, "").expect("made");
    let mut store = run.episodes().expect("opened");
    store.append(&record(0)).expect("appended");
    store.commit().expect("committed");
    let entries = fs::read_dir(path.join("episodes")).expect("listed");
    let part = entries
        .map(|entry| entry.expect("listed").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .expect("a part");
    let reader = SerializedFileReader::new(fs::File::open(part).expect("opened")).expect("a Parquet file");
    let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
    let columns: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
    let rows = &tables()[&("Parquet parts".to_owned(), "column".to_owned())];
    let documented: Vec<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(documented, columns);
}
