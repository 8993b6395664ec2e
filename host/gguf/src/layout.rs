//! The structure of a GGUF file, checked within limits before anything is allocated from its counts and lengths.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Seek, SeekFrom};

use crate::error::Problem;

/// Limits. Published files have up to some thousand tensors, a hundred keys, and 300,000 tokens.
const MAX_TENSORS: u64 = 1 << 16;
const MAX_KEYS: u64 = 1 << 12;
const MAX_NAME_BYTES: u64 = 1 << 10;
const MAX_TEXT_BYTES: u64 = 16 << 20;
const MAX_ELEMENTS: u64 = 1 << 22;
/// Elements of all lists together. Each takes 32 bytes of memory.
const MAX_ALL_ELEMENTS: u64 = 1 << 24;
const MAX_DIMENSIONS: u32 = 4;
const MAX_WEIGHTS: u64 = 1 << 40;

/// Codes of the types of values.
const TEXT: u32 = 8;
const LIST: u32 = 9;
/// Key of the alignment of tensors.
const ALIGNMENT: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;
const U32: u32 = 4;

/// Types of tensors that can be dequantised: code, name, weights and bytes of a block.
const TYPES: [(u32, &str, u64, u64); 13] = [
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (30, "BF16", 1, 2),
];

/// Names of other types, for messages.
const OTHER_TYPES: [(u32, &str); 20] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

/// Checks a file of `length` bytes from its start: magic, version, keys, tensors, and that all data is there.
///
/// # Errors
/// The first part that is damaged, beyond a limit, or not supported.
pub fn check(reader: &mut (impl Read + Seek), length: u64) -> Result<(), Problem> {
    let mut scan = Scan { reader, position: 0, length, elements: 0 };
    scan.magic()?;
    let [tensors, keys] = [scan.u64()?, scan.u64()?];
    for (what, count, most) in [("tensors", tensors, MAX_TENSORS), ("keys", keys, MAX_KEYS)] {
        if count > most {
            return Err(Problem::damaged(format!("it declares {count} {what}, and the limit is {most}")));
        }
    }
    let alignment = scan.keys(keys)?;
    let spans = scan.tensors(tensors, alignment)?;
    scan.data(&spans, alignment)
}

/// A tensor's name, and its first byte and number of bytes in the data.
type TensorSpan = (String, u64, u64);

struct Scan<'a, R> {
    reader: &'a mut R,
    position: u64,
    length: u64,
    /// Elements of all lists so far.
    elements: u64,
}

