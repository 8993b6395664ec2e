//! Beginnings that episodes share are stored once: a fork's row leaves out what stands in its parent's.
//!
//! What is left out is what is equal, looked up and not assumed, so that joining gives the record back exactly.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use gymkhana_record::{EpisodeId, EpisodeRecord, Segment};

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
            tokens: common_tokens(&Segment::joined(&parent.segments), &Segment::joined(&record.segments)),
            turns: parent.turns.iter().zip(&record.turns).take_while(|(one, other)| one == other).count(),
        }));
        above.insert(record.id, record);
    }
    shares
}

/// How many tokens two sequences begin with that are equal in every column, bit by bit.
fn common_tokens(one: &Segment, other: &Segment) -> usize {
    let equal = |at: &usize| {
        let at = *at;
        one.tokens[at] == other.tokens[at]
            && one.sampled[at] == other.sampled[at]
            && one.log_probs[at].to_bits() == other.log_probs[at].to_bits()
            && one.entropies[at].to_bits() == other.entropies[at].to_bits()
            && one.versions[at] == other.versions[at]
            && one.seats[at] == other.seats[at]
            && one.turns[at] == other.turns[at]
    };
    (0..one.len().min(other.len())).take_while(equal).count()
}
