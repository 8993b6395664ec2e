//! The formats of Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, and since tokenizer version 11
//! `[TOOL_CALLS]name[ARGS]{…}` for each call.
//!
//! Sources: the chat templates of mistralai/Mistral-Nemo-Instruct-2407, Mistral-Small-3.2-24B-Instruct-2506 and
//! Devstral-Small-2507, and vLLM's `tool_parsers/mistral_tool_parser.py` with its tests. Ids of calls, which Mistral
//! appends to a call, are ignored.

use super::json::{ArgumentsKey, read_call, read_named, split_value, write_call};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The control token before calls.
pub(super) const TOOL_CALLS: &str = "[TOOL_CALLS]";
const CALL_ID: &str = "[CALL_ID]";
const ARGS: &str = "[ARGS]";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(TOOL_CALLS) {
        reply.message.push_str(before);
        let calls = after.trim_start();
        rest = match calls.bytes().next() {
            Some(b'[') => parse_array(calls, &mut reply),
            Some(b'{') => parse_object(calls, &mut reply),
            _ => parse_named(calls, &mut reply),
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Reads `[{…}, …]`, element by element, and gives the text behind it.
fn parse_array<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    let mut rest = text.strip_prefix('[').unwrap_or(text).trim_start();
    if let Some(behind) = rest.strip_prefix(']') {
        reply.calls.push(WrittenCall::malformed("[]", "the list of calls is empty"));
        return behind;
    }
    loop {
        let Some((value, behind)) = split_value(rest) else {
            return give_up(rest, "the list of calls is not valid JSON", reply);
        };
        reply.calls.push(read_call(value, ArgumentsKey::Either));
        let behind = behind.trim_start();
        if let Some(behind) = behind.strip_prefix(']') {
            return behind;
        }
        rest = match behind.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None => return give_up(behind, "the list of calls is not closed by `]`", reply),
        };
    }
}

/// Reads one `{…}` without a list around it.
fn parse_object<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    match split_value(text) {
        Some((value, behind)) => {
            reply.calls.push(read_call(value, ArgumentsKey::Either));
            behind
        }
        None => give_up(text, "the call is not valid JSON", reply),
    }
}

/// Reads `name[ARGS]{…}`, where `[CALL_ID]id` may follow the name and `[ARGS]` may be absent.
fn parse_named<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    let end = text.find(TOOL_CALLS).unwrap_or(text.len());
    let marked = text[..end].find(ARGS).map(|at| (&text[..at], &text[at + ARGS.len()..]));
    let Some((head, arguments)) = marked.or_else(|| text[..end].find('{').map(|at| text.split_at(at))) else {
        return give_up(text, "the call has no arguments: `{` is missing", reply);
    };
    let Some((arguments, behind)) = split_value(arguments) else {
        return give_up(text, "the arguments of the call are not valid JSON", reply);
    };
    let name = head.split_once(CALL_ID).map_or(head, |(name, _)| name);
    reply.calls.push(read_named(name, arguments, &text[..text.len() - behind.len()]));
    behind
}

/// Takes everything up to the next calls as one malformed call.
fn give_up<'t>(text: &'t str, reason: &str, reply: &mut ReplyBuilder) -> &'t str {
    let (lost, rest) = text.split_at(text.find(TOOL_CALLS).unwrap_or(text.len()));
    reply.calls.push(WrittenCall::malformed(lost, reason));
    rest
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let texts: Vec<String> = calls.iter().map(|call| write_call(call, "arguments")).collect();
    vec![CallPiece::frame(TOOL_CALLS), CallPiece::plain(format!("[{}]", texts.join(", ")))]
}
