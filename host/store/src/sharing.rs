//! Beginnings that episodes share are stored once: a fork's row leaves out what stands in its parent's.
//!
//! What is left out is what is equal, looked up and not assumed, so that joining gives the record back exactly.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use gymkhana_record::{EpisodeId, EpisodeRecord};

use crate::columns::JoinedColumns;
use crate::part::{Cause, text};

/// What a row leaves out because it stands in another row of the part, above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shared {
    /// The other row's episode.
    pub parent: EpisodeId,
    /// Tokens of the joined segments.
    pub tokens: usize,
    /// Turns of the transcript.
    pub turns: usize,
}

impl Shared {
    /// What a row of a part leaves out.
    pub fn read(batch: &RecordBatch, row: usize) -> Result<Option<Self>, Cause> {
        let count = |column: &str| -> Result<usize, Cause> {
            let counts = batch.column_by_name(column).and_then(|array| array.as_primitive_opt::<UInt32Type>());
            Ok(counts.ok_or_else(|| format!("there is no column `{column}` of counts"))?.value(row) as usize)
        };
        let parents = batch.column_by_name("parent").ok_or("there is no column `parent`")?;
        if parents.is_null(row) {
            return Ok(None);
        }
        let parent = text(batch, "parent", row)?.parse()?;
        Ok(Some(Self { parent, tokens: count("shared_tokens")?, turns: count("shared_turns")? }))
    }
}

/// For each record what its row leaves out, if anything.
pub(crate) fn shares(records: &[&EpisodeRecord]) -> Vec<Option<Shared>> {
    let mut above: HashMap<EpisodeId, &EpisodeRecord> = HashMap::new();
    let mut shares = Vec::with_capacity(records.len());
    for &record in records {
        let parent = record.forks.last().and_then(|fork| above.get(&fork.parent));
        shares.push(parent.map(|parent| Shared {
            parent: parent.id,
            tokens: JoinedColumns::of(&parent.segments).common_tokens(&JoinedColumns::of(&record.segments)),
            turns: parent.turns.iter().zip(&record.turns).take_while(|(one, other)| one == other).count(),
        }));
        above.insert(record.id, record);
    }
    shares
}
