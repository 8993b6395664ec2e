//! Recorded episodes as traces of other programs: ATIF, OpenEnv's training traces, traces of verifiers, chat messages of
//! OpenAI and ShareGPT, spans of OpenTelemetry, and rows of Weights & Biases.
//!
//! A trace belongs to one seat of an episode. Its token ids and log-probabilities are the record's: text is not tokenised
//! again. `atif`, `openenv` and `verifiers` write one format each from the events and replies of a seat, `chat` two of text
//! without tokens, `spans` two for viewers of traces, and `wandb` a table.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod atif;
mod chat;
mod events;
mod function;
mod openenv;
mod replies;
mod spans;
mod verifiers;
mod wandb;

use std::collections::BTreeSet;

use gymkhana_record::{EpisodeRecord, Segment};

pub use wandb::COLUMNS as WANDB_COLUMNS;

use spans::AttributeNames;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// Agent Trajectory Interchange Format 1.8, as Harbor reads it.
    Atif,
    /// `TrainingTrace` of OpenEnv, schema 1.
    OpenEnv,
    /// `Trace` of verifiers, version 1.
    Verifiers,
    /// Chat messages with tool calls, as OpenAI's fine-tuning reads them.
    OpenAi,
    /// Turns of `from` and `value`, as ShareGPT and LLaMA-Factory write them.
    ShareGpt,
    /// Spans in OTLP's JSON, named by OpenTelemetry's conventions for generative AI.
    GenAi,
    /// Spans in OTLP's JSON, named by OpenInference.
    OpenInference,
    /// Rows of a table of Weights & Biases, with [`WANDB_COLUMNS`].
    Wandb,
}

/// Facts of the run that its records do not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Name of the agent: its program, or this project's.
    pub agent: String,
    /// Version of this program.
    pub version: String,
    /// Name of the model.
    pub model: String,
    /// The first message of every conversation.
    pub system: Option<String>,
    /// Time at which the run file was written (nanoseconds since 1970).
    pub begun_ns: u64,
}

/// The traces of an episode as texts of JSON, in the order of its seats. A seat without an entry in the transcript has none, and neither
/// has one without tokens in a format that needs them.
///
/// # Errors
/// If a number of the record is not a JSON number, which its checks exclude.
pub fn traces(record: &EpisodeRecord, about: &About, format: TraceFormat) -> serde_json::Result<Vec<String>> {
    let seats: BTreeSet<u32> = events::seats(record).chain(record.segments.iter().map(Segment::seat)).collect();
    let trace = |seat| match format {
        TraceFormat::Atif => atif::trajectory(record, seat, about),
        TraceFormat::OpenEnv => openenv::trace(record, seat),
        TraceFormat::Verifiers => verifiers::trace(record, seat, about),
        TraceFormat::OpenAi => chat::openai(record, seat, about),
        TraceFormat::ShareGpt => chat::share_gpt(record, seat, about),
        TraceFormat::GenAi => spans::trace(record, seat, about, AttributeNames::GenAi),
        TraceFormat::OpenInference => spans::trace(record, seat, about, AttributeNames::OpenInference),
        TraceFormat::Wandb => wandb::row(record, seat, about),
    };
    seats.into_iter().filter_map(|seat| trace(seat).transpose()).collect()
}

/// The name of an episode's trace: its id, and the seat if there are several.
fn trace_id(record: &EpisodeRecord, seat: u32) -> String {
    if record.opening.functions.len() > 1 { format!("{}/{seat}", record.id) } else { record.id.to_string() }
}

#[cfg(test)]
mod tests;
