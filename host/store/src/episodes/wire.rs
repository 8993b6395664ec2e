//! Episodes as bytes for another process: each with its length in front, laid out as in the journal.

use gymkhana_record::EpisodeRecord;

use crate::StoreError;
use crate::episodes::entry::{BadEntry, SerializedRecord};

/// Reason why bytes are not episodes.
#[derive(Debug, thiserror::Error)]
pub enum BadEpisodes {
    /// The bytes end within an episode, or an episode has bytes left over.
    #[error("the bytes of the episodes have another length than they say")]
    Length,
    /// An episode is not a record.
    #[error("an episode is malformed")]
    Json(#[source] serde_json::Error),
    /// The records have an unsupported schema.
    #[error("the episodes have schema {0}, which this program does not read")]
    Schema(u32),
}

/// Bytes of these episodes.
///
/// # Errors
/// If a record holds a number that is not finite, or is larger than 4 GiB.
pub fn encode_episodes(records: &[EpisodeRecord]) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    for record in records {
        let entry = SerializedRecord::new(record)?;
        let length =
            u32::try_from(entry.len()).map_err(|_| StoreError::Unstorable(record.id, "it is larger than 4 GiB"))?;
        bytes.extend(length.to_le_bytes());
        entry.encode(&mut bytes);
    }
    Ok(bytes)
}

/// The episodes of bytes that [`encode_episodes`] made.
///
/// # Errors
/// If the bytes are anything else. They may come from a program that is not trusted.
pub fn decode_episodes(mut bytes: &[u8]) -> Result<Vec<EpisodeRecord>, BadEpisodes> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk().ok_or(BadEpisodes::Length)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (entry, rest) = rest.split_at_checked(length).ok_or(BadEpisodes::Length)?;
        records.push(SerializedRecord::decode(entry).map_err(BadEpisodes::from)?.record);
        bytes = rest;
    }
    Ok(records)
}

impl From<BadEntry> for BadEpisodes {
    fn from(error: BadEntry) -> Self {
        match error {
            BadEntry::Json(source) => Self::Json(source),
            BadEntry::Schema(found) => Self::Schema(found),
            BadEntry::Length => Self::Length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::record;

    #[test]
    fn episodes_come_back_and_cut_bytes_are_refused() {
        let records = [record(0), record(1)];
        let bytes = encode_episodes(&records).unwrap();
        assert_eq!(decode_episodes(&bytes).unwrap(), records);
        assert_eq!(decode_episodes(&[]).unwrap(), []);
        for length in [1, 3, 10, bytes.len() - 1] {
            assert!(decode_episodes(&bytes[..length]).is_err(), "{length}");
        }
    }
}
