//! Calls in Markdown code blocks of JSON, for models without a tool-call format of their own.
//!
//! A block holds one call or a list of calls. JSON without a name and arguments is part of the message, so that a
//! reply may show other JSON.

use super::json::{ArgumentsKey, is_call, read_call, resembles_call, split_closed, split_value, write_call};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The opening line of a code block of JSON.
pub(super) const FENCE: &str = "```json";
const CLOSE: &str = "```";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(FENCE) {
        reply.message.push_str(before);
        rest = parse_block(after, &mut reply);
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Reads a block and gives the text behind it.
fn parse_block<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    let (inside, behind, closed) = split_block(text);
    let calls = calls_of(inside.trim());
    if calls.is_empty() {
        reply.message.push_str(FENCE);
        reply.message.push_str(&text[..text.len() - behind.len()]);
    } else if closed {
        reply.calls.extend(calls.into_iter().map(|call| read_call(call, ArgumentsKey::Either)));
    } else {
        reply.calls.push(WrittenCall::malformed(inside, format!("the code block is not closed by {CLOSE}")));
    }
    behind
}

/// The text of a block, the text behind it, and whether the block is closed. A fence inside a JSON string does not
/// close the block.
fn split_block(text: &str) -> (&str, &str, bool) {
    match split_closed(text, CLOSE).or_else(|| text.split_once(CLOSE)) {
        Some((inside, behind)) => (inside, behind, true),
        None => (text, "", false),
    }
}

/// The texts of a block's calls; empty if the block holds other content.
fn calls_of(text: &str) -> Vec<&str> {
    let Some(mut rest) = text.strip_prefix('[').map(str::trim_start) else {
        let complete = split_value(text).is_some_and(|(_, behind)| behind.is_empty());
        let call = if complete { is_call(text) } else { resembles_call(text) };
        return if call { vec![text] } else { vec![] };
    };
    let mut calls = Vec::new();
    while let Some((value, behind)) = split_value(rest) {
        if !is_call(value) {
            return vec![];
        }
        calls.push(value);
        rest = behind.trim_start();
        if rest == "]" {
            return calls;
        }
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    if calls.is_empty() && !resembles_call(rest) {
        return vec![];
    }
    // The list breaks off, so that the whole block is one malformed call.
    vec![text]
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let mut pieces = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let open = if index == 0 { format!("{FENCE}\n") } else { format!("\n{FENCE}\n") };
        pieces.push(CallPiece::frame(open));
        pieces.push(CallPiece::plain(write_call(call, "arguments")));
        pieces.push(CallPiece::frame(format!("\n{CLOSE}")));
    }
    pieces
}
