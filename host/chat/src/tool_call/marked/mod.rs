//! Calls as JSON between marks, of which each format has its own: one call, several behind each other, or a list.
//!
//! A mark inside a JSON string does not close a call. A closing mark may be absent at the end of the reply, because the
//! stop token came at once.

mod bare;
pub(super) mod fenced;
pub(super) mod table;

use super::json::{CallKeys, read_call, read_single_key, split_value, write_call};
use super::scan::{before, split_at_mark};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

pub(super) use self::bare::holds_calls;

/// How an object of a call is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A name and arguments under keys of their own.
    Object,
    /// The name is the only key, and its value is the arguments.
    SingleKey,
}

/// How several calls are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallLayout {
    /// Each call stands between marks of its own.
    Each {
        /// Whitespace behind the opening mark.
        head: &'static str,
        /// Whitespace in front of the closing mark.
        tail: &'static str,
        /// Text between two calls.
        between: &'static str,
    },
    /// All calls stand in one list between the marks.
    List,
    /// A list on lines of its own, whose calls are numbered by `tool_call_id`.
    Numbered,
}

/// The marks of a format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<'m> {
    /// The mark before calls. If it ends with `[`, this bracket is that of the list.
    pub open: &'m str,
    /// The mark behind calls; empty if there is none.
    pub close: &'m str,
    /// Whether text may follow calls only behind the closing mark.
    pub needs_close: bool,
    /// The keys of a call.
    pub keys: CallKeys<'m>,
    /// The object of a call.
    pub shape: Shape,
    /// The written form.
    pub layout: CallLayout,
}

impl Marks<'_> {
    fn read(&self, value: &str) -> WrittenCall {
        match self.shape {
            Shape::Object => read_call(value, self.keys),
            Shape::SingleKey => read_single_key(value),
        }
    }
}

/// A set of marks that a format reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'m> {
    /// The marks.
    pub marks: &'m [Marks<'m>],
    /// Marks of messages, which are not part of the message.
    pub dropped: &'m [&'m str],
    /// Whether JSON without marks is a call if it holds a name and arguments.
    pub bare: bool,
}

/// Splits a reply into its message and its calls.
pub(super) fn parse(text: &str, reading: &Reading<'_>) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    if reading.bare {
        rest = bare::read_leading(rest, &mut reply);
    }
    let opens: Vec<&str> = reading.marks.iter().map(|marks| marks.open).collect();
    let mut searched: Vec<&str> = opens.clone();
    searched.extend(reading.dropped);
    let mut tries = if reading.bare { bare::MAX_TRIES } else { 0 };
    searched.extend(bare::LINES.iter().filter(|_| tries > 0));
    while let Some((outside, mark, behind)) = split_at_mark(rest, &searched) {
        reply.message.push_str(outside);
        rest = if let Some(marks) = reading.marks.iter().find(|marks| marks.open == mark) {
            let list = if mark.ends_with('[') { rest.get(rest.len() - behind.len() - 1..) } else { None };
            read_block(list.unwrap_or(behind), marks, &opens, &mut reply.calls)
        } else if bare::LINES.contains(&mark) {
            tries -= 1;
            if tries == 0 {
                searched.retain(|mark| !bare::LINES.contains(mark));
            }
            reply.message.push('\n');
            let value = rest.get(outside.len() + 1..).unwrap_or(behind);
            bare::read(value, &mut reply)
        } else {
            behind
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Reads the calls behind an opening mark and gives the text behind them.
pub(super) fn read_block<'t>(
    text: &'t str,
    marks: &Marks<'_>,
    opens: &[&str],
    calls: &mut Vec<WrittenCall>,
) -> &'t str {
    let first = calls.len();
    let mut rest = text.trim_start();
    loop {
        match read_value(rest, marks, calls) {
            Ok(behind) => rest = behind.trim_start(),
            Err(_) if calls.len() == first => return give_up(text, None, marks, opens, calls),
            Err(broken) => return give_up(broken, None, marks, opens, calls),
        }
        if let Some(behind) = rest.strip_prefix(marks.close).filter(|_| !marks.close.is_empty()) {
            return behind;
        }
        let next = rest.strip_prefix([',', ';']).unwrap_or(rest).trim_start();
        let follows = next.starts_with(['{', '[']) && (marks.needs_close || holds_calls(next));
        // The closing mark may be absent at the end of the reply and in front of another call.
        let ends = rest.is_empty() || opens.iter().any(|open| rest.starts_with(open));
        if follows {
            rest = next;
        } else if ends || !marks.needs_close {
            return rest;
        } else {
            calls.truncate(first);
            let reason = "other text follows the JSON of the call: trailing characters";
            return give_up(text, Some(reason), marks, opens, calls);
        }
    }
}

