//! Thrift's compact protocol, as far as the headers of pages need it: integers and structures; other values are skipped.
//! Source: the specification `thrift-compact-protocol.md`.

/// Deepest nesting of values.
const MAX_DEPTH: u32 = 16;

/// The fields of a structure.
#[derive(Debug, Default)]
pub(super) struct StructFields(Vec<(i16, ThriftValue)>);

/// A value.
#[derive(Debug)]
pub(super) enum ThriftValue {
    Integer(i64),
    Struct(StructFields),
    /// A value of another type.
    Other,
}

impl StructFields {
    /// Reads a structure and moves behind it; `None` if the bytes end before it does, or are none.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Self> {
        fields(bytes, MAX_DEPTH)
    }

    /// The field with an id.
    pub(super) fn get(&self, id: i16) -> Option<&ThriftValue> {
        self.0.iter().find(|(own, _)| *own == id).map(|(_, value)| value)
    }
}

fn fields(bytes: &mut &[u8], depth: u32) -> Option<StructFields> {
    let depth = depth.checked_sub(1)?;
    let (mut found, mut last) = (StructFields::default(), 0_i16);
    loop {
        let head = byte(bytes)?;
        let kind = head & 0xf;
        if kind == 0 {
            return Some(found);
        }
        let id = match head >> 4 {
            0 => i16::try_from(zigzag(bytes)?).ok()?,
            delta => last.checked_add(i16::from(delta))?,
        };
        last = id;
        let value = value(bytes, kind, depth)?;
        found.0.push((id, value));
    }
}

fn value(bytes: &mut &[u8], kind: u8, depth: u32) -> Option<ThriftValue> {
    match kind {
        // The value of a boolean field is its type.
        1 | 2 => {}
        3 => drop(byte(bytes)?),
        4..=6 => return zigzag(bytes).map(ThriftValue::Integer),
        7 => skip(bytes, 8)?,
        8 => {
            let length = varint(bytes)?;
            skip(bytes, length)?;
        }
        9 | 10 => list(bytes, depth)?,
        11 => map(bytes, depth)?,
        12 => return fields(bytes, depth).map(ThriftValue::Struct),
        _ => return None,
    }
    Some(ThriftValue::Other)
}

fn list(bytes: &mut &[u8], depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let head = byte(bytes)?;
    let length = if head >> 4 == 15 { varint(bytes)? } else { u64::from(head >> 4) };
    (0..length).try_for_each(|_| element(bytes, head & 0xf, depth))
}

fn map(bytes: &mut &[u8], depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let length = varint(bytes)?;
    if length == 0 {
        return Some(());
    }
    let kinds = byte(bytes)?;
    (0..length).try_for_each(|_| {
        element(bytes, kinds >> 4, depth)?;
        element(bytes, kinds & 0xf, depth)
    })
}

/// Skips an element of a list or a map, in which booleans have a byte.
fn element(bytes: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    if matches!(kind, 1 | 2) { byte(bytes).map(drop) } else { value(bytes, kind, depth).map(drop) }
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn skip(bytes: &mut &[u8], length: u64) -> Option<()> {
    *bytes = bytes.get(usize::try_from(length).ok()?..)?;
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        value |= u64::from(next & 0x7f).checked_shl(shift)?;
        if next & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let value = varint(bytes)?;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page header by hand: type 0, 300 bytes, 100 in the file, then a structure with 5 values in encoding 7.
    #[test]
    fn integers_and_structures_are_read() {
        let bytes = [0x15, 0, 0x15, 0xd8, 0x04, 0x15, 0xc8, 0x01, 0x2c, 0x15, 10, 0x15, 14, 0, 0, 99];
        let mut rest = &bytes[..];
        let fields = StructFields::read(&mut rest).unwrap();
        assert_eq!(rest, [99]);
        let integer = |fields: &StructFields, id| match fields.get(id) {
            Some(ThriftValue::Integer(value)) => *value,
            other => panic!("{other:?}"),
        };
        assert_eq!((integer(&fields, 1), integer(&fields, 2), integer(&fields, 3)), (0, 300, 100));
        let Some(ThriftValue::Struct(data)) = fields.get(5) else { panic!("{fields:?}") };
        assert_eq!((integer(data, 1), integer(data, 2)), (5, 7));
    }

    #[test]
    fn what_ends_early_or_has_no_end_is_refused() {
        for bytes in [&b""[..], &[0x15], &[0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0], &[0x1e, 0], &[0x15, 0xff]] {
            assert!(StructFields::read(&mut { bytes }).is_none(), "{bytes:?}");
        }
        assert!(StructFields::read(&mut &[0x1c; 1000][..]).is_none(), "structures in structures");
        assert!(StructFields::read(&mut &[0x19; 1000][..]).is_none(), "lists in lists");
        // A list of 2^40 booleans in a few bytes ends with the bytes.
        assert!(StructFields::read(&mut &[0x19, 0xf1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 1, 1][..]).is_none());
    }
}
