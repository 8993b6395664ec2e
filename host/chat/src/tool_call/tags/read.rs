//! The parser of calls with a tag for each parameter.

use gymkhana_record::Function;

use super::super::json::exact::{ObjectText, compact};
use super::super::scan::split_at_mark;
use super::super::schema::{Schema, quoted};
use super::super::{ParsedReply, ReplyBuilder, WrittenCall};
use super::{NameForm, Tags, names};

/// Splits a reply into its message and its calls.
pub(in super::super) fn parse(text: &str, tags: &Tags, functions: &[Function]) -> ParsedReply {
    let reader = TagReader { tags, functions, whole: text, ends: ends_of(text, tags), joins: joins_of(text, tags) };
    let mut reply = ReplyBuilder::default();
    let mut starts: Vec<&str> = tags.sections.iter().map(|(open, _)| *open).collect();
    // Models sometimes leave out the marks of a section.
    starts.push(tags.function);
    let mut rest = text;
    while let Some((outside, mark, behind)) = split_at_mark(rest, &starts) {
        reply.message.push_str(outside);
        rest = if mark == tags.function {
            let (call, behind) = reader.read_or_lose(&rest[outside.len()..]);
            reply.calls.push(call);
            let closed = behind.trim_start();
            tags.strip_close(closed).unwrap_or(behind)
        } else {
            reader.read_section(behind, &mut reply.calls)
        };
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// Places of the closing tags of values: those behind which another tag of the call or the end of the text follows.
fn ends_of(text: &str, tags: &Tags) -> Vec<usize> {
    let closing = text.match_indices(tags.parameter_end).filter(|(at, mark)| {
        let next = text.get(at + mark.len()..).unwrap_or_default().trim_start();
        next.is_empty()
            || next.starts_with(tags.parameter)
            || next.starts_with(tags.function_end)
            || tags.strip_close(next).is_some()
    });
    closing.map(|(at, _)| at).collect()
}

/// Places where the end of a call is followed by another call, through the marks of sections or without them.
fn joins_of(text: &str, tags: &Tags) -> Vec<usize> {
    let mut ends: Vec<&str> = tags.sections.iter().map(|(_, close)| *close).collect();
    ends.push(tags.function_end);
    let mut marks = ends.clone();
    marks.extend(tags.sections.iter().map(|(open, _)| *open));
    let mut joins = Vec::new();
    let mut rest = text;
    while let Some((outside, _, behind)) = split_at_mark(rest, &ends) {
        let place = text.len() - rest.len() + outside.len();
        rest = behind.trim_start();
        while let Some(behind) = marks.iter().find_map(|mark| rest.strip_prefix(mark)) {
            rest = behind.trim_start();
        }
        if rest.starts_with(tags.function) {
            joins.push(place);
        }
    }
    joins
}

struct TagReader<'r> {
    tags: &'r Tags,
    functions: &'r [Function],
    whole: &'r str,
    ends: Vec<usize>,
    joins: Vec<usize>,
}

impl<'r> TagReader<'r> {
    /// Reads the calls behind the opening mark of a section and gives the text behind the section.
    fn read_section(&self, text: &'r str, calls: &mut Vec<WrittenCall>) -> &'r str {
        let first = calls.len();
        let mut rest = text;
        loop {
            let inside = self.skip_preface(rest);
            if inside.starts_with(self.tags.function) {
                let (call, behind) = self.read_or_lose(inside);
                calls.push(call);
                rest = behind;
            } else if let Some(behind) = self.tags.strip_close(inside).filter(|_| calls.len() > first) {
                return behind;
            } else if calls.len() > first {
                return self.tags.strip_close(rest.trim_start()).unwrap_or(rest);
            } else {
                let reason = format!("the call does not begin with {}NAME", self.tags.function);
                let (call, behind) = self.lose(rest, &reason);
                calls.push(call);
                return behind;
            }
        }
    }

    /// Skips marks without meaning before a function, and its name if it stands there once more.
    fn skip_preface(&self, text: &'r str) -> &'r str {
        let mut rest = text.trim_start();
        if self.tags.preface.is_empty() {
            return rest;
        }
        while let Some(behind) = self.tags.preface.iter().find_map(|mark| rest.strip_prefix(mark)) {
            rest = behind.trim_start();
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_.-".contains(c))).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let behind = behind.trim_start();
        let repeated = behind.strip_prefix(self.tags.function).and_then(|head| names::function(head, self.tags).ok());
        if repeated.is_some_and(|named| named.name == name) { behind } else { rest }
    }

    /// Reads a function, or takes the text up to its end as a malformed call.
    fn read_or_lose(&self, text: &'r str) -> (WrittenCall, &'r str) {
        match self.read_function(text) {
            Ok(read) => read,
            Err(reason) => self.lose(text, &reason),
        }
    }

    /// A malformed call: the text up to the end of a function or of a section, or all of it.
    fn lose(&self, text: &'r str, reason: &str) -> (WrittenCall, &'r str) {
        let mut ends: Vec<&str> = self.tags.sections.iter().map(|(_, close)| *close).collect();
        ends.push(self.tags.function_end);
        let (lost, behind) = split_at_mark(text, &ends).map_or((text, ""), |(lost, _, behind)| (lost, behind));
        (WrittenCall::malformed(lost, reason), behind)
    }

    /// Reads a function up to its end and gives the text behind it, or the reason why it is malformed.
    fn read_function(&self, text: &'r str) -> Result<(WrittenCall, &'r str), String> {
        let tags = self.tags;
        let named = names::function(text.strip_prefix(tags.function).unwrap_or(text), tags)?;
        let schema = Schema::of(named.name, self.functions);
        let mut arguments = ObjectText::default();
        let mut rest = named.behind.trim_start();
        let preface = tags.preface.iter().filter(|_| matches!(tags.name, NameForm::Element { .. }));
        if let Some(behind) = preface.into_iter().find_map(|mark| rest.strip_prefix(mark)) {
            rest = behind;
        }
        loop {
            rest = rest.trim_start();
            let closed = rest.strip_prefix(tags.function_end);
            // A section's end closes the function as well.
            if let Some(behind) = closed.or_else(|| tags.strip_close(rest).map(|_| rest)) {
                let call = WrittenCall::Sound { name: named.name.to_owned(), arguments: arguments.finish() };
                return Ok((call, behind));
            }
            let Some(head) = rest.strip_prefix(tags.parameter) else {
                let missing = tags.function_end;
                return Err(if rest.is_empty() {
                    format!("the call is not closed by {missing}")
                } else {
                    format!("the call is not closed by {missing}, and {}NAME does not follow", tags.parameter)
                });
            };
            let parameter = names::parameter(head, tags)?;
            if arguments.contains(parameter.name) {
                return Err(format!("parameter `{}` is given twice", parameter.name));
            }
            let (value, behind) = self.split_value(parameter.behind, parameter.name, &schema, &arguments)?;
            let value = self.trim_value(value);
            let json = match parameter.string {
                Some(true) => quoted(value),
                Some(false) => compact(value).unwrap_or_else(|_| schema.read(parameter.name, value)),
                None => schema.read(parameter.name, value),
            };
            arguments.insert(parameter.name, json);
            rest = behind;
        }
    }

    /// A value without the line breaks or the marks of plain text that stand around it.
    fn trim_value<'v>(&self, value: &'v str) -> &'v str {
        if self.tags.values.cdata
            && let Some(text) = value.trim().strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"))
        {
            return text;
        }
        if !self.tags.values.on_lines {
            return value;
        }
        let value = value.strip_prefix('\n').unwrap_or(value);
        value.strip_suffix('\n').unwrap_or(value)
    }

    /// The value of a parameter and the text behind its closing tag.
    fn split_value(
        &self,
        text: &'r str,
        key: &str,
        schema: &Schema,
        given: &ObjectText,
    ) -> Result<(&'r str, &'r str), String> {
        let tags = self.tags;
        let unclosed = || format!("parameter `{key}` is not closed by {}", tags.parameter_end);
        let start = self.whole.len() - text.len();
        let end = self.ends.get(self.ends.partition_point(|end| *end < start)).ok_or_else(unclosed)?;
        let (value, behind) = text.split_at_checked(end - start).ok_or_else(unclosed)?;
        if let Some((head, next)) = self.split_at_parameter(value) {
            match schema.names(next) {
                Some(true) if next != key && !given.contains(next) => return Ok((head, &text[head.len()..])),
                Some(_) => {}
                None => return Err(format!("{} before {}{next}", unclosed(), tags.parameter)),
            }
        }
        // The value would run over the end of its call into another call.
        let join = self.joins.partition_point(|join| *join < start);
        if self.joins.get(join).is_some_and(|join| join < end) {
            return Err(unclosed());
        }
        Ok((value, &behind[tags.parameter_end.len()..]))
    }

    /// Splits a value in front of the first line that begins with the tag of another parameter, and gives its name.
    fn split_at_parameter<'v>(&self, value: &'v str) -> Option<(&'v str, &'v str)> {
        let (head, _, behind) = split_at_mark(value, &[self.tags.parameter])?;
        let named = names::parameter(behind, self.tags).ok()?;
        if head.is_empty() || head.ends_with('\n') { Some((head, named.name)) } else { None }
    }
}
