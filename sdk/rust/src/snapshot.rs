//! Serialization of state: fields are written and read in the same order.

use crate::{Error, NamedValue, Value};

/// Writer of consecutive fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an integer: eight bytes, little-endian.
    #[must_use]
    pub fn integer(mut self, number: u64) -> Self {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// Adds a flag: one byte.
    #[must_use]
    pub fn flag(mut self, flag: bool) -> Self {
        self.bytes.push(u8::from(flag));
        self
    }

    /// Adds bytes, preceded by their count.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut longer = self.integer(bytes.len() as u64);
        longer.bytes.extend_from_slice(bytes);
        longer
    }

    /// Adds text, preceded by its length in bytes.
    #[must_use]
    pub fn text(self, words: &str) -> Self {
        self.bytes(words.as_bytes())
    }

    /// Adds named values, preceded by their count.
    #[must_use]
    pub fn named_values(self, values: &[NamedValue]) -> Self {
        let named = |writer: Self, NamedValue { name, value }: &NamedValue| writer.text(name).value(value);
        values.iter().fold(self.integer(values.len() as u64), named)
    }

    /// Adds a value with its type.
    #[must_use]
    pub fn value(self, value: &Value) -> Self {
        match value {
            Value::Flag(flag) => self.integer(0).flag(*flag),
            Value::Integer(integer) => self.integer(1).integer(*integer as u64),
            Value::Number(number) => self.integer(2).integer(number.to_bits()),
            Value::Text(words) => self.integer(3).text(words),
            Value::Bytes(bytes) => self.integer(4).bytes(bytes),
            Value::Other(json) => self.integer(5).text(json),
        }
    }

    /// Bytes of all fields.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reader for the output of a [`Writer`]. Invalid bytes give [`Error::BadSnapshot`], never a panic.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first field.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads an integer.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] if the bytes are not such a field; likewise for the other reads.
    pub fn integer(&mut self) -> Result<u64, Error> {
        let (number, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*number))
    }

    /// Reads a flag.
    ///
    /// # Errors
    ///
    /// See [`Reader::integer`].
    pub fn flag(&mut self) -> Result<bool, Error> {
        let (byte, rest) = self.rest.split_first().ok_or_else(short)?;
        self.rest = rest;
        match byte {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::bad_snapshot(format!("a flag of the snapshot is {other}, not 0 or 1"))),
        }
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// See [`Reader::integer`].
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = usize::try_from(self.integer()?).map_err(|_| short())?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads text.
    ///
    /// # Errors
    ///
    /// See [`Reader::integer`].
    pub fn text(&mut self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::bad_snapshot("a text of the snapshot is not UTF-8"))
    }

    /// Reads named values.
    ///
    /// # Errors
    ///
    /// See [`Reader::integer`].
    pub fn named_values(&mut self) -> Result<Vec<NamedValue>, Error> {
        (0..self.integer()?).map(|_| Ok(NamedValue { name: self.text()?.to_owned(), value: self.value()? })).collect()
    }

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// See [`Reader::integer`].
    pub fn value(&mut self) -> Result<Value, Error> {
        Ok(match self.integer()? {
            0 => Value::Flag(self.flag()?),
            1 => Value::Integer(self.integer()? as i64),
            2 => Value::Number(f64::from_bits(self.integer()?)),
            3 => Value::Text(self.text()?.to_owned()),
            4 => Value::Bytes(self.bytes()?.to_vec()),
            5 => Value::Other(self.text()?.to_owned()),
            kind => return Err(Error::bad_snapshot(format!("a value of the snapshot is of the unknown kind {kind}"))),
        })
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] if bytes remain.
    pub fn end(&self) -> Result<(), Error> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Error::bad_snapshot(format!("the snapshot has {left} trailing bytes"))),
        }
    }
}

/// State that a snapshot contains: its fields are read in the order in which they are written.
pub trait SnapshotState: Sized + 'static {
    /// Adds the state to a snapshot.
    #[must_use]
    fn write(&self, writer: Writer) -> Writer;

    /// Reads the state from a snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::BadSnapshot`] for invalid bytes.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Error>;
}

impl SnapshotState for () {
    fn write(&self, writer: Writer) -> Writer {
        writer
    }

    fn read(_reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(())
    }
}

impl SnapshotState for u64 {
    fn write(&self, writer: Writer) -> Writer {
        writer.integer(*self)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        reader.integer()
    }
}

impl<T: SnapshotState> SnapshotState for Vec<T> {
    fn write(&self, writer: Writer) -> Writer {
        self.iter().fold(writer.integer(self.len() as u64), |writer, item| item.write(writer))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        (0..reader.integer()?).map(|_| T::read(reader)).collect()
    }
}

fn short() -> Error {
    Error::bad_snapshot("the snapshot is truncated")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(u64, bool, String), Error> {
        let mut reader = Reader::new(bytes);
        let fields = (reader.integer()?, reader.flag()?, reader.text()?.to_owned());
        reader.end()?;
        Ok(fields)
    }

    #[test]
    fn readers_accept_exactly_the_written_fields() {
        let bytes = Writer::new().integer(u64::MAX).flag(true).text("ice").finish();
        assert_eq!(read(&bytes), Ok((u64::MAX, true, "ice".into())));
        for length in 0..bytes.len() {
            assert!(matches!(read(&bytes[..length]), Err(Error::BadSnapshot(_))), "cut at {length}");
        }
        assert!(matches!(read(&[bytes.as_slice(), &[0]].concat()), Err(Error::BadSnapshot(_))));
        let mut absurd = bytes;
        absurd[9..17].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(read(&absurd), Err(Error::BadSnapshot(_))));
    }

    #[test]
    fn named_values_are_restored_as_they_were_saved() {
        let values = [
            Value::Flag(true),
            Value::Integer(-3),
            Value::Number(0.5),
            Value::Text("x".into()),
            Value::Bytes(vec![1, 2]),
            Value::Other("[1]".into()),
        ];
        let facts = values.map(|value| NamedValue { name: "fact".into(), value });
        let bytes = Writer::new().named_values(&facts).finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.named_values(), Ok(facts.to_vec()));
        assert_eq!(reader.end(), Ok(()));
        for length in 0..bytes.len() {
            assert!(Reader::new(&bytes[..length]).named_values().is_err(), "cut at {length}");
        }
    }
}
