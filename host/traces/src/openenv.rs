//! OpenEnv's `TrainingTrace`: one entry for each reply, with the tokens before it and the loss mask of both.

use gymkhana_record::EpisodeRecord;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::replies::{RecordedReply, replies};

/// The version of the format.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct TrainingTrace<'r> {
    schema_version: u32,
    turns: Vec<TrainingTurn<'r>>,
}

#[derive(Serialize)]
struct TrainingTurn<'r> {
    node_id: String,
    prompt_token_ids: &'r [u32],
    completion_token_ids: &'r [u32],
    per_token_logps: &'r [f32],
    loss_mask: Vec<u8>,
    metadata: Json,
}

/// The trace of a seat; none if its record holds no tokens. Rewards are in the metadata of each turn, because the format
/// has no other place for them.
pub(crate) fn trace(record: &EpisodeRecord, seat: u32) -> serde_json::Result<Option<String>> {
    let turns: Vec<_> = replies(record, seat).into_iter().map(|reply| turn(record, seat, reply)).collect();
    if turns.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&TrainingTrace { schema_version: SCHEMA, turns }).map(Some)
}

fn turn<'r>(record: &EpisodeRecord, seat: u32, reply: RecordedReply<'r>) -> TrainingTurn<'r> {
    let mut loss_mask = vec![0; reply.prompt.len()];
    loss_mask.resize(reply.prompt.len() + reply.tokens.len(), 1);
    TrainingTurn {
        node_id: format!("{}/{seat}/{}", record.id, reply.turn),
        prompt_token_ids: reply.prompt,
        completion_token_ids: reply.tokens,
        per_token_logps: reply.log_probs,
        loss_mask,
        metadata: json!({
            "episode": record.id.to_string(), "task": record.task_name(), "seat": seat, "turn": reply.turn,
            "segment": reply.segment, "weight_version": reply.version, "success": record.success,
            "reward": record.rewards.get(seat as usize),
        }),
    }
}
