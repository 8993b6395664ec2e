//! Each format gives the rows that its library wrote.

use serde_json::json;

use super::{Desk, columns, golden};
use gymkhana_data::ImportOptions;

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
fn arrows_large_types_are_read_and_others_named() {
    let desk = Desk::new();
    desk.import(&golden("large.parquet"), &ImportOptions::default()).expect("imported");
    let rows = desk.rows();
    assert_eq!((&rows[0].1[0]["answer"], &rows[0].1[0]["facts"]), (&json!(1), &json!([1.5])));
    let refused =
        desk.import(&golden("types.parquet"), &ImportOptions::default()).expect_err("a timestamp").to_string();
    assert!(refused.contains("types.parquet, row 1: column `when` has the type Timestamp"), "{refused}");
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