/// Reads one object or list, and gives the text behind it; or, if the JSON is broken, the text from there.
fn read_value<'t>(text: &'t str, marks: &Marks<'_>, calls: &mut Vec<WrittenCall>) -> Result<&'t str, &'t str> {
    let Some(mut rest) = text.strip_prefix('[').map(str::trim_start) else {
        if !text.starts_with('{') {
            return Err(text);
        }
        let (value, behind) = split_value(text).ok_or(text)?;
        calls.push(marks.read(value));
        return Ok(behind);
    };
    if let Some(behind) = rest.strip_prefix(']') {
        calls.push(WrittenCall::malformed("[]", "the list of calls is empty"));
        return Ok(behind);
    }
    loop {
        let (value, behind) = split_value(rest).ok_or(rest)?;
        calls.push(marks.read(value));
        let behind = behind.trim_start();
        if let Some(behind) = behind.strip_prefix(']') {
            return Ok(behind);
        }
        rest = behind.strip_prefix(',').ok_or(behind)?.trim_start();
    }
}

/// Takes everything up to the closing mark, the next opening mark or the end as one malformed call.
fn give_up<'t>(
    text: &'t str,
    reason: Option<&str>,
    marks: &Marks<'_>,
    opens: &[&str],
    calls: &mut Vec<WrittenCall>,
) -> &'t str {
    let mut ends = opens.to_vec();
    ends.push(marks.close);
    let (lost, rest, closed) = match split_at_mark(text, &ends) {
        Some((lost, mark, behind)) if mark == marks.close => (lost, behind, true),
        Some((lost, ..)) => (lost, &text[lost.len()..], false),
        None => (text, "", false),
    };
    let reason = match reason {
        Some(reason) => reason.to_owned(),
        None => broken(lost, marks),
    };
    let unclosed = !closed && marks.needs_close;
    let reason = if unclosed { format!("the call is not closed by {}; {reason}", marks.close) } else { reason };
    calls.push(WrittenCall::malformed(lost, reason));
    rest
}

/// The reason why a text is not the JSON of a call.
fn broken(text: &str, marks: &Marks<'_>) -> String {
    let text = text.trim_start();
    match marks.read(text) {
        _ if text.starts_with('[') => "the list of calls is not valid JSON".to_owned(),
        WrittenCall::Malformed { reason, .. } => reason,
        WrittenCall::Sound { .. } => "the list of calls is not closed by `]`".to_owned(),
    }
}

/// Writes calls between the marks of a format.
pub(super) fn write(calls: &[NewCall<'_>], marks: &Marks<'_>) -> Vec<CallPiece> {
    let open = marks.open.strip_suffix('[').unwrap_or(marks.open);
    let text = |call: &NewCall<'_>| match marks.shape {
        Shape::Object => write_call(call, marks.keys),
        Shape::SingleKey => format!("{{{}: {}}}", serde_json::Value::from(call.name), call.arguments),
    };
    let texts: Vec<String> = calls.iter().map(text).collect();
    match marks.layout {
        CallLayout::Each { head, tail, between } => {
            let mut pieces = Vec::new();
            for (index, text) in texts.into_iter().enumerate() {
                if index > 0 && !between.is_empty() {
                    pieces.push(CallPiece::frame(between));
                }
                pieces.push(CallPiece::frame(format!("{open}{head}")));
                pieces.push(CallPiece::plain(text));
                push_frame(format!("{tail}{}", marks.close), &mut pieces);
            }
            pieces
        }
        CallLayout::List => framed(open, format!("[{}]", texts.join(", ")), marks.close),
        CallLayout::Numbered => {
            let numbered = texts.iter().enumerate();
            let lines = numbered.map(|(id, text)| format!("\n    {{\"tool_call_id\": \"{id}\", {}", &text[1..]));
            framed(open, format!("[{}\n]", lines.collect::<Vec<_>>().join(",")), marks.close)
        }
    }
}

fn framed(open: &str, text: String, close: &str) -> Vec<CallPiece> {
    let mut pieces = Vec::new();
    push_frame(open.to_owned(), &mut pieces);
    pieces.push(CallPiece::plain(text));
    push_frame(close.to_owned(), &mut pieces);
    pieces
}

fn push_frame(text: String, pieces: &mut Vec<CallPiece>) {
    if !text.is_empty() {
        pieces.push(CallPiece::frame(text));
    }
}
