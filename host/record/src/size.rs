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

#[cfg(test)]
mod tests {
    use crate::{Media, Part, stored_bytes};

    #[test]
    fn escapes_and_base64_are_counted() {
        // {"text":"..."} has 11 bytes around the text; a control character takes six.
        assert_eq!(stored_bytes(&Part::Text("abc".to_owned())), 11 + 3);
        assert_eq!(stored_bytes(&Part::Text("\u{1}\n\"".to_owned())), 11 + 6 + 2 + 2);
        // {"image":{"mime":"a/b","bytes":"..."}}: 35 bytes around four thirds of the bytes.
        let image = Part::Image(Media { mime: "a/b".to_owned(), bytes: vec![255; 3_000] });
        assert_eq!(stored_bytes(&image), 35 + 4_000);
    }
}
