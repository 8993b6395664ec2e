//! What an episode's record holds beside its turns: scores, failures, log lines, costs, outbound calls, functions.

use gymkhana_record::{EpisodeRecord, Evidence, Exchange, Question, Refused, Reply};
use maud::{Markup, html};

use super::content::{content, text};
use super::transcript;
use crate::layout::scrolling;
use crate::words::{number, numbers, visible};

/// Most rows of the tables of costs, log lines and outbound calls.
const ROWS: usize = 500;

/// Scores of each reward plugin.
pub(super) fn scores(record: &EpisodeRecord) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Reward" } th.number scope="col" { "Seat" } th.number scope="col" { "Total" }
                th scope="col" { "Components" } th scope="col" { "By turn" } th scope="col" { "Evidence" }
            } }
            tbody {
                @for plugin in &record.scores {
                    @for score in &plugin.scores {
                        tr {
                            th scope="row" { (visible(&plugin.plugin)) }
                            td.number { (score.seat) }
                            td.number { (number(score.total)) }
                            td { ul.plain { @for part in &score.components { li { (visible(&part.name)) ": " (number(part.value)) } } } }
                            td { @if !score.turns.is_empty() { (numbers(&score.turns)) } }
                            td { ul.plain {
                                @for passage in &score.evidence {
                                    li { (evidence(record, passage)) }
                                }
                            } }
                        }
                    }
                }
            }
        }
    };
    html! { @if !record.scores.is_empty() { (scrolling("Scores", &table)) } }
}

/// A passage of evidence: its note, and the words with a link to their turn.
fn evidence(record: &EpisodeRecord, passage: &Evidence) -> Markup {
    let words = record.turns.get(passage.turn as usize).map(transcript::words).unwrap_or_default();
    // Ends inside of a character, and outside of the text, are moved to the next boundary before them.
    let [start, end] = [passage.start, passage.end].map(|place| words.floor_char_boundary(place as usize));
    html! {
        (visible(&passage.note)) " "
        a href=(format!("#turn-{}", passage.turn)) { "turn " (passage.turn) }
        @if let Some(found) = words.get(start..end).filter(|found| !found.is_empty()) { ": " mark { (visible(found)) } }
    }
}

/// Failures, in order.
pub(super) fn failures(record: &EpisodeRecord) -> Markup {
    html! {
        @if !record.failures.is_empty() {
            h2 { "Failures" }
            ul { @for failure in &record.failures {
                li { strong { (failure.kind.to_string()) } " of " (visible(&failure.at.to_string())) " during "
                    (visible(&failure.call_site.to_string())) ":" (text(&failure.message)) }
            } }
        }
    }
}

/// Log lines of plugins.
pub(super) fn logs(record: &EpisodeRecord) -> Markup {
    let table = html! {
        table {
            thead { tr { th scope="col" { "Origin" } th scope="col" { "Level" } th scope="col" { "Line" } } }
            tbody { @for entry in record.logs.iter().take(ROWS) {
                tr { td { (visible(&entry.origin())) } td { (entry.level.to_string()) } td { (text(&entry.text)) } }
            } }
        }
    };
    folded("Log lines", record.logs.len(), &table)
}

/// Costs of plugin calls.
pub(super) fn costs(record: &EpisodeRecord) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Plugin" } th scope="col" { "Call" } th.number scope="col" { "Milliseconds" }
                th.number scope="col" { "Fuel" } th.number scope="col" { "Memory (MiB)" }
            } }
            tbody { @for call in record.costs.iter().take(ROWS) {
                tr {
                    td { (visible(&call.at.to_string())) }
                    td { (visible(&call.call_site.to_string())) }
                    td.number { (number(call.cost.running_us / 1000.0)) }
                    td.number { @if let Some(fuel) = call.cost.fuel { (fuel) } }
                    td.number { @if let Some(bytes) = call.cost.memory_bytes { (number(bytes as f64 / f64::from(1 << 20))) } }
                }
            } }
        }
    };
    folded("Costs of calls", record.costs.len(), &table)
}

/// Outbound calls of plugins.
pub(super) fn exchanges(record: &EpisodeRecord) -> Markup {
    let table = html! {
        table {
            thead { tr {
                th scope="col" { "Plugin" } th scope="col" { "During" } th scope="col" { "Question" } th scope="col" { "Reply" }
            } }
            tbody { @for exchange in record.exchanges.iter().take(ROWS) {
                tr {
                    td { (visible(&exchange.at.to_string())) }
                    td { (visible(&exchange.call_site.to_string())) }
                    td { (question(exchange)) }
                    td { (reply(&exchange.reply)) }
                }
            } }
        }
    };
    folded("Outbound calls", record.exchanges.len(), &table)
}

fn question(exchange: &Exchange) -> Markup {
    html! {
        @match &exchange.question {
            Question::Model(request) => {
                @for message in &request.messages { (content(&message.content)) }
            },
            Question::Http(request) => { (visible(&request.method)) " " (text(&request.url)) },
            Question::Tool(call) => { code { (visible(&call.name)) } (text(&call.arguments)) },
        }
    }
}

fn reply(reply: &Reply) -> Markup {
    html! {
        @match reply {
            Reply::Model(reply) => (text(&reply.text)),
            Reply::Http(response) => { "status " (response.status) (text(&String::from_utf8_lossy(&response.body))) },
            Reply::Tool(reply) => (content(&reply.content)),
            Reply::Refused(Refused::Denied(why) | Refused::Invalid(why) | Refused::NotFound(why) | Refused::Failed(why)) => {
                "refused:" (text(why))
            },
        }
    }
}

/// Functions that each seat may call.
pub(super) fn functions(record: &EpisodeRecord) -> Markup {
    let count = record.opening.functions.iter().map(|seat| seat.functions.len()).sum();
    let table = html! {
        table {
            thead { tr {
                th.number scope="col" { "Seat" } th scope="col" { "Function" } th scope="col" { "Description" }
                th scope="col" { "Parameters" }
            } }
            tbody { @for seat in &record.opening.functions { @for function in &seat.functions {
                tr {
                    td.number { (seat.seat) }
                    th scope="row" { code { (visible(&function.name)) } }
                    td { (text(&function.description)) }
                    td { (text(&function.parameters)) }
                }
            } } }
        }
    };
    folded("Functions", count, &table)
}

/// A table that opens on demand; nothing without rows.
fn folded(name: &str, rows: usize, table: &Markup) -> Markup {
    html! {
        @if rows > 0 {
            details id=(name.to_lowercase().replace(' ', "-")) {
                summary { (name) " (" (rows) ")" }
                @if rows > ROWS { p.note { "The first " (ROWS) " are shown." } }
                (scrolling(name, table))
            }
        }
    }
}
