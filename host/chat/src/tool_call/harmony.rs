//! The format of gpt-oss: messages of channels, of which those with a recipient are calls.
//!
//! A reply is a sequence of messages, each with a header (`<|start|>assistant<|channel|>commentary to=functions.NAME
//! <|constrain|>json`), `<|message|>`, and a text up to `<|end|>`, `<|call|>` or `<|return|>`. The header of the first
//! begins behind `<|start|>assistant`, which the prompt holds. Messages of the channel `analysis` are thoughts: they are
//! part neither of the message nor of the calls.
//!
//! Sources: the documentation of openai/harmony (`docs/format.md`), the chat template of openai/gpt-oss-20b, and vLLM's
//! `openai_tool_parser` with its tests.

use super::json::{read_named, split_value};
use super::scan::split_at_mark;
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The mark before a channel's name.
pub(super) const CHANNEL: &str = "<|channel|>";
/// The mark before the text of a message.
pub(super) const MESSAGE: &str = "<|message|>";
/// The end of a call, which is also the end of the turn.
pub(super) const CALL: &str = "<|call|>";
const START: &str = "<|start|>";
const CONSTRAIN: &str = "<|constrain|>";
const ENDS: [&str; 3] = ["<|end|>", CALL, "<|return|>"];
const RECIPIENT: &str = "to=";
const FUNCTIONS: &str = "functions.";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    // A recipient may be the first text of the reply, in front of the channel.
    let mut headless = text.trim_start().starts_with(RECIPIENT);
    loop {
        let header = if headless { Some(("", "", rest)) } else { split_at_mark(rest, &[START, CHANNEL]) };
        let Some((outside, mark, _)) = header else { break };
        headless = false;
        push_text(outside, &mut reply);
        let from = &rest[outside.len()..];
        let skipped = from.len().min(mark.len());
        rest = read_message(from, skipped, &mut reply);
    }
    push_text(rest, &mut reply);
    reply.finish()
}

/// Adds text outside of messages, without the marks of ends.
fn push_text(text: &str, reply: &mut ReplyBuilder) {
    let mut rest = text;
    while let Some((before, _, behind)) = split_at_mark(rest, &ENDS) {
        reply.message.push_str(before);
        rest = behind;
    }
    reply.message.push_str(rest);
}

/// Reads a message at its header, whose first mark has `skipped` bytes, and gives the text behind the message.
fn read_message<'t>(text: &'t str, skipped: usize, reply: &mut ReplyBuilder) -> &'t str {
    let behind_mark = &text[skipped..];
    let mut marks = vec![MESSAGE, START];
    marks.extend(ENDS);
    // A channel follows the author, and no other channel.
    marks.extend(text.starts_with(CHANNEL).then_some(CHANNEL));
    let next = split_at_mark(behind_mark, &marks).filter(|(_, mark, _)| *mark == MESSAGE);
    let Some((_, _, body)) = next else {
        return skip_broken(text, skipped, reply);
    };
    let head = &text[..text.len() - body.len() - MESSAGE.len()];
    let Some(header) = Header::of(head) else {
        if has_recipient(head) {
            let rest = split_body(body).1;
            let whole = &text[..text.len() - rest.len()];
            reply.calls.push(WrittenCall::malformed(whole, "the header of the call has an unknown word"));
            return rest;
        }
        // Unknown words in a header are kept.
        reply.message.push_str(head);
        return body;
    };
    match header.recipient {
        _ if header.channel == "analysis" => split_body(body).1,
        Some(recipient) => {
            let (call, rest) = read_call(recipient, body);
            reply.calls.push(call);
            rest
        }
        None => {
            let (content, rest) = split_body(body);
            if !reply.message.trim().is_empty() && !content.trim().is_empty() {
                reply.message.push('\n');
            }
            reply.message.push_str(content);
            rest
        }
    }
}

