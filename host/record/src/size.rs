//! Size of a value in a record, as its JSON, without writing it.

use std::io::{self, Write};

use serde::Serialize;

/// Counts what is written.
#[derive(Default)]
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Number of bytes of a value's JSON. A value that has no JSON, which no record can hold, counts as too large.
#[must_use]
pub fn stored_bytes<T: Serialize + ?Sized>(value: &T) -> u64 {
    let mut counter = Counter::default();
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => u64::MAX,
    }
}

/// Upper bound of the number of values of a JSON text: each follows one of these signs outside of strings, except for the
/// outermost.
///
/// A parsed value takes up to 300 bytes, so that a text of many small values needs far more memory than its size.
#[must_use]
pub fn json_values_at_most(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' | b':' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::{Media, Part, json_values_at_most, stored_bytes};

    #[test]
    fn escapes_and_base64_are_counted() {
        // {"text":"..."} has 11 bytes around the text; a control character takes six.
        assert_eq!(stored_bytes(&Part::Text("abc".to_owned())), 11 + 3);
        assert_eq!(stored_bytes(&Part::Text("\u{1}\n\"".to_owned())), 11 + 6 + 2 + 2);
        // {"image":{"mime":"a/b","bytes":"..."}}: 35 bytes around four thirds of the bytes.
        let image = Part::Image(Media { mime: "a/b".to_owned(), bytes: vec![255; 3_000] });
        assert_eq!(stored_bytes(&image), 35 + 4_000);
    }

    /// Number of values of a JSON text, counted by the parser.
    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(map) => map.values().map(count).sum(),
            _ => 0,
        }
    }

    #[test]
    fn the_bound_of_values_holds() {
        let quoted = r#"["a: b, {c}", "\", ,", ",,,,,,,,,,"]"#;
        for text in ["0", "[]", "[0, [1, [2]], {}]", r#"{"a": {"b": [1, 2]}, "c": "d"}"#, quoted] {
            let values = count(&serde_json::from_str(text).expect("JSON"));
            let bound = json_values_at_most(text.as_bytes());
            assert!((values..=2 * values).contains(&bound), "{text}: {values}, {bound}");
        }
    }
}
