//! Files whose structure is damaged: refused before anything is allocated from their counts.

use crate::builder::{Builder, Value, llama, refused};

fn changed(change: impl FnOnce(&mut Builder)) -> String {
    let mut builder = llama();
    change(&mut builder);
    builder.refused()
}

#[test]
fn other_formats_are_refused() {
    assert_eq!(refused(b""), "it is not a GGUF file");
    assert_eq!(refused(b"PK\x03\x04 an archive"), "it is not a GGUF file");
    assert_eq!(changed(|file| file.version = 1), "it has version 1 of the format, not 2 or 3");
    assert_eq!(changed(|file| file.version = 3_u32.swap_bytes()), "it is for machines of the other byte order");
}

#[test]
fn every_truncated_file_is_refused() {
    let whole = llama().bytes();
    for length in 4..whole.len() {
        let reason = refused(&whole[..length]);
        assert!(reason.starts_with("the file ends within "), "{length}: {reason}");
    }
}

#[test]
fn counts_and_lengths_beyond_the_limits_are_refused() {
    assert_eq!(
        changed(|file| file.counts = Some([u64::MAX, 1])),
        "it declares 18446744073709551615 tensors, and the limit is 65536"
    );
    assert_eq!(
        changed(|file| file.counts = Some([1, 1 << 40])),
        "it declares 1099511627776 keys, and the limit is 4096"
    );
    let text = |length: u64| llama().with("x", Value::Raw(8, length.to_le_bytes().to_vec())).refused();
    assert_eq!(text(1 << 60), "key `x` has a text of 1152921504606846976 bytes, and the limit is 16777216");
    assert_eq!(text(1 << 20), "the file ends within its header");
    let list = |kind: u32, count: u64| {
        let bytes = [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
        llama().with("x", Value::Raw(9, bytes)).refused()
    };
    let limits = "and the limit is 4194304 in one list and 16777216 in all";
    assert_eq!(list(0, 1 << 62), format!("key `x` has a list of 4611686018427387904 elements, {limits}"));
    assert_eq!(list(10, 1 << 22), "the file ends within its header");
    assert_eq!(list(9, 1), "key `x` is a list of lists");
    assert_eq!(list(77, 1), "key `x` has a value of the unknown type 77");
    assert_eq!(llama().with("x", Value::Raw(13, vec![])).refused(), "key `x` has a value of the unknown type 13");
    assert!(llama().with(&"k".repeat(2000), Value::U32(1)).refused().contains("has 2000 bytes, and the limit is 1024"));
}

#[test]
fn tensors_with_impossible_shapes_or_places_are_refused() {
    let embedding = |change: fn(&mut crate::builder::Tensor)| changed(|file| change(file.tensor("token_embd.weight")));
    assert!(embedding(|tensor| tensor.1 = vec![]).ends_with("has 0 dimensions, not 1 to 4"));
    assert!(embedding(|tensor| tensor.1 = vec![1; 5]).ends_with("has 5 dimensions, not 1 to 4"));
    assert!(embedding(|tensor| tensor.1 = vec![8, 0]).ends_with("has the shape [8, 0]"));
    assert!(embedding(|tensor| tensor.1 = vec![1 << 32, 1 << 32]).contains("has the shape [4294967296"));
    assert!(embedding(|tensor| tensor.1 = vec![8, 7]).starts_with("tensor `output_norm.weight` overlaps"));
    assert!(embedding(|tensor| tensor.2 = 2).ends_with("has rows of 8 weights, but type Q4_0 has blocks of 32"));
    assert!(embedding(|tensor| tensor.3 = 7).ends_with("is not aligned to 32 bytes"));
    assert_eq!(
        changed(|file| file.tensor("blk.0.ffn_down.weight").1 = vec![1 << 30, 8]),
        "the file ends within tensor `blk.0.ffn_down.weight`"
    );
    assert!(changed(|file| file.tensor("blk.0.ffn_up.weight").3 = u64::MAX - 31).starts_with("the file ends within"));
    assert!(changed(|file| file.add("output_norm.weight", vec![8])).ends_with("is there twice"));
}

#[test]
fn keys_that_are_there_twice_or_wrongly_aligned_are_refused() {
    let twice = |file: &mut Builder| file.keys.push(("llama.block_count".to_owned(), Value::U32(2)));
    assert_eq!(changed(twice), "key `llama.block_count` is there twice");
    for alignment in [Value::U32(0), Value::U32(48), Value::Text("32")] {
        let reason = llama().with("general.alignment", alignment).refused();
        assert_eq!(reason, "`general.alignment` is not a power of two of type u32");
    }
    assert_eq!(llama().with("general.alignment", Value::U32(16)).read().tensors().count(), 11);
}
