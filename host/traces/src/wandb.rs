//! Episodes as rows of a table of Weights & Biases.

use gymkhana_record::{EpisodeRecord, Turn};
use serde_json::json;

use crate::events::events;
use crate::{About, chat, trace_id};

/// Columns of the table.
pub const COLUMNS: [&str; 14] = [
    "episode",
    "stage",
    "phase",
    "step",
    "group",
    "member",
    "environment",
    "task",
    "seat",
    "success",
    "reward",
    "calls",
    "ending",
    "conversation",
];

/// The row of a seat; none if it heard and did nothing. The conversation is a text for people.
pub(crate) fn row(record: &EpisodeRecord, seat: u32, about: &About) -> serde_json::Result<Option<String>> {
    if events(record, seat).is_empty() {
        return Ok(None);
    }
    let id = &record.id;
    let calls = record.turns.iter().filter(|turn| matches!(turn, Turn::Call { seat: of, .. } if *of == seat));
    let row = json!([
        trace_id(record, seat),
        id.stage,
        id.phase.word(),
        id.step,
        id.group,
        id.member,
        record.environment,
        record.task_name(),
        seat,
        record.success,
        record.rewards.get(seat as usize),
        calls.count(),
        record.ending.to_string(),
        chat::for_people(record, seat, about),
    ]);
    serde_json::to_string(&row).map(Some)
}
