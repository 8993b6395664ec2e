//! The first prompt of each seat, with the system prompt and functions as the chat template wrote them.

use std::collections::BTreeSet;

use gymkhana_chat::ChatFormat;
use gymkhana_orchestration::chat::read_chat_files;
use gymkhana_record::EpisodeRecord;
use gymkhana_store::RunReader;

use crate::error::{Classify, CliResult};
use crate::printer::Printer;

/// Prints the tokens before the first sampled one of each seat, as text.
pub(super) fn show(run: &RunReader, record: &EpisodeRecord, printer: &Printer) -> CliResult<()> {
    let chat = ChatFormat::new(&read_chat_files(run.path())?).user_error()?;
    let mut shown = BTreeSet::new();
    for segment in record.segments.iter().filter(|segment| shown.insert(segment.seat())) {
        let length = segment.sampled().iter().position(|sampled| *sampled).unwrap_or(segment.len());
        let text = chat.decode(&segment.tokens()[..length]).user_error()?;
        printer.result(format!("--- prompt of seat {}, {length} tokens", segment.seat()));
        printer.result(text);
        printer.result("---");
    }
    Ok(())
}
