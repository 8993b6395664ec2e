//! Recorded episodes, grouped.

use gymkhana_record::{EpisodeId, EpisodeRecord};
use gymkhana_store::StoreError;

use crate::error::{RunError, RunResult};

/// Groups consecutive episodes of the same group.
pub fn groups(
    records: impl Iterator<Item = Result<EpisodeRecord, StoreError>>,
) -> impl Iterator<Item = RunResult<Vec<EpisodeRecord>>> {
    let mut records = records.peekable();
    std::iter::from_fn(move || {
        let first = match records.next()? {
            Ok(record) => record,
            Err(error) => return Some(Err(RunError::from(error))),
        };
        let group = |id: EpisodeId| (id.stage, id.phase, id.step, id.group);
        let key = group(first.id);
        let mut members = vec![first];
        while let Some(Ok(next)) = records.next_if(|next| next.as_ref().is_ok_and(|next| group(next.id) == key)) {
            members.push(next);
        }
        Some(Ok(members))
    })
}
