//! Mistakes are named with file, line and reason, and leave no file.

use super::{Desk, columns, golden};
use gymkhana_data::{DataError, ImportOptions};

#[test]
fn a_bad_row_is_named_and_a_bounded_number_may_be_skipped() {
    let desk = Desk::new();
    let source = desk.write("a.jsonl", "{\"prompt\": \"a\"}\n\nnonsense\n{\"prompt\": 5}\n{\"prompt\": \"b\"}\n");
    let with = |skip_bad| desk.import(&source, &ImportOptions { skip_bad, ..ImportOptions::default() });
    let refused = with(0).expect_err("a bad row").to_string();
    assert!(refused.contains("a.jsonl, line 3: no JSON object: expected"), "{refused}");
    assert!(refused.contains("--skip-bad N"), "{refused}");
    assert!(!desk.path("out.rows").exists());
    let refused = with(1).expect_err("two bad rows");
    assert!(matches!(refused, DataError::TooManyBad { skipped: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("line 4: `prompt` is not a text"), "{refused}");
    let imported = with(2).expect("both are skipped");
    assert_eq!(imported.skipped.iter().map(|(place, _)| place.number).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(imported.splits, [("train".to_owned(), 2)]);
    // Only the output is left.
    assert_eq!(std::fs::read_dir(desk.0.path()).expect("a folder").count(), 2);
}

#[test]
fn rows_without_an_answer_are_counted() {
    let desk = Desk::new();
    let rows =
        ["{\"prompt\": \"a\"}\n", "{\"prompt\": \"b\", \"answer\": null}\n", "{\"prompt\": \"c\", \"answer\": 3}\n"];
    let source = desk.write("a.jsonl", &rows.concat());
    assert_eq!(desk.import(&source, &ImportOptions::default()).expect("rows").unanswered, 2);
}

#[test]
fn a_task_in_two_splits_is_a_bad_row() {
    let desk = Desk::new();
    let line = |split: &str| format!("{{\"prompt\": \"a\", \"split\": \"{split}\"}}\n");
    let source = desk.write("a.jsonl", &[line("train"), line("train"), line("test")].concat());
    let refused = desk.import(&source, &ImportOptions::default()).expect_err("an overlap").to_string();
    assert!(refused.contains("line 3: split `test` repeats the task of line 1, split `train`"), "{refused}");
    let options = ImportOptions { skip_bad: 1, ..ImportOptions::default() };
    assert_eq!(desk.import(&source, &options).expect("it is skipped").repeated, 1);
}

#[test]
fn other_mistakes_are_named() {
    let desk = Desk::new();
    let said = |source: &std::path::Path, options: &ImportOptions| {
        desk.import(source, options).expect_err("a mistake").to_string()
    };
    let plain = ImportOptions::default();
    let question = desk.write("a.jsonl", "{\"problem\": \"a\"}\n");
    assert!(said(&question, &columns(&["prompt=question"])).contains("the columns are `problem`"));
    assert!(said(&question, &plain).contains("name it with --column prompt=NAME; there are: `problem`"));
    assert!(said(&desk.write("empty.jsonl", "\n"), &plain).contains("empty.jsonl` has no rows"));
    assert!(said(&desk.path("absent.jsonl"), &plain).contains("absent.jsonl` cannot be read"));
    assert!(said(&desk.write("a.txt", ""), &plain).contains("a.txt` has an unknown format"));
    assert!(said(&desk.write("a.parquet", "PAR1"), &plain).contains("a.parquet` cannot be read as Parquet"));
    assert!(said(&desk.write("a.arrow", "ARROW1"), &plain).contains("a.arrow` cannot be read as an Arrow stream"));
    for (name, text) in [("a.jsonl", "\u{feff}{\"prompt\": \"a\"}"), ("a.csv", "prompt\na\n")] {
        std::fs::write(desk.path(name), text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>())
            .expect("written");
        assert!(said(&desk.path(name), &plain).contains("its text is UTF-16\nhint: save it as UTF-8"));
    }
    let compressed = said(&golden("compressed.arrow"), &plain);
    assert!(compressed.contains("its messages are compressed\nhint: save it without compression"), "{compressed}");
    let number =
        said(&desk.write("a.jsonl", &format!("{{\"prompt\": \"a\", \"more\": 1{}}}\n", "0".repeat(309))), &plain);
    assert!(number.contains("a.jsonl, line 1: a number cannot be read: number out of range"), "{number}");
    let short = said(&desk.write("a.csv", "prompt,answer\na\n"), &plain);
    assert!(short.contains("a.csv, line 2: it has 1 values, but the header has 2"), "{short}");
    let windows = said(&desk.write("a.csv", "prompt\r\nok\r\nx,y\r\n"), &plain);
    assert!(windows.contains("a.csv, line 3: it has 2 values"), "{windows}");
    let empty = said(&desk.write("a.csv", "prompt\n\n\"two\nlines\"\n\nx,y\n"), &plain);
    assert!(empty.contains("a.csv, line 6: it has 2 values"), "{empty}");
    let array = said(&desk.write("a.json", "[{\"prompt\": \"a\"}]"), &plain);
    assert!(array.contains("hint: write one object per line into a .jsonl file: `jq -c '.[]' "), "{array}");
    std::fs::create_dir(desk.path("folder")).expect("a folder");
    assert!(said(&desk.path("folder"), &plain).contains("folder` has no .jsonl, .csv, .parquet or .arrow file"));
}

#[test]
fn a_damaged_file_is_an_error_and_not_a_panic() {
    let desk = Desk::new();
    let good = std::fs::read(golden("verl.parquet")).expect("bytes");
    for place in (0..good.len()).step_by(97) {
        let mut bytes = good.clone();
        bytes[place] ^= 0x55;
        std::fs::write(desk.path("a.parquet"), &bytes).expect("written");
        let _imported = desk.import(&desk.path("a.parquet"), &ImportOptions::default());
    }
}
