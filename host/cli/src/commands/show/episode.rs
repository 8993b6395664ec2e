//! An episode as a transcript with its scores, facts and logs, and the first prompt of each seat.

use std::collections::BTreeSet;

use gymkhana_chat::ChatFormat;
use gymkhana_orchestration::chat::read_chat_files;
use gymkhana_orchestration::run_file_of;
use gymkhana_record::{EpisodeRecord, NamedValue, Phase, SeatFunctions, Segment, Turn, Value, text_of};
use gymkhana_store::RunReader;

use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use crate::units::{self, counted};

/// Prints an episode of a run.
pub(super) fn show(run: &RunReader, record: &EpisodeRecord, printer: &Printer) -> CliResult<()> {
    printer.result(format!("episode {}  task {}  ended: {}", record.id, record.task_name(), record.ending));
    let file = run_file_of(run, &[])?;
    if !record.unsandboxed.is_empty() {
        printer.labelled("without sandbox", None, &record.unsandboxed.join(", "));
    }
    if let Some(system) = &file.policy.system {
        printer.labelled("system", None, system);
    }
    for SeatFunctions { seat, functions } in &record.opening.functions {
        if !functions.is_empty() {
            let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
            printer.labelled(&format!("functions of seat {seat}"), Some(*seat), &names.join(", "));
        }
    }
    for (place, turn) in record.turns.iter().enumerate() {
        show_notes(record, place, printer);
        show_turn(turn, printer);
    }
    show_notes(record, record.turns.len(), printer);
    for score in record.scores.iter().flat_map(|plugin| plugin.scores.iter().map(move |score| (plugin, score))) {
        let (plugin, score) = score;
        let parts: Vec<String> =
            score.components.iter().map(|part| format!("{} {}", part.name, units::decimal(part.value))).collect();
        printer.labelled(&plugin.plugin, None, &format!("{} ({})", units::decimal(score.total), parts.join(", ")));
    }
    let rewards: Vec<String> = record.rewards.iter().map(|reward| units::decimal(*reward)).collect();
    printer.labelled("reward", None, &rewards.join(", "));
    for (name, by_seat) in [("by turns", &record.turn_rewards), ("gains", &record.turn_gains)] {
        if by_seat.iter().flatten().any(|reward| *reward != 0.0) {
            let seat = |rewards: &Vec<f64>| {
                rewards.iter().map(|reward| units::decimal(*reward)).collect::<Vec<_>>().join(", ")
            };
            printer.labelled(name, None, &by_seat.iter().map(seat).collect::<Vec<_>>().join("; "));
        }
    }
    printer.labelled("success", None, if record.success { "yes" } else { "no" });
    for (name, facts) in [("facts", &record.extras), ("privileged", &record.privileged), ("tool views", &record.views)]
    {
        if !facts.is_empty() {
            printer.labelled(name, None, &facts.iter().map(fact).collect::<Vec<_>>().join(", "));
        }
    }
    for entry in &record.logs {
        printer.labelled("log", None, &format!("{}, {}: {}", entry.origin(), entry.level, entry.text.trim_end()));
    }
    for failure in &record.failures {
        printer.labelled("failure", None, &failure.to_string());
    }
    let tokens: usize = record.segments.iter().map(Segment::len).sum();
    printer.labelled("tokens", None, &format!("{tokens}, {} {}", record.sampled_tokens(), author(record)));
    Ok(())
}

fn show_turn(turn: &Turn, printer: &Printer) {
    let (seat, label, text) = match turn {
        Turn::Observation { seat, content } => (seat, format!("environment to seat {seat}"), text_of(content)),
        Turn::Thought { seat, text } => (seat, format!("seat {seat} thinks"), text.clone()),
        Turn::Message { seat, content } => (seat, format!("seat {seat}"), text_of(content)),
        Turn::Call { seat, call, .. } => {
            (seat, format!("seat {seat} calls"), format!("{} {}", call.name, call.arguments))
        }
        Turn::MalformedCall { seat, text, .. } => (seat, format!("seat {seat} calls (malformed)"), text.clone()),
        Turn::Answer { seat, content, failed, .. } => {
            (seat, if *failed { "answer (failed)" } else { "answer" }.to_owned(), text_of(content))
        }
    };
    printer.labelled(&label, Some(*seat), &text);
}

/// Prints the notes of policies at this position of the transcript.
fn show_notes(record: &EpisodeRecord, place: usize, printer: &Printer) {
    for turn in record.policy_turns.iter().filter(|turn| turn.transcript as usize == place) {
        if let Some(note) = &turn.note {
            printer.labelled(&format!("seat {} notes", turn.seat), Some(turn.seat), note);
        }
    }
}

/// Author of the replies: the oracle, or the newest weights that sampled, for each seat if there are several.
fn author(record: &EpisodeRecord) -> String {
    if record.id.phase == Phase::Demonstration {
        return "written by the oracle".to_owned();
    }
    let newest = |segments: &mut dyn Iterator<Item = &Segment>| {
        counted(segments.flat_map(|segment| segment.versions().iter().copied()).max().unwrap_or(0), "update")
    };
    let seats: BTreeSet<u32> = record.segments.iter().map(Segment::seat).collect();
    if seats.len() < 2 {
        return format!("sampled by the weights after {}", newest(&mut record.segments.iter()));
    }
    let of_seat = |seat: u32| {
        let updates = newest(&mut record.segments.iter().filter(|segment| segment.seat() == seat));
        format!("{updates} (seat {seat})")
    };
    format!("sampled by the weights after {}", seats.into_iter().map(of_seat).collect::<Vec<_>>().join(", "))
}

fn fact(fact: &NamedValue) -> String {
    let value = match &fact.value {
        Value::Flag(flag) => flag.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => units::decimal(*number),
        Value::Text(text) | Value::Other(text) => text.clone(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    };
    format!("{} {value}", fact.name)
}

/// Prints the tokens before the first sampled one of each seat, as text.
pub(super) fn show_prompt(run: &RunReader, record: &EpisodeRecord, printer: &Printer) -> CliResult<()> {
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