/// A header without a text. With a recipient it is a malformed call; else it is a part of the message, unless it is
/// nothing but the marks of a header.
fn skip_broken<'t>(text: &'t str, skipped: usize, reply: &mut ReplyBuilder) -> &'t str {
    let mut ends = ENDS.to_vec();
    ends.extend([START, CHANNEL]);
    let behind = &text[skipped..];
    let end = split_at_mark(behind, &ends).map_or(behind.len(), |(before, ..)| before.len());
    let (head, rest) = text.split_at(skipped + end);
    if has_recipient(head) {
        reply.calls.push(WrittenCall::malformed(head, format!("the call has no {MESSAGE}")));
    } else if Header::of(head).is_none() {
        push_text(&head[skipped..], reply);
    }
    rest
}

/// Whether a header names a recipient, so that its message is meant as a call.
fn has_recipient(head: &str) -> bool {
    head.split_whitespace().any(|word| word.starts_with(RECIPIENT))
}

/// The text of a message and the text behind its end.
fn split_body(text: &str) -> (&str, &str) {
    let mut ends = ENDS.to_vec();
    ends.push(START);
    match split_at_mark(text, &ends) {
        Some((body, START, _)) => (body, &text[body.len()..]),
        Some((body, _, rest)) => (body, rest),
        None => (text, ""),
    }
}

/// Reads the arguments of a call and gives the text behind it. A mark inside a JSON string does not end the call.
fn read_call<'t>(recipient: &str, text: &'t str) -> (WrittenCall, &'t str) {
    let name = recipient.strip_prefix(FUNCTIONS).unwrap_or(recipient);
    if text.trim_start().starts_with('{')
        && let Some((value, behind)) = split_value(text)
    {
        let behind = behind.trim_start();
        let ended = ENDS.iter().find_map(|end| behind.strip_prefix(end));
        if let Some(rest) = ended.or_else(|| (behind.is_empty() || behind.starts_with(START)).then_some(behind)) {
            return (read_named(name, value, value), rest);
        }
    }
    let (body, rest) = split_body(text);
    let whole = format!("{recipient} {}", body.trim());
    (read_named(name, body, &whole), rest)
}

/// The channel and the recipient in a header.
struct Header<'t> {
    channel: &'t str,
    recipient: Option<&'t str>,
}

impl<'t> Header<'t> {
    /// Reads the words of a header; `None` if it has a word that no header has.
    fn of(text: &'t str) -> Option<Self> {
        let mut header = Self { channel: "", recipient: None };
        let mut rest = text;
        let mut before = START;
        loop {
            let (words, mark, behind) = split_at_mark(rest, &[START, CHANNEL, CONSTRAIN]).unwrap_or((rest, "", ""));
            for word in words.split_whitespace() {
                match word.strip_prefix(RECIPIENT) {
                    Some(recipient) if !recipient.is_empty() && header.recipient.is_none() => {
                        header.recipient = Some(recipient);
                    }
                    _ if before == CHANNEL && header.channel.is_empty() && is_channel(word) => header.channel = word,
                    _ if before == START && word == "assistant" => {}
                    // The type of a call's text, with its mark or without.
                    _ if matches!(word, "json" | "code") => {}
                    _ => return None,
                }
            }
            if mark.is_empty() {
                return Some(header);
            }
            (before, rest) = (mark, behind);
        }
    }
}

fn is_channel(word: &str) -> bool {
    matches!(word, "analysis" | "commentary" | "final")
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let mut pieces = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        // The last call's end is the token that ends the turn.
        let before = if index == 0 { String::new() } else { format!("{CALL}{START}assistant") };
        pieces.push(CallPiece::frame(format!("{before}{CHANNEL}commentary {RECIPIENT}{FUNCTIONS}")));
        pieces.push(CallPiece::plain(call.name));
        pieces.push(CallPiece::frame(format!(" {CONSTRAIN}json{MESSAGE}")));
        pieces.push(CallPiece::plain(call.arguments));
    }
    pieces
}