impl<R: Read + Seek> Scan<'_, R> {
    fn bytes<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Problem> {
        let mut bytes = [0; COUNT];
        self.reader.read_exact(&mut bytes).map_err(|error| cut_off(&error))?;
        self.position += COUNT as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Problem> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Problem> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn magic(&mut self) -> Result<(), Problem> {
        let not = |_| Problem::unsupported("it is not a GGUF file", "give a file in the format GGUF");
        if self.bytes().map_err(not)? != *b"GGUF" {
            return Err(not(Problem::damaged("")));
        }
        let again = "convert the model again with llama.cpp's `convert_hf_to_gguf.py`";
        match self.u32()? {
            2 | 3 => Ok(()),
            version if matches!(version.swap_bytes(), 1..=3) => {
                Err(Problem::unsupported("it is for machines of the other byte order", again))
            }
            version => Err(Problem::unsupported(format!("it has version {version} of the format, not 2 or 3"), again)),
        }
    }

    /// Leaves `count` bytes out.
    fn skip(&mut self, count: u64) -> Result<(), Problem> {
        if count > self.length.saturating_sub(self.position) {
            return Err(truncated());
        }
        self.position += count;
        self.reader.seek(SeekFrom::Start(self.position)).map_err(|error| cut_off(&error))?;
        Ok(())
    }

    fn name(&mut self, what: &str) -> Result<String, Problem> {
        let length = self.u64()?;
        if length > MAX_NAME_BYTES {
            return Err(Problem::damaged(format!(
                "a name of a {what} has {length} bytes, and the limit is {MAX_NAME_BYTES}"
            )));
        }
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes).map_err(|error| cut_off(&error))?;
        self.position += length;
        String::from_utf8(bytes).map_err(|_| Problem::damaged(format!("a name of a {what} is not UTF-8")))
    }

    /// Checks the keys and values. Returns the alignment of tensors in bytes.
    fn keys(&mut self, count: u64) -> Result<u64, Problem> {
        let (mut known, mut alignment) = (BTreeSet::new(), DEFAULT_ALIGNMENT);
        for _ in 0..count {
            let key = self.name("key")?;
            let kind = self.u32()?;
            if key == ALIGNMENT {
                alignment = if kind == U32 { u64::from(self.u32()?) } else { 0 };
                if !alignment.is_power_of_two() {
                    return Err(Problem::damaged(format!("`{ALIGNMENT}` is not a power of two of type u32")));
                }
            } else {
                self.value(&key, kind)?;
            }
            if let Some(key) = known.replace(key) {
                return Err(Problem::damaged(format!("key `{key}` is there twice")));
            }
        }
        Ok(alignment)
    }

    fn value(&mut self, key: &str, kind: u32) -> Result<(), Problem> {
        let unknown = |kind: u32| Problem::damaged(format!("key `{key}` has a value of the unknown type {kind}"));
        match kind {
            TEXT => self.text(key),
            LIST => {
                let (kind, count) = (self.u32()?, self.u64()?);
                self.elements = self.elements.saturating_add(count);
                if count > MAX_ELEMENTS || self.elements > MAX_ALL_ELEMENTS {
                    return Err(Problem::damaged(format!(
                        "key `{key}` has a list of {count} elements, and the limit is {MAX_ELEMENTS} in one list and \
                         {MAX_ALL_ELEMENTS} in all"
                    )));
                }
                match kind {
                    TEXT => (0..count).try_for_each(|_| self.text(key)),
                    // The type has no depth limit, and no key of a model is a list of lists.
                    LIST => Err(Problem::damaged(format!("key `{key}` is a list of lists"))),
                    kind => self.skip(width(kind).ok_or_else(|| unknown(kind))? * count),
                }
            }
            kind => self.skip(width(kind).ok_or_else(|| unknown(kind))?),
        }
    }

    fn text(&mut self, key: &str) -> Result<(), Problem> {
        let length = self.u64()?;
        if length > MAX_TEXT_BYTES {
            return Err(Problem::damaged(format!(
                "key `{key}` has a text of {length} bytes, and the limit is {MAX_TEXT_BYTES}"
            )));
        }
        self.skip(length)
    }

    /// Checks names, shapes, types and offsets of the tensors.
    fn tensors(&mut self, count: u64, alignment: u64) -> Result<Vec<TensorSpan>, Problem> {
        let (mut known, mut spans) = (BTreeSet::new(), Vec::new());
        for _ in 0..count {
            let name = self.name("tensor")?;
            let shape = self.shape(&name)?;
            let (kind, offset) = (self.u32()?, self.u64()?);
            let bytes = size(&name, &shape, kind)?;
            if !offset.is_multiple_of(alignment) {
                return Err(Problem::damaged(format!("tensor `{name}` is not aligned to {alignment} bytes")));
            }
            if !known.insert(name.clone()) {
                return Err(Problem::damaged(format!("tensor `{name}` is there twice")));
            }
            spans.push((name, offset, bytes));
        }
        Ok(spans)
    }

    /// Sizes of a tensor, the innermost first.
    fn shape(&mut self, name: &str) -> Result<Vec<u64>, Problem> {
        let dimensions = self.u32()?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(Problem::damaged(format!(
                "tensor `{name}` has {dimensions} dimensions, not 1 to {MAX_DIMENSIONS}"
            )));
        }
        let shape: Vec<u64> = (0..dimensions).map(|_| self.u64()).collect::<Result<_, _>>()?;
        let weights = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        if !weights.is_some_and(|weights| (1..=MAX_WEIGHTS).contains(&weights)) {
            return Err(Problem::damaged(format!("tensor `{name}` has the shape {shape:?}")));
        }
        Ok(shape)
    }

    /// Checks that the data of all tensors is in the file, and that no two share it.
    fn data(&self, spans: &[TensorSpan], alignment: u64) -> Result<(), Problem> {
        let start = self.position.next_multiple_of(alignment);
        let mut sorted: Vec<&TensorSpan> = spans.iter().collect();
        sorted.sort_by_key(|(_, offset, _)| *offset);
        let mut end = 0_u64;
        for (name, offset, bytes) in sorted {
            if *offset < end {
                return Err(Problem::damaged(format!("tensor `{name}` overlaps another one")));
            }
            end = offset.saturating_add(*bytes);
            if start.saturating_add(end) > self.length {
                return Err(Problem::damaged(format!("the file ends within tensor `{name}`")));
            }
        }
        Ok(())
    }
}

/// Bytes of a number or a truth value.
fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Bytes of a tensor.
fn size(name: &str, shape: &[u64], kind: u32) -> Result<u64, Problem> {
    let Some((_, known, weights, bytes)) = TYPES.iter().find(|(code, ..)| *code == kind) else {
        let other = OTHER_TYPES.iter().find(|(code, _)| *code == kind);
        let other = other.map_or_else(|| format!("the unknown type {kind}"), |(_, name)| format!("type {name}"));
        let names: Vec<&str> = TYPES.iter().map(|(_, name, ..)| *name).collect();
        return Err(Problem::unsupported(
            format!("tensor `{name}` has {other}"),
            format!("use a file with tensors of the types {}", names.join(", ")),
        ));
    };
    if !shape[0].is_multiple_of(*weights) {
        return Err(Problem::damaged(format!(
            "tensor `{name}` has rows of {} weights, but type {known} has blocks of {weights}",
            shape[0]
        )));
    }
    // At most 2^40 weights of at most 4 bytes.
    Ok(shape.iter().product::<u64>() / weights * bytes)
}

fn cut_off(error: &std::io::Error) -> Problem {
    if error.kind() == ErrorKind::UnexpectedEof { truncated() } else { Problem::damaged(error.to_string()) }
}

fn truncated() -> Problem {
    Problem::damaged("the file ends within its header")
}
