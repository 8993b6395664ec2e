//! Each format gives the rows that its library wrote.

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, DurationSecondArray, RecordBatch,
    Time64MicrosecondArray, TimestampMillisecondArray,
};
use parquet::arrow::ArrowWriter;
use serde_json::json;

use super::{Desk, columns, golden};
use gymkhana_data::{ImportOptions, Remarks, Skips, conversations, preferences};

#[test]
fn parquet_of_verl_is_imported() {
    let desk = Desk::new();
    let imported = desk.import(&golden("verl.parquet"), &ImportOptions::default()).expect("imported");
    assert_eq!((imported.splits, imported.repeated), (vec![("train".to_owned(), 3)], 0));
    let rows = desk.rows();
    let row = json!({
        "data_source": "openai/gsm8k",
        "ability": "math",
        "extra_info": { "split": "train", "index": 2, "weights": [0.5, null], "easy": true },
        "answer": "3",
        "messages": [{ "role": "user", "content": "2 + 1?" }],
        "split": "train",
    });
    assert_eq!(rows[0].1[2], row);
}

#[test]
fn a_data_set_that_was_saved_to_disk_is_imported() {
    let desk = Desk::new();
    desk.import(&golden("saved"), &ImportOptions::default()).expect("imported");
    let task = |question: &str, answer: &str, split: &str| {
        json!({
            "solution": format!("Sum.\n#### {answer}"), "answer": answer, "split": split,
            "messages": [{ "role": "user", "content": question }],
        })
    };
    let train = vec![task("1 + 2?", "3", "train"), task("2 + 2?", "4", "train")];
    let expected = [("test".to_owned(), vec![task("3 + 3?", "6", "test")]), ("train".to_owned(), train)];
    assert_eq!(desk.rows(), expected);
}

#[test]
fn arrows_large_types_and_times_are_read() {
    let desk = Desk::new();
    desk.import(&golden("large.parquet"), &ImportOptions::default()).expect("imported");
    let rows = desk.rows();
    assert_eq!((&rows[0].1[0]["answer"], &rows[0].1[0]["facts"]), (&json!(1), &json!([1.5])));
    desk.import(&golden("types.parquet"), &ImportOptions::default()).expect("imported");
    assert_eq!(desk.rows()[0].1[1]["when"], "1970-01-01T00:00:01");
}

/// What editors and tools on Windows write.
#[test]
fn a_byte_order_mark_is_ignored() {
    let desk = Desk::new();
    let line = |prompt: &str| format!("{{\"prompt\": \"{prompt}\"}}\n");
    std::fs::create_dir(desk.path("folder")).expect("a folder");
    desk.write("folder/a.jsonl", &format!("\u{feff}{}{}", line("a"), line("b")));
    // Two files in one, and a file with nothing else.
    desk.write("folder/b.jsonl", &format!("\u{feff}{}\u{feff}{}", line("c"), line("d")));
    desk.write("folder/c.jsonl", "\u{feff}\n");
    desk.write("folder/d.csv", "\u{feff}prompt\ne\n");
    desk.import(&desk.path("folder"), &ImportOptions::default()).expect("imported");
    let rows: Vec<_> = desk.rows().into_iter().flat_map(|(_, rows)| rows).collect();
    let prompts: Vec<_> = rows.iter().map(|row| row["messages"][0]["content"].as_str().expect("a text")).collect();
    assert_eq!(prompts, ["a", "b", "c", "d", "e"]);
    let chat = r#"{"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}"#;
    let pair = r#"{"prompt": "?", "chosen": "a", "rejected": "b"}"#;
    let (chat, pair) =
        (desk.write("m.jsonl", &format!("\u{feff}{chat}")), desk.write("p.jsonl", &format!("\u{feff}{pair}")));
    assert_eq!(conversations(&chat, None, &mut Skips::at_most(0)).expect("read").rows.len(), 1);
    assert_eq!(preferences(&pair, &mut Skips::at_most(0)).expect("read").rows.len(), 1);
}

/// The columns of a file that has types without a use in a task.
#[test]
fn columns_of_all_types_are_read_or_left_out() {
    let desk = Desk::new();
    let names = ["day", "clock", "price", "kind", "raw", "image", "took"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Date32Array::from(vec![19_723])),
        Arc::new(Time64MicrosecondArray::from(vec![3_723_000_000])),
        Arc::new(Decimal128Array::from(vec![1250]).with_precision_and_scale(10, 2).expect("a scale")),
        Arc::new(vec!["easy"].into_iter().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(BinaryArray::from_vec(vec![b"text"])),
        Arc::new(BinaryArray::from_vec(vec![b"\x89PNG"])),
        Arc::new(DurationSecondArray::from(vec![5])),
    ];
    let prompt: ArrayRef = Arc::new(vec!["a"].into_iter().collect::<DictionaryArray<Int32Type>>());
    let zoned: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1500]).with_timezone("+02:00"));
    let all = names.into_iter().zip(columns).chain([("prompt", prompt), ("at", zoned)]);
    let batch = RecordBatch::try_from_iter(all).expect("a batch");
    let file = File::create(desk.path("a.parquet")).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("written");
    let imported = desk.import(&desk.path("a.parquet"), &ImportOptions::default()).expect("imported");
    let (mut row, expected) = (
        desk.rows()[0].1[0].clone(),
        json!({
            "day": "2024-01-01", "clock": "01:02:03", "price": "12.50", "kind": "easy", "raw": "text",
            "at": "1970-01-01T00:00:01.500Z", "messages": [{"role": "user", "content": "a"}],
        }),
    );
    row.as_object_mut().expect("a row").remove("split");
    assert_eq!(row, expected);
    let left_out: Vec<&str> = imported.remarks.left_out.keys().map(String::as_str).collect();
    assert_eq!(left_out, ["image", "took"]);
    assert!(imported.remarks.warnings()[0].starts_with("the column `image` is left out: its type Binary"));
}

