//! The parser of calls in Python's notation.

use super::super::json::exact::{Entries, ObjectText, compact};
use super::super::json::{ARGUMENTS, read_call, split_value};
use super::super::scan::{before, split_at_mark};
use super::super::{ParsedReply, ReplyBuilder, WrittenCall};
use super::MARKS;
use super::literal::Cursor;

/// The reason why a text is not a call, and the text that was not read.
type Broken<'t> = (String, &'t str);

/// Splits a reply into its message and its calls.
pub(in super::super) fn parse(text: &str) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut searched: Vec<&str> = MARKS.iter().map(|(open, _)| *open).collect();
    searched.push("[");
    let mut rest = text;
    while let Some((outside, mark, behind)) = split_at_mark(rest, &searched) {
        reply.message.push_str(outside);
        rest = match MARKS.iter().find(|(open, _)| *open == mark) {
            Some((_, close)) => read_block(behind, close, &mut reply.calls),
            None => read_bare(&rest[outside.len()..], &mut reply),
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Whether text begins with a list whose first element is a call.
pub(in super::super) fn starts_call(text: &str) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.skip("[") && {
        cursor.skip_space();
        !name(&mut cursor).is_empty() && cursor.skip("(")
    }
}

/// Reads a list at a bracket outside of marks, and gives the text behind it. A list of other values is part of
/// the message, unless the reply begins with it.
fn read_bare<'t>(text: &'t str, reply: &mut ReplyBuilder) -> &'t str {
    if starts_call(text) {
        let mut calls = Vec::new();
        match read_list(text, &mut calls) {
            Ok(behind) => {
                reply.calls.append(&mut calls);
                return behind;
            }
            Err((reason, rest)) if reply.message.trim().is_empty() && reply.calls.is_empty() => {
                reply.calls.append(&mut calls);
                reply.calls.push(WrittenCall::malformed(if reply.calls.is_empty() { text } else { rest }, reason));
                return "";
            }
            // The text ends inside of the list, so that it holds no complete list.
            Err((_, "")) => {
                reply.message.push_str(text);
                return "";
            }
            Err(_) => {}
        }
    }
    reply.message.push('[');
    text.get(1..).unwrap_or_default()
}

/// Reads the calls behind an opening mark and gives the text behind the closing one.
fn read_block<'t>(text: &'t str, close: &str, calls: &mut Vec<WrittenCall>) -> &'t str {
    let first = calls.len();
    let reason = match read_calls(text, close, calls) {
        Ok(behind) => return behind,
        Err(reason) => reason,
    };
    calls.truncate(first);
    let (lost, rest) = text.split_once(close).unwrap_or((text, ""));
    calls.push(WrittenCall::malformed(lost, reason));
    rest
}

/// Reads lists and calls up to the closing mark or the end of the text.
fn read_calls<'t>(text: &'t str, close: &str, calls: &mut Vec<WrittenCall>) -> Result<&'t str, String> {
    let mut rest = text.trim_start();
    let first = calls.len();
    loop {
        if let Some(behind) = rest.strip_prefix(close).filter(|_| calls.len() > first) {
            return Ok(behind);
        }
        if rest.is_empty() && calls.len() > first {
            return Ok(rest);
        }
        let json = rest.strip_prefix('[').map_or(rest, str::trim_start);
        let read = if json.starts_with('{') {
            read_json(rest, calls)
        } else if rest.starts_with('[') {
            read_list(rest, calls)
        } else {
            read_one(rest, calls)
        };
        let behind = read.map_err(|(reason, _)| reason)?.trim_start();
        rest = behind.strip_prefix([',', ';']).unwrap_or(behind).trim_start();
    }
}

/// Reads a JSON object or a list of them: some templates of this kind show calls so.
fn read_json<'t>(text: &'t str, calls: &mut Vec<WrittenCall>) -> Result<&'t str, Broken<'t>> {
    let broken = || ("the list of calls is not valid JSON".to_owned(), text);
    let (mut rest, list) = text.strip_prefix('[').map_or((text, false), |rest| (rest.trim_start(), true));
    loop {
        let (value, behind) = split_value(rest).ok_or_else(broken)?;
        calls.push(read_call(value, ARGUMENTS));
        if !list {
            return Ok(behind);
        }
        let behind = behind.trim_start();
        if let Some(behind) = behind.strip_prefix(']') {
            return Ok(behind);
        }
        rest = behind.strip_prefix(',').ok_or_else(broken)?.trim_start();
    }
}

/// Reads `[name(…), …]`.
fn read_list<'t>(text: &'t str, calls: &mut Vec<WrittenCall>) -> Result<&'t str, Broken<'t>> {
    let mut rest = text.strip_prefix('[').unwrap_or(text).trim_start();
    if rest.starts_with(']') {
        return Err(("the list of calls is empty".to_owned(), rest));
    }
    loop {
        let behind = read_one(rest, calls)?.trim_start();
        let (comma, next) = behind.strip_prefix(',').map_or((false, behind), |next| (true, next.trim_start()));
        if let Some(behind) = next.strip_prefix(']') {
            return Ok(behind);
        }
        if !comma {
            return Err(("the list of calls is not closed by `]`".to_owned(), behind));
        }
        rest = next;
    }
}

/// Reads `name(key=value, …)`.
fn read_one<'t>(text: &'t str, calls: &mut Vec<WrittenCall>) -> Result<&'t str, Broken<'t>> {
    let mut cursor = Cursor::new(text);
    let name = name(&mut cursor);
    if name.is_empty() || !cursor.skip("(") {
        return Err(("the call is not of the form name(key=value, …)".to_owned(), cursor.rest()));
    }
    let mut arguments = ObjectText::default();
    let mut comma = true;
    loop {
        cursor.skip_space();
        if cursor.skip(")") {
            break;
        }
        if !comma {
            return Err(("`,` or `)` is missing behind an argument".to_owned(), cursor.rest()));
        }
        read_argument(&mut cursor, &mut arguments).map_err(|reason| (reason, cursor.rest()))?;
        cursor.skip_space();
        comma = cursor.skip(",");
    }
    let behind = cursor.rest();
    calls.push(match compact(&arguments.finish()) {
        Ok(arguments) => WrittenCall::Sound { name: name.to_owned(), arguments },
        Err(reason) => WrittenCall::malformed(before(text, behind), reason),
    });
    Ok(behind)
}

/// Reads `key=value` or `**{…}`.
fn read_argument(cursor: &mut Cursor<'_>, arguments: &mut ObjectText) -> Result<(), String> {
    if cursor.skip("**") {
        let mut json = String::new();
        cursor.push_literal(0, &mut json)?;
        let entries = Entries::of(&json).map_err(|_| "** does not stand before a dictionary".to_owned())?;
        return match entries.0.iter().find(|(key, value)| !arguments.insert(key, value.get().to_owned())) {
            Some((key, _)) => Err(format!("argument `{key}` is given twice")),
            None => Ok(()),
        };
    }
    let key = cursor.take(|c| c.is_alphanumeric() || c == '_');
    cursor.skip_space();
    if key.is_empty() || !cursor.skip("=") {
        return Err("an argument has no name; arguments are written as name=value".to_owned());
    }
    let mut value = String::new();
    cursor.push_literal(0, &mut value)?;
    if arguments.insert(key, value) { Ok(()) } else { Err(format!("argument `{key}` is given twice")) }
}

/// A function's name, perhaps with dots and hyphens.
fn name<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    let rest = cursor.rest();
    if !rest.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return "";
    }
    cursor.take(|c| c.is_alphanumeric() || "_.-".contains(c))
}
