//! Calls whose name stands in front of a JSON object of arguments: those of Kimi K2, and Llama 3.1's own form.
//!
//! Sources: the chat template of moonshotai/Kimi-K2-Thinking in llama.cpp (`models/templates`) and vLLM's
//! `kimi_k2_tool_parser`; Meta's prompt format of Llama 3.1 (`<function=example_function_name>{…}</function>`).

use super::json::{read_named, split_arguments};
use super::scan::{before, split_at_mark};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The marks of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// The marks before and behind all calls; empty if there are none.
    pub section: (&'static str, &'static str),
    /// The mark before a call's name.
    pub begin: &'static str,
    /// The mark between the name and the arguments.
    pub separator: &'static str,
    /// The mark behind the arguments.
    pub end: &'static str,
    /// Whether the name is an id such as `functions.add:0`.
    pub is_id: bool,
    /// Whether the marks are control tokens of the tokenizer.
    pub control: bool,
}

/// Kimi K2.
pub(super) const KIMI: Marks = Marks {
    section: ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    begin: "<|tool_call_begin|>",
    separator: "<|tool_call_argument_begin|>",
    end: "<|tool_call_end|>",
    is_id: true,
    control: true,
};

/// Llama 3.1's own form.
pub(super) const LLAMA_FUNCTION: Marks =
    Marks { section: ("", ""), begin: "<function=", separator: ">", end: "</function>", is_id: false, control: false };

/// Splits a reply into its message and its calls.
pub(super) fn parse(text: &str, marks: &Marks) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((outside, mark, behind)) = split_at_mark(rest, &[marks.begin, marks.section.0, marks.section.1]) {
        reply.message.push_str(outside);
        rest = behind;
        if mark == marks.begin {
            let (call, behind) = read(behind, marks);
            reply.calls.push(call);
            rest = behind;
        }
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Reads a call behind its first mark and gives the text behind it.
fn read<'t>(text: &'t str, marks: &Marks) -> (WrittenCall, &'t str) {
    let ends = [marks.separator, marks.end, marks.begin];
    let Some((name, _, arguments)) = split_at_mark(text, &ends).filter(|(_, mark, _)| *mark == marks.separator) else {
        return lose(text, &format!("the call has no {}", marks.separator), marks);
    };
    let Some((value, behind)) = split_arguments(arguments, &[marks.end]) else {
        return lose(text, "the arguments of the call are not valid JSON", marks);
    };
    let closed = behind.trim_start();
    let rest = match closed.strip_prefix(marks.end) {
        Some(rest) => rest,
        // The stop token came at once.
        None if closed.is_empty() && !value.is_empty() => closed,
        None => return lose(text, &format!("the call is not closed by {}", marks.end), marks),
    };
    let name = if marks.is_id { name_of_id(name) } else { name };
    (read_named(name, value, before(text, behind)), rest)
}

/// The name in an id such as `functions.add:0`.
fn name_of_id(id: &str) -> &str {
    let id = id.trim();
    let name = id.strip_prefix("functions.").unwrap_or(id);
    match name.rsplit_once(':') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

/// Takes everything up to the end of the call, the next call or the end of the text as one malformed call.
fn lose<'t>(text: &'t str, reason: &str, marks: &Marks) -> (WrittenCall, &'t str) {
    let (lost, rest) = match split_at_mark(text, &[marks.end, marks.begin, marks.section.1]) {
        Some((lost, mark, behind)) if mark == marks.end => (lost, behind),
        Some((lost, ..)) => (lost, &text[lost.len()..]),
        None => (text, ""),
    };
    (WrittenCall::malformed(lost, reason), rest)
}

/// Writes calls. The ids of Kimi are numbered from 0.
pub(super) fn write(calls: &[NewCall<'_>], marks: &Marks) -> Vec<CallPiece> {
    let Marks { section, begin, separator, end, is_id, control } = *marks;
    let mut pieces = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let first = if index == 0 { section.0 } else { "" };
        let last = if index + 1 == calls.len() { section.1 } else { "" };
        let name = if is_id { format!("functions.{}:{index}", call.name) } else { call.name.to_owned() };
        if control {
            pieces.push(CallPiece::frame(format!("{first}{begin}")));
            pieces.push(CallPiece::plain(name));
            pieces.push(CallPiece::frame(separator));
            pieces.push(CallPiece::plain(call.arguments));
            pieces.push(CallPiece::frame(format!("{end}{last}")));
        } else {
            pieces.push(CallPiece::plain(format!("{begin}{name}{separator}{}{end}", call.arguments)));
        }
    }
    pieces
}
