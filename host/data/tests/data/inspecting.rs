//! What `host data inspect` counts.

use super::{Desk, golden};
use gymkhana_data::{ImportOptions, RecordShape, inspect};

#[test]
fn columns_lengths_duplicates_and_bad_rows_are_counted() {
    let desk = Desk::new();
    let lines = [
        r#"{"question": "one", "answer": 1, "split": "train"}"#,
        r#"{"question": "one", "answer": "1", "split": "train"}"#,
        r#"{"question": "one", "split": "test", "note": null}"#,
        r#"{"question": "seven", "split": "test"}"#,
        r#"{"question": 5}"#,
    ];
    let source = desk.write("a.jsonl", &lines.join("\n"));
    let found = inspect(&source, &ImportOptions::default(), |text| Ok(text.len() as u64), |_| ()).expect("described");
    let columns: Vec<_> = found.columns.iter().map(|column| (column.name.as_str(), column.filled)).collect();
    assert_eq!(columns, [("question", 5), ("answer", 2), ("split", 4)]);
    assert_eq!(
        (&found.columns[0].kinds[..], &found.columns[1].kinds[..]),
        (&["text", "number"][..], &["number", "text"][..])
    );
    assert_eq!((found.rows, found.bad, found.repeated, found.overlapping), (5, 1, 1, 1));
    assert_eq!(found.shape, Some(RecordShape::Question));
    let lengths = found.lengths.expect("lengths");
    assert_eq!((lengths.least, lengths.median, lengths.most), (3, 3, 5));
    assert_eq!(found.examples[0].0.number, 5);
    assert_eq!(found.splits.into_iter().collect::<Vec<_>>(), [("test".to_owned(), 2), ("train".to_owned(), 2)]);
}

#[test]
fn shapes_of_other_projects_are_named() {
    let shape = |name: &str| {
        inspect(&golden(name), &ImportOptions::default(), |_| Ok(0), |_| ()).expect("described").shape.expect("a shape")
    };
    assert_eq!((shape("verl.parquet"), shape("saved")), (RecordShape::Verl, RecordShape::Question));
}
