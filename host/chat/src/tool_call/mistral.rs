//! The formats of Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, and since tokenizer version 11
//! `[TOOL_CALLS]name[ARGS]{…}` for each call.
//!
//! Sources: the chat templates of mistralai/Mistral-Nemo-Instruct-2407, Mistral-Small-3.2-24B-Instruct-2506 and
//! Devstral-Small-2507, and vLLM's `tool_parsers/mistral_tool_parser.py` with its tests. Ids of calls, which Mistral
//! appends to a call, are ignored.

use super::json::{ARGUMENTS, read_named, split_arguments};
use super::marked::{self, CallLayout, Marks, Shape, read_block};
use super::scan::split_before;
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The control token before calls.
pub(super) const TOOL_CALLS: &str = "[TOOL_CALLS]";
const MARKS: Marks<'static> = Marks {
    open: TOOL_CALLS,
    close: "",
    needs_close: false,
    keys: ARGUMENTS,
    shape: Shape::Object,
    layout: CallLayout::List,
};
const CALL_ID: &str = "[CALL_ID]";
const ARGS: &str = "[ARGS]";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(TOOL_CALLS) {
        reply.message.push_str(before);
        let calls = after.trim_start();
        rest = match calls.bytes().next() {
            Some(b'[' | b'{') => read_block(calls, &MARKS, &[TOOL_CALLS], &mut reply.calls),
            _ => parse_named(calls, &mut reply),
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Reads `name[ARGS]{…}`, where `[CALL_ID]id` may follow the name and `[ARGS]` may be absent.
fn parse_named<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    let (call, _) = split_before(text, &[TOOL_CALLS]);
    let marked = call.find(ARGS).map(|at| (&text[..at], &text[at + ARGS.len()..]));
    let Some((head, arguments)) = marked.or_else(|| call.find('{').map(|at| text.split_at(at))) else {
        return give_up(text, "the call has no arguments: `{` is missing", reply);
    };
    let Some((arguments, behind)) = split_arguments(arguments, &[TOOL_CALLS]) else {
        return give_up(text, "the arguments of the call are not valid JSON", reply);
    };
    let name = head.split_once(CALL_ID).map_or(head, |(name, _)| name);
    reply.calls.push(read_named(name, arguments, &text[..text.len() - behind.len()]));
    behind
}

/// Takes everything up to the next calls as one malformed call.
fn give_up<'t>(text: &'t str, reason: &str, reply: &mut ReplyBuilder) -> &'t str {
    let (lost, rest) = split_before(text, &[TOOL_CALLS]);
    reply.calls.push(WrittenCall::malformed(lost, reason));
    rest
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    marked::write(calls, &MARKS)
}
