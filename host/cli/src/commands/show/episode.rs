//! An episode as a transcript with its scores, facts and logs.

use std::collections::BTreeSet;

use gymkhana_config::RunFile;
use gymkhana_record::{EpisodeRecord, NamedValue, SeatFunctions, Segment, Turn, Value, text_of};
use gymkhana_store::RunReader;

use crate::error::{Classify, CliResult};
use crate::printer::Printer;

/// Prints an episode of a run.
pub(super) fn show(run: &RunReader, record: &EpisodeRecord, printer: &Printer) -> CliResult<()> {
    printer.result(format!("episode {}  task {}  ended: {}", record.id, record.task, record.ending));
    let file = RunFile::parse(&run.run_text()?, "run.toml", &[]).user_error()?;
    if !record.unsandboxed.is_empty() {
        printer.result(line("without sandbox", &record.unsandboxed.join(", ")));
    }
    if let Some(system) = &file.policy.system {
        printer.result(line("system", system));
    }
    for SeatFunctions { seat, functions } in &record.opening.functions {
        if !functions.is_empty() {
            let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
            printer.result(line(&format!("functions of seat {seat}"), &names.join(", ")));
        }
    }
    for (place, turn) in record.turns.iter().enumerate() {
        show_notes(record, place, printer);
        printer.result(match turn {
            Turn::Observation { seat, content } => line(&format!("environment to seat {seat}"), &text_of(content)),
            Turn::Message { seat, content } => line(&format!("seat {seat}"), &text_of(content)),
            Turn::Call { seat, call, .. } => {
                line(&format!("seat {seat} calls"), &format!("{} {}", call.name, call.arguments))
            }
            Turn::MalformedCall { seat, text, .. } => line(&format!("seat {seat} calls (malformed)"), text),
            Turn::Answer { content, failed, .. } => {
                line(if *failed { "answer (failed)" } else { "answer" }, &text_of(content))
            }
        });
    }
    show_notes(record, record.turns.len(), printer);
    for score in record.scores.iter().flat_map(|plugin| plugin.scores.iter().map(move |score| (plugin, score))) {
        let (plugin, score) = score;
        let parts: Vec<String> = score.components.iter().map(|part| format!("{} {}", part.name, part.value)).collect();
        printer.result(line(&plugin.plugin, &format!("{} ({})", score.total, parts.join(", "))));
    }
    let rewards: Vec<String> = record.rewards.iter().map(ToString::to_string).collect();
    printer.result(line("reward", &rewards.join(", ")));
    for (name, by_seat) in [("by turns", &record.turn_rewards), ("gains", &record.turn_gains)] {
        if by_seat.iter().flatten().any(|reward| *reward != 0.0) {
            let seat = |rewards: &Vec<f64>| rewards.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            printer.result(line(name, &by_seat.iter().map(seat).collect::<Vec<_>>().join("; ")));
        }
    }
    printer.result(line("success", if record.success { "yes" } else { "no" }));
    for (name, facts) in [("facts", &record.extras), ("privileged", &record.privileged), ("tool views", &record.views)]
    {
        if !facts.is_empty() {
            printer.result(line(name, &facts.iter().map(fact).collect::<Vec<_>>().join(", ")));
        }
    }
    for entry in &record.logs {
        printer.result(line("log", &format!("{}, {}: {}", entry.origin(), entry.level, entry.text.trim_end())));
    }
    for failure in &record.failures {
        printer.result(line("failure", &failure.to_string()));
    }
    let tokens: usize = record.segments.iter().map(Segment::len).sum();
    printer.result(line(
        "tokens",
        &format!("{tokens}, {} sampled, by weight version {}", record.sampled_tokens(), versions(record)),
    ));
    Ok(())
}

/// Prints the notes of policies at this position of the transcript.
fn show_notes(record: &EpisodeRecord, place: usize, printer: &Printer) {
    for turn in record.policy_turns.iter().filter(|turn| turn.transcript as usize == place) {
        if let Some(note) = &turn.note {
            printer.result(line(&format!("seat {} notes", turn.seat), note));
        }
    }
}

/// The newest weight version that sampled; per seat if there are several.
fn versions(record: &EpisodeRecord) -> String {
    let newest = |segments: &mut dyn Iterator<Item = &Segment>| {
        segments.flat_map(|segment| segment.versions().iter().copied()).max().unwrap_or(0)
    };
    let seats: BTreeSet<u32> = record.segments.iter().map(Segment::seat).collect();
    if seats.len() < 2 {
        return newest(&mut record.segments.iter()).to_string();
    }
    let of_seat = |seat: u32| {
        let version = newest(&mut record.segments.iter().filter(|segment| segment.seat() == seat));
        format!("{version} (seat {seat})")
    };
    seats.into_iter().map(of_seat).collect::<Vec<_>>().join(", ")
}

/// A labelled line; further lines of text are indented.
fn line(label: &str, text: &str) -> String {
    format!("{label:>21}  {}", text.replace('\n', "\n                       "))
}

fn fact(fact: &NamedValue) -> String {
    let value = match &fact.value {
        Value::Flag(flag) => flag.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) | Value::Other(text) => text.clone(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    };
    format!("{} {value}", fact.name)
}
