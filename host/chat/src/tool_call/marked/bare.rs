//! Calls as JSON without marks: at the beginning of a reply or of a line, an object or a list with names and arguments.

use super::super::json::{ARGUMENTS, is_call, resembles_call, split_value};
use super::super::{ReplyBuilder, WrittenCall};
use super::{before, read_call, read_value, table};

/// Beginnings of lines with JSON.
pub(super) const LINES: [&str; 2] = ["\n[", "\n{"];
/// Most lines of a reply that are tried, so that the time stays linear.
pub(super) const MAX_TRIES: usize = 8;

/// Whether text begins with an object or a list whose first object is meant as a call.
pub(in super::super) fn holds_calls(text: &str) -> bool {
    let object = text.strip_prefix('[').map_or(text, str::trim_start);
    object.starts_with('{') && split_value(object).is_some_and(|(value, _)| is_call(value))
}

/// Reads calls at the beginning of a reply and gives the text behind them.
pub(super) fn read_leading<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    let start = text.trim_start();
    if start.starts_with(['{', '[']) { read(start, reply) } else { text }
}

/// Reads calls at the beginning of a text and gives the text behind them, which is all of it but a bracket if it holds
/// no call.
pub(super) fn read<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    let mut rest = text;
    let mut found = false;
    while holds_calls(rest) {
        let first = reply.calls.len();
        match read_value(rest, &table::JSON_LIST, &mut reply.calls) {
            Ok(behind) => rest = behind,
            Err(broken) => {
                reply.calls.push(WrittenCall::malformed(broken, "the list of calls is not valid JSON"));
                return "";
            }
        }
        found |= reply.calls.len() > first;
        let behind = rest.trim_start();
        let next = behind.strip_prefix([',', ';']).unwrap_or(behind).trim_start();
        if holds_calls(next) {
            rest = next;
        }
    }
    if found {
        return rest;
    }
    if resembles_call(text) && split_value(text).is_none() {
        reply.calls.push(read_call(text, ARGUMENTS));
        return "";
    }
    let behind = text.get(1..).unwrap_or_default();
    reply.message.push_str(before(text, behind));
    behind
}
