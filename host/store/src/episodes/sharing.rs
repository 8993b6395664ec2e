//! Stores shared beginnings of episodes once: a fork's row omits the tokens and turns that its parent's row holds.
//!
//! The shared length is found by comparing both records, so that joining restores the exact record.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use gymkhana_record::{EpisodeId, EpisodeRecord};

use crate::episodes::cells::{BoxError, text};
use crate::episodes::columns::JoinedColumns;

/// Beginning of a row that is stored in an earlier row of the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedPrefix {
    /// Episode of the earlier row.
    pub parent: EpisodeId,
    /// Number of shared tokens of the joined segments.
    pub tokens: usize,
    /// Number of shared turns of the transcript.
    pub turns: usize,
}

impl SharedPrefix {
    /// Reads which beginning a row of a part omits.
    pub fn read(batch: &RecordBatch, row: usize) -> Result<Option<Self>, BoxError> {
        let count = |column: &str| -> Result<usize, BoxError> {
            let counts = batch.column_by_name(column).and_then(|array| array.as_primitive_opt::<UInt32Type>());
            Ok(counts.ok_or_else(|| format!("column `{column}` of counts is missing"))?.value(row) as usize)
        };
        let parents = batch.column_by_name("parent").ok_or("column `parent` is missing")?;
        if parents.is_null(row) {
            return Ok(None);
        }
        let parent = text(batch, "parent", row)?.parse()?;
        Ok(Some(Self { parent, tokens: count("shared_tokens")?, turns: count("shared_turns")? }))
    }
}

/// Shared beginning of each record, if its parent is an earlier record.
pub(crate) fn shares(records: &[&EpisodeRecord]) -> Vec<Option<SharedPrefix>> {
    let mut above: HashMap<EpisodeId, &EpisodeRecord> = HashMap::new();
    let mut shares = Vec::with_capacity(records.len());
    for &record in records {
        let parent = record.forks.last().and_then(|fork| above.get(&fork.parent));
        shares.push(parent.map(|parent| SharedPrefix {
            parent: parent.id,
            tokens: JoinedColumns::of(&parent.segments).common_tokens(&JoinedColumns::of(&record.segments)),
            turns: parent.turns.iter().zip(&record.turns).take_while(|(one, other)| one == other).count(),
        }));
        above.insert(record.id, record);
    }
    shares
}
