//! The formats of DeepSeek: control tokens around calls, and in each call a name and a JSON object.
//!
//! V3 and R1 write `function<｜tool▁sep｜>NAME`, a line break and a code block of JSON; V3.1 writes
//! `NAME<｜tool▁sep｜>{…}`. Sources: the chat templates of deepseek-ai/DeepSeek-R1-Distill-Qwen-32B and DeepSeek-V3.1,
//! and vLLM's `examples/tool_chat_template_deepseekv3.jinja`.

use super::json::{read_named, split_arguments};
use super::scan::split_at_mark;
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The control token before all calls of a reply.
pub(super) const CALLS_BEGIN: &str = "<｜tool▁calls▁begin｜>";
const CALLS_END: &str = "<｜tool▁calls▁end｜>";
const BEGIN: &str = "<｜tool▁call▁begin｜>";
const END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";
const FENCE: &str = "```";
/// The type of a call in V3 and R1.
const TYPE: &str = "function";

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
    let ends = [SEPARATOR, END, BEGIN];
    let Some((head, _, body)) = split_at_mark(text, &ends).filter(|(_, mark, _)| *mark == SEPARATOR) else {
        return malformed(text, &format!("the call has no {SEPARATOR}"));
    };
    let inside = body.trim_start();
    let bare = inside.is_empty() || ["{", "[", "\"", "null", END].iter().any(|start| inside.starts_with(start));
    let (name, arguments, fenced) = if bare && head.trim() != TYPE {
        (head, inside, false)
    } else {
        let fence = split_at_mark(body, &[FENCE, END, BEGIN]).filter(|(_, mark, _)| *mark == FENCE);
        let Some((name, _, block)) = fence else {
            return malformed(text, "the call has no JSON object of arguments");
        };
        if head.trim() != TYPE {
            return malformed(text, "the call is not of type `function`");
        }
        (name, block.strip_prefix("json").unwrap_or(block), true)
    };
    let ends: &[&str] = if fenced { &[FENCE] } else { &[END] };
    let Some((arguments, behind)) = split_arguments(arguments, ends) else {
        return malformed(text, "the arguments of the call are not valid JSON");
    };
    let behind = behind.trim_start();
    let behind = if fenced { behind.strip_prefix(FENCE).unwrap_or(behind).trim_start() } else { behind };
    let rest = match behind.strip_prefix(END) {
        Some(rest) => rest,
        // The stop token came at once.
        None if behind.is_empty() && !arguments.is_empty() => behind,
        None => return malformed(text, &format!("the call is not closed by {END}")),
    };
    let whole = &text[..text.len() - behind.len()];
    (read_named(name, arguments, whole), rest)
}

/// Takes everything up to the next end, the next call or the end of the text as one malformed call.
fn malformed<'t>(text: &'t str, reason: &str) -> (WrittenCall, &'t str) {
    let (lost, rest) = match split_at_mark(text, &[END, BEGIN, CALLS_END]) {
        Some((lost, mark, rest)) if mark == END => (lost, rest),
        Some((lost, ..)) => (lost, &text[lost.len()..]),
        None => (text, ""),
    };
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
