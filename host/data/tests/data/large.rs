//! Files of some kilobytes that would unfold to gigabytes, and large ones that do not.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use gymkhana_data::ImportOptions;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

use super::Desk;

const MIB: usize = 1 << 20;

fn zstd() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::default()))
}

/// A Parquet file with a column `prompt`.
fn parquet(path: &Path, values: &[String], properties: WriterProperties) -> PathBuf {
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    let batch = RecordBatch::try_from_iter([("prompt", column)]).expect("a batch");
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("a footer");
    path.to_owned()
}

fn import(desk: &Desk, source: &Path) -> Result<u64, String> {
    let imported = desk.import(source, &ImportOptions::default());
    imported.map(|imported| imported.splits.iter().map(|(_, rows)| rows).sum()).map_err(|error| error.to_string())
}

/// Letters that do not compress.
fn noise(length: usize, seed: u64) -> String {
    let (mut state, mut letters) = (seed | 1, Vec::with_capacity(length + 8));
    while letters.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // 64 letters from `0` on, by six bits of each byte.
        letters.extend((state & 0x3f3f_3f3f_3f3f_3f3f).to_le_bytes().map(|bits| b'0' + bits));
    }
    letters.truncate(length);
    String::from_utf8(letters).expect("ASCII")
}

#[test]
fn a_value_larger_than_a_row_is_refused_by_the_size_of_its_page() {
    let desk = Desk::new();
    let properties = || zstd().set_dictionary_enabled(false).build();
    let source = parquet(&desk.path("bomb.parquet"), &["a".repeat(48 * MIB)], properties());
    assert!(source.metadata().expect("a file").len() < 64 << 10);
    let refused = import(&desk, &source).expect_err("a bomb");
    assert!(refused.contains("column `prompt` has a value of more than 16777216 bytes"), "{refused}");
    let allowed = parquet(&desk.path("large.parquet"), &["a".repeat(15 * MIB)], properties());
    assert_eq!(import(&desk, &allowed), Ok(1));
}

#[test]
fn a_page_that_unfolds_is_refused_and_one_that_does_not_is_read() {
    let desk = Desk::new();
    let properties = || zstd().set_dictionary_enabled(false).set_data_page_size_limit(1 << 30).build();
    let equal: Vec<String> = (0..80).map(|row| format!("{row}{}", "a".repeat(MIB))).collect();
    let source = parquet(&desk.path("bomb.parquet"), &equal, properties());
    let refused = import(&desk, &source).expect_err("a bomb");
    assert!(refused.contains("write the file with smaller pages"), "{refused}");
    let different: Vec<String> = (0..80).map(|row| noise(MIB, row + 1)).collect();
    assert_eq!(import(&desk, &parquet(&desk.path("large.parquet"), &different, properties())), Ok(80));
}

/// Every row names the one long entry, or continues the value before it: a batch of 1,024 rows would have 8 GiB.
#[test]
fn rows_made_of_one_long_value_are_read_some_at_a_time() {
    let desk = Desk::new();
    let long = noise(8 * MIB, 7);
    let values = vec![long; 40];
    let limit = zstd().set_dictionary_page_size_limit(64 * MIB).build();
    let prefixes = zstd().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY).build();
    for (name, properties) in [("dictionary.parquet", limit), ("prefixes.parquet", prefixes)] {
        let source = parquet(&desk.path(name), &values, properties);
        assert!(source.metadata().expect("a file").len() < 16 * MIB as u64, "{name}");
        assert_eq!(import(&desk, &source), Ok(40), "{name}");
    }
}

/// A dictionary with one entry, which every row names.
#[test]
fn rows_that_unfold_to_a_multiple_of_the_file_are_refused() {
    let desk = Desk::new();
    let rows = |count: usize| vec!["a".repeat(MIB); count];
    let source = |name: &str, count| parquet(&desk.path(name), &rows(count), zstd().build());
    let bomb = source("bomb.parquet", 300);
    assert!(bomb.metadata().expect("a file").len() < 4 << 10);
    let refused = import(&desk, &bomb).expect_err("a bomb");
    assert!(
        refused.contains("its rows take more than") && refused.contains("256 MiB and 256 times its size"),
        "{refused}"
    );
    assert!(!desk.path("out.rows").exists(), "nothing is left");
    assert_eq!(import(&desk, &source("some.parquet", 200)), Ok(200));
}

#[test]
fn a_row_of_very_many_small_values_is_refused_before_they_are_made() {
    let desk = Desk::new();
    let line = |count: usize| format!("{{\"prompt\":\"a\",\"more\":[{}0]}}\n", "{\"\":0},".repeat(count));
    // 300,000 objects have three signs each.
    let refused = import(&desk, &desk.write("bomb.jsonl", &line(300_000))).expect_err("a bomb");
    assert!(refused.contains("line 1") && refused.contains("the row has more than 524288 values"), "{refused}");
    assert_eq!(import(&desk, &desk.write("many.jsonl", &line(100_000))), Ok(1));
    // Signs within texts are not counted as values.
    let text = format!("{{\"prompt\":\"{}\"}}\n", "{a:[b,c]}".repeat(200_000));
    assert_eq!(import(&desk, &desk.write("text.jsonl", &text)), Ok(1));
}

#[test]
fn an_open_quote_does_not_read_the_whole_file() {
    let desk = Desk::new();
    let source = desk.write("open.csv", &format!("prompt\n\"{}", "a,b\n".repeat(5 * MIB)));
    let refused = import(&desk, &source).expect_err("an open quote");
    assert!(refused.contains("a record has more than 16777216 bytes: a quote may be open"), "{refused}");
    let allowed = desk.write("large.csv", &format!("prompt\n\"{}\"\nb\n", "a,b\n".repeat(3 * MIB)));
    assert_eq!(import(&desk, &allowed), Ok(2));
}

#[test]
fn messages_of_a_stream_lie_within_the_file() {
    let desk = Desk::new();
    let whole = std::fs::read(super::golden("saved/train/data-00000-of-00001.arrow"));
    let whole = whole.unwrap_or_else(|error| panic!("a stream: {error}"));
    std::fs::write(desk.path("cut.arrow"), &whole[..whole.len() / 2]).expect("written");
    let refused = import(&desk, &desk.path("cut.arrow")).expect_err("a cut stream");
    assert!(refused.contains("cannot be read as an Arrow stream"), "{refused}");
}

#[test]
fn a_pipe_is_no_source() {
    let desk = Desk::new();
    let pipe = desk.path("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let refused = import(&desk, &pipe).expect_err("a pipe");
    assert!(refused.contains("cannot be read"), "{refused}");
}
