//! The formats of DeepSeek: control tokens around calls, and in each call a name and a JSON object.
//!
//! V3 and R1 write `function<｜tool▁sep｜>NAME`, a line break and a code block of JSON; V3.1 writes
//! `NAME<｜tool▁sep｜>{…}`. Sources: the chat templates of deepseek-ai/DeepSeek-R1-Distill-Qwen-32B and DeepSeek-V3.1,
//! and vLLM's `examples/tool_chat_template_deepseekv3.jinja`.

use super::json::{read_named, split_value};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The control token before all calls of a reply.
pub(super) const CALLS_BEGIN: &str = "<｜tool▁calls▁begin｜>";
const CALLS_END: &str = "<｜tool▁calls▁end｜>";
const BEGIN: &str = "<｜tool▁call▁begin｜>";
const END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";
const FENCE: &str = "```";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        push_outside(before, &mut reply.message);
        let (call, behind) = split_call(after);
        reply.calls.push(call);
        rest = behind;
    }
    push_outside(rest, &mut reply.message);
    reply.finish()
}

/// Adds text outside the calls to the message, without the marks around all calls.
fn push_outside(text: &str, message: &mut String) {
    message.push_str(&text.replace(CALLS_BEGIN, "").replace(CALLS_END, ""));
}

/// Reads a call and gives the text behind its end.
fn split_call(text: &str) -> (WrittenCall, &str) {
    let Some((head, body)) = text.split_once(SEPARATOR).filter(|(head, _)| !head.contains(END)) else {
        return malformed(text, &format!("the call has no {SEPARATOR}"));
    };
    let (name, arguments, fenced) = if body.trim_start().starts_with(['{', '"']) {
        (head, body, false)
    } else {
        let Some((name, block)) = body.split_once(FENCE).filter(|(name, _)| !name.contains(END)) else {
            return malformed(text, "the call has no JSON object of arguments");
        };
        if head.trim() != "function" {
            return malformed(text, "the call is not of type `function`");
        }
        (name, block.strip_prefix("json").unwrap_or(block), true)
    };
    let Some((arguments, behind)) = split_value(arguments) else {
        return malformed(text, "the arguments of the call are not valid JSON");
    };
    let behind = behind.trim_start();
    let behind = if fenced { behind.strip_prefix(FENCE).unwrap_or(behind).trim_start() } else { behind };
    let Some(rest) = behind.strip_prefix(END) else {
        return malformed(text, &format!("the call is not closed by {END}"));
    };
    let whole = &text[..text.len() - behind.len()];
    (read_named(name, arguments, whole), rest)
}

/// Takes everything up to the next end, or the whole text, as one malformed call.
fn malformed<'t>(text: &'t str, reason: &str) -> (WrittenCall, &'t str) {
    let (lost, rest) = text.split_once(END).unwrap_or((text, ""));
    (WrittenCall::malformed(lost, reason), rest)
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let mut pieces = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let before = if index == 0 { CALLS_BEGIN } else { "\n" };
        pieces.push(CallPiece::frame(format!("{before}{BEGIN}function{SEPARATOR}")));
        pieces.push(CallPiece::plain(format!("{}\n{FENCE}json\n{}\n{FENCE}", call.name, call.arguments)));
        pieces.push(CallPiece::frame(if index + 1 == calls.len() {
            format!("{END}{CALLS_END}")
        } else {
            END.to_owned()
        }));
    }
    pieces
}
