//! Messages of an Arrow stream, whose sizes are checked against the file before one is read.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Largest metadata of a message in bytes.
const MAX_METADATA: u64 = 64 << 20;
/// Mark before the size of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Checks that every message lies within the file.
pub(super) fn check(file: &File) -> Result<(), String> {
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let mut at = 0_u64;
    while at < size {
        let mut word = [0; 4];
        let mut next = |at: &mut u64| {
            file.read_exact_at(&mut word, *at).map_err(|error| error.to_string())?;
            *at += 4;
            Ok::<_, String>(word)
        };
        let mut length = next(&mut at)?;
        if length == CONTINUATION {
            length = next(&mut at)?;
        }
        let length = u64::from(u32::from_le_bytes(length));
        if length == 0 {
            return Ok(());
        }
        if length > MAX_METADATA || length > size - at {
            return Err(format!("a message has {length} bytes of metadata"));
        }
        let mut metadata = vec![0; length as usize];
        file.read_exact_at(&mut metadata, at).map_err(|error| error.to_string())?;
        let message = arrow_ipc::root_as_message(&metadata).map_err(|error| error.to_string())?;
        at += length;
        let body = u64::try_from(message.bodyLength()).unwrap_or(u64::MAX);
        if body > size - at {
            return Err(format!("a message has a body of {body} bytes, which the file does not hold"));
        }
        at += body;
    }
    Ok(())
}