#[test]
fn configurations_of_a_folder_are_named() {
    let desk = Desk::new();
    for name in ["main", "socratic"] {
        std::fs::create_dir(desk.path(name)).expect("a folder");
        desk.write(&format!("{name}/train.jsonl"), "{\"prompt\": \"a\"}\n");
    }
    let imported = desk.import(desk.0.path(), &ImportOptions::default()).expect("imported");
    assert!(
        imported.remarks.warnings()[0]
            .contains("their rows are mixed: `main`, `socratic`\nhint: give the folder of one")
    );
    let one = desk.import(&desk.path("main"), &ImportOptions::default()).expect("imported");
    assert_eq!(one.remarks, Remarks::default());
}

#[test]
fn answers_that_rewards_cannot_compare_are_counted() {
    let desk = Desk::new();
    let lines =
        [r#""answer": [1, 2]"#, r#""answer": {"x": 1}"#, r#""answer": ["a", "b"]"#, r#""answer": "[1]""#, r#""n": 1"#];
    let lines: String =
        lines.iter().zip(1..).map(|(answer, number)| format!("{{\"prompt\": \"{number}\", {answer}}}\n")).collect();
    let imported = desk.import(&desk.write("a.jsonl", &lines), &ImportOptions::default()).expect("imported");
    assert_eq!((imported.unanswered, imported.remarks.structured_answers), (1, 2));
    assert!(imported.remarks.warnings()[0].contains("compare as JSON text: 2"));
}

#[test]
fn csv_may_be_separated_by_semicolons_or_tabs() {
    for separator in [";", "\t"] {
        let desk = Desk::new();
        let text = "question@answer\n\"1, or 2?\"@3\n".replace('@', separator);
        desk.import(&desk.write("a.csv", &text), &ImportOptions::default()).expect("imported");
        let rows: Vec<_> = desk.rows().into_iter().flat_map(|(_, rows)| rows).collect();
        assert_eq!((&rows[0]["messages"][0]["content"], &rows[0]["answer"]), (&json!("1, or 2?"), &json!("3")));
    }
}

#[test]
fn csv_has_texts_and_json_in_texts() {
    let desk = Desk::new();
    let text = "question,answer,tools\n\"1, or 2?\",3,\"[{\"\"name\"\": \"\"f\"\"}]\"\nb,,\n";
    desk.import(&desk.write("a.csv", text), &ImportOptions::default()).expect("imported");
    let rows: Vec<_> = desk.rows().into_iter().flat_map(|(_, rows)| rows).collect();
    assert_eq!(rows[0]["messages"][0]["content"], "1, or 2?");
    assert_eq!((&rows[0]["answer"], &rows[0]["tools"][0]["name"]), (&json!("3"), &json!("f")));
    assert_eq!(rows[1].get("answer"), None);
}

#[test]
fn a_file_of_rows_is_imported_again_with_equal_bytes() {
    let desk = Desk::new();
    desk.import(&golden("saved"), &ImportOptions::default()).expect("imported");
    let first = std::fs::read(desk.path("out.rows")).expect("bytes");
    std::fs::rename(desk.path("out.rows"), desk.path("first.rows")).expect("renamed");
    desk.import(&desk.path("first.rows"), &ImportOptions::default()).expect("imported");
    assert_eq!(std::fs::read(desk.path("out.rows")).expect("bytes"), first);
}

#[test]
fn rows_without_a_split_are_divided_by_their_hash() {
    let desk = Desk::new();
    let lines: String = (0..1000).map(|number| format!("{{\"prompt\": \"question {number}\"}}\n")).collect();
    let source = desk.write("a.jsonl", &lines);
    let sizes = |percent| {
        let options = ImportOptions { test_percent: percent, ..ImportOptions::default() };
        let imported = desk.import(&source, &options).expect("imported");
        let size = |name: &str| imported.splits.iter().find(|(split, _)| split == name).map_or(0, |(_, rows)| *rows);
        (size("train"), size("test"))
    };
    assert_eq!((sizes(0), sizes(100)), ((1000, 0), (0, 1000)));
    let (train, test) = sizes(10);
    assert!(train + test == 1000 && (50..200).contains(&test), "{test}");
}

#[test]
fn columns_can_be_named() {
    let desk = Desk::new();
    let source = desk.write("a.jsonl", "{\"problem\": \"1+1\", \"meta\": {\"result\": 2, \"part\": \"dev\"}}\n");
    desk.import(&source, &columns(&["prompt=problem", "answer=meta.result", "split=meta.part"])).expect("imported");
    let [(split, rows)] = &desk.rows()[..] else { panic!("one split") };
    assert_eq!((split.as_str(), &rows[0]["answer"]), ("dev", &json!(2)));
}
