//! The format of Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
//!
//! Sources: the chat templates of Qwen/Qwen2.5-7B-Instruct and Qwen/Qwen3-8B, and vLLM's
//! `examples/tool_chat_template_hermes.jinja`.

use super::json::{ArgumentsKey, read_call, split_closed, write_call};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The mark before a call.
pub const OPEN: &str = "<tool_call>";
/// The mark after a call.
pub const CLOSE: &str = "</tool_call>";

pub(super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        reply.message.push_str(before);
        let Some((inside, behind)) = split_call(after) else {
            let reason = format!("the call is not closed by {CLOSE}");
            reply.calls.push(WrittenCall::malformed(after, reason));
            return reply.finish();
        };
        reply.calls.push(read_call(inside, ArgumentsKey::Arguments));
        rest = behind;
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// The text of a call and the text behind its closing mark. A mark inside a JSON string does not close the call.
fn split_call(text: &str) -> Option<(&str, &str)> {
    split_closed(text, CLOSE).or_else(|| text.split_once(CLOSE))
}

pub(super) fn write(calls: &[NewCall<'_>]) -> Vec<CallPiece> {
    let mut pieces = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        if index > 0 {
            pieces.push(CallPiece::frame("\n"));
        }
        pieces.push(CallPiece::frame(format!("{OPEN}\n")));
        pieces.push(CallPiece::plain(write_call(call, "arguments")));
        pieces.push(CallPiece::frame(format!("\n{CLOSE}")));
    }
    pieces
}
