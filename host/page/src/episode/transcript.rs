//! The transcript of an episode: messages, calls with their answers, observations, and the replies of the policies.

use std::collections::HashMap;

use gymkhana_record::{EpisodeRecord, Part, PolicyTurn, Turn, text_of};
use maud::{Markup, html};

use super::content::{content, text};
use crate::words::{number, visible};

/// Most turns that are shown.
const MOST: usize = 2_000;
/// Longest thoughts that are shown unfolded (bytes).
const MAX_OPEN: usize = 600;
/// Most bytes of texts and media in these turns.
const MAX_BYTES: usize = 8 << 20;

/// The turns, each with the policies' replies that begin there. `forks` holds the address that forks the episode before
/// each reply.
pub(crate) fn turns(record: &EpisodeRecord, forks: Option<&[String]>) -> Markup {
    let mut replies: HashMap<usize, Vec<(&PolicyTurn, Option<&str>)>> = HashMap::new();
    for (number, reply) in record.policy_turns.iter().enumerate() {
        let fork = forks.and_then(|forks| forks.get(number)).map(String::as_str);
        replies.entry(reply.transcript as usize).or_default().push((reply, fork));
    }
    let count = shown(&record.turns, MAX_BYTES);
    let at = |place: usize| replies.get(&place).map(Vec::as_slice).unwrap_or_default();
    html! {
        ol.turns {
            @for (place, turn) in record.turns.iter().enumerate().take(count) {
                @for (reply, fork) in at(place) { (begin(record, reply, *fork)) }
                li.turn.(kind(turn)) #(format!("turn-{place}")) { (one(turn)) }
            }
            @for (reply, fork) in at(record.turns.len()) { (begin(record, reply, *fork)) }
        }
        @if record.turns.len() > count {
            p.note { (record.turns.len() - count) " more turns are not shown; " code { "host show" } " prints all of them." }
        }
    }
}

/// Number of leading turns that are shown: at least one, and the next ones within this number of bytes.
fn shown(turns: &[Turn], most_bytes: usize) -> usize {
    let sums = turns.iter().scan(0, |sum: &mut usize, turn| {
        *sum = sum.saturating_add(bytes(turn));
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= most_bytes).count().clamp(1, MOST)
}

/// Size of a turn's text and media.
fn bytes(turn: &Turn) -> usize {
    match turn {
        Turn::Message { content, .. } | Turn::Answer { content, .. } | Turn::Observation { content, .. } => {
            let part = |part: &Part| match part {
                Part::Text(text) => text.len(),
                Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::Other(media) => media.bytes.len(),
            };
            content.iter().map(part).sum()
        }
        Turn::Call { call, .. } => call.arguments.len(),
        Turn::MalformedCall { text, .. } | Turn::Thought { text, .. } => text.len(),
    }
}

fn kind(turn: &Turn) -> &'static str {
    match turn {
        Turn::Thought { .. } => "thought",
        Turn::Message { .. } => "message",
        Turn::Call { .. } | Turn::MalformedCall { .. } => "call",
        Turn::Answer { .. } => "answer",
        Turn::Observation { .. } => "observation",
    }
}

fn one(turn: &Turn) -> Markup {
    html! {
        @match turn {
            Turn::Thought { seat, text: words } => {
                details open[words.len() <= MAX_OPEN] {
                    summary { "Seat " (seat) " thinks, " (words.len()) " bytes" } (text(words))
                }
            },
            Turn::Message { seat, content: parts } => {
                h3 { "Seat " (seat) } (content(parts))
            },
            Turn::Call { seat, call, cost } => {
                h3 { "Seat " (seat) " calls " code { (visible(&call.name)) } " " span.note { (visible(&call.id)) } }
                (text(&pretty(&call.arguments)))
                @if *cost != 0.0 { p.note { "declared cost " (number(*cost)) } }
            },
            Turn::MalformedCall { seat, id, text: words } => {
                h3 { "Seat " (seat) " calls (malformed) " span.note { (visible(id)) } } (text(words))
            },
            Turn::Answer { seat, id, content: parts, failed } => {
                h3 { @if *failed { "Failed answer" } @else { "Answer" } " to seat " (seat) " " span.note { (visible(id)) } }
                (content(parts))
            },
            Turn::Observation { seat, content: parts } => {
                h3 { "Environment to seat " (seat) } (content(parts))
            },
        }
    }
}

/// The text of a turn, which evidence of rewards refers to.
pub(super) fn words(turn: &Turn) -> String {
    match turn {
        Turn::Message { content, .. } | Turn::Answer { content, .. } | Turn::Observation { content, .. } => {
            text_of(content)
        }
        Turn::Call { call, .. } => call.arguments.clone(),
        Turn::MalformedCall { text, .. } | Turn::Thought { text, .. } => text.clone(),
    }
}

/// Arguments of a call on several lines if they are JSON, else as they are.
fn pretty(arguments: &str) -> String {
    serde_json::from_str::<serde_json::Value>(arguments)
        .and_then(|json| serde_json::to_string_pretty(&json))
        .unwrap_or_else(|_| arguments.to_owned())
}

/// The line above a policy's reply: its number, reward and probe, and a link that forks the episode there.
fn begin(record: &EpisodeRecord, reply: &PolicyTurn, fork: Option<&str>) -> Markup {
    let of_turn = |by_seat: &[Vec<f64>]| by_seat.get(reply.seat as usize)?.get(reply.turn as usize).copied();
    html! {
        li.reply {
            "Seat " (reply.seat) ", reply " (reply.turn)
            @if reply.turn < record.shared_turns(reply.seat) { ", shared with the parent" }
            @if let Some(reward) = of_turn(&record.turn_rewards).filter(|reward| *reward != 0.0) { ", reward " (number(reward)) }
            @if let Some(gain) = of_turn(&record.turn_gains).filter(|gain| *gain != 0.0) { ", gain " (number(gain)) }
            @if let Some(probe) = &reply.probe_score { ", probe " (number(probe.log_prob)) " nats per token" }
            @if let Some(state) = &reply.state { ", state " code { (visible(state)) } }
            @if let Some(fork) = fork { ", " a href=(fork) { "fork before it" } }
            @if let Some(note) = &reply.note { div.note-text { "Note of the policy:" (text(note)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_shown_up_to_a_number_of_bytes() {
        let say = |bytes: usize| Turn::Message { seat: 0, content: vec![Part::Text("x".repeat(bytes))] };
        assert_eq!(shown(&[say(4), say(6), say(1)], 10), 2);
        assert_eq!(shown(&[say(11), say(1)], 10), 1, "a single large turn");
        assert_eq!(shown(&vec![say(0); MOST + 1], 10), MOST);
    }
}
