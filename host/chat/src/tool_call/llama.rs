//! The JSON format of Llama 3: `{"name": …, "parameters": {…}}`, several separated by semicolons, optionally behind
//! `<|python_tag|>`.
//!
//! Sources: the chat templates of meta-llama/Llama-3.1-8B-Instruct and Llama-3.2-3B-Instruct, and vLLM's
//! `examples/tool_chat_template_llama3.1_json.jinja` and `tool_parsers/llama_tool_parser.py`. The format has no closing
//! mark, so JSON is a call only if it holds a name and arguments; other JSON is part of the message.

use super::json::{PARAMETERS, is_call, read_call, resembles_call, split_value, write_call};
use super::scan::split_at_mark;
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder};

/// The control token before calls that an `ipython` environment answers.
pub(super) const PYTHON_TAG: &str = "<|python_tag|>";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    parse_untagged(text, &mut reply);
    reply.finish()
}

/// Text behind the tag consists of calls alone.
fn parse_tagged(text: &str, reply: &mut ReplyBuilder) {
    let mut rest = next_call(text);
    while !rest.is_empty() {
        let Some((value, behind)) = split_value(rest) else {
            reply.calls.push(read_call(rest, PARAMETERS));
            return;
        };
        reply.calls.push(read_call(value, PARAMETERS));
        rest = next_call(behind.trim_start().trim_start_matches(PYTHON_TAG));
    }
}

/// Text before the tag or without it may hold calls between other text.
fn parse_untagged(text: &str, reply: &mut ReplyBuilder) {
    let mut rest = text;
    while let Some((before, ..)) = split_at_mark(rest, &[PYTHON_TAG, "{"]) {
        let candidate = &rest[before.len()..];
        reply.message.push_str(before);
        if let Some(calls) = candidate.strip_prefix(PYTHON_TAG) {
            return parse_tagged(calls, reply);
        }
        match split_value(candidate) {
            Some((value, behind)) if is_call(value) => {
                reply.calls.push(read_call(value, PARAMETERS));
                rest = next_call(behind);
            }
            Some((value, behind)) => {
                reply.message.push_str(value);
                rest = behind;
            }
            None if resembles_call(candidate) => {
                reply.calls.push(read_call(candidate, PARAMETERS));
                return;
            }
            // Without the keys of a call, the rest of the text holds no call.
            None if candidate[1..].trim_start().starts_with('"') => {
                reply.message.push_str(candidate);
                return;
            }
            None => {
                reply.message.push('{');
                rest = &candidate[1..];
            }
        }
    }
    reply.message.push_str(rest);
}

/// Skips the separator of two calls.
fn next_call(text: &str) -> &str {
    let trimmed = text.trim_start();
    trimmed.strip_prefix(';').map_or(text, str::trim_start)
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let texts: Vec<String> = calls.iter().map(|call| write_call(call, PARAMETERS)).collect();
    vec![CallPiece::plain(texts.join("; "))]
}
