//! Calls in Markdown code blocks of JSON, for models without a tool-call format of their own.
//!
//! A block holds one call, several calls or a list of calls. JSON without a name and arguments is part of the message,
//! so that a reply may show other JSON.

use super::super::json::{ARGUMENTS, resembles_call, split_closed};
use super::{CallLayout, Marks, ParsedReply, ReplyBuilder, Shape, holds_calls, read_block};

/// The marks of a code block of JSON.
pub(in super::super) const FENCE: Marks<'static> = Marks {
    open: "```json",
    close: "```",
    needs_close: true,
    keys: ARGUMENTS,
    shape: Shape::Object,
    layout: CallLayout::Each { head: "\n", tail: "\n", between: "\n" },
};

pub(in super::super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(FENCE.open) {
        reply.message.push_str(before);
        let inside = after.trim_start();
        let until_close = || inside.split_once(FENCE.close).map_or(inside, |(inside, _)| inside);
        let broken = |inside: &str| inside.starts_with(['{', '[']) && resembles_call(inside);
        rest = if holds_calls(inside) || (split_closed(after, FENCE.close).is_none() && broken(until_close())) {
            read_block(after, &FENCE, &[FENCE.open], &mut reply.calls)
        } else {
            skip_block(after, &mut reply.message)
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Adds a block with other content to the message and gives the text behind it. A fence inside a JSON string does not
/// close the block.
fn skip_block<'t>(text: &'t str, message: &mut String) -> &'t str {
    let block = split_closed(text, FENCE.close).or_else(|| text.split_once(FENCE.close));
    let behind = block.map_or("", |(_, behind)| behind);
    message.push_str(FENCE.open);
    message.push_str(super::before(text, behind));
    behind
}

pub(in super::super) fn write(calls: &[super::NewCall<'_>]) -> Vec<super::CallPiece> {
    super::write(calls, &FENCE)
}
