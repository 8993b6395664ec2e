//! The writer of calls with a tag for each parameter.

use super::super::json::exact::Entries;
use super::super::{CallPiece, NewCall};
use super::{NameForm, Tags};

/// Writes calls as the model's chat template does.
pub(in super::super) fn write(calls: &[NewCall<'_>], tags: &Tags) -> Vec<CallPiece> {
    let line = if tags.on_lines { "\n" } else { "" };
    let (open, close) = tags.sections.first().copied().unwrap_or_default();
    let mut writer = TagWriter { tags, line, pieces: Vec::new() };
    writer.push_frame(tags.outer.0);
    for (index, call) in calls.iter().enumerate() {
        let first = index == 0;
        if !first {
            writer.push_frame(line);
        }
        if !open.is_empty() && (first || !tags.one_section) {
            writer.push_frame(&format!("{open}{line}"));
        }
        writer.write_call(call);
        if !close.is_empty() && (index + 1 == calls.len() || !tags.one_section) {
            writer.push_frame(&format!("{line}{close}"));
        }
    }
    writer.push_frame(tags.outer.1);
    writer.pieces
}

struct TagWriter<'w> {
    tags: &'w Tags,
    line: &'static str,
    pieces: Vec<CallPiece>,
}

impl TagWriter<'_> {
    /// Appends text of the format, and joins it with frame text before it.
    fn push_frame(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(CallPiece::Frame(frame)) => frame.push_str(text),
            _ => self.pieces.push(CallPiece::frame(text)),
        }
    }

    /// Appends a tag of a call, which is a frame if the tags are control tokens.
    fn push_tag(&mut self, text: &str) {
        if self.tags.control_tags { self.push_frame(text) } else { self.push_plain(text) }
    }

    fn push_plain(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(CallPiece::Plain(plain)) => plain.push_str(text),
            _ => self.pieces.push(CallPiece::plain(text)),
        }
    }

    fn write_call(&mut self, call: &NewCall<'_>) {
        let Tags { function, function_end, .. } = *self.tags;
        self.push_tag(function);
        match self.tags.name {
            NameForm::Plain => self.push_named("", call.name, ">"),
            NameForm::Attribute => self.push_named("\"", call.name, "\">"),
            NameForm::Element { .. } => self.push_named("", call.name, self.tags.preface.first().unwrap_or(&"")),
        }
        self.push_tag(self.line);
        match Entries::of(call.arguments) {
            Ok(entries) => {
                for (key, value) in &entries.0 {
                    self.write_parameter(key, value.get());
                }
            }
            // No parser reads arguments that are not a JSON object.
            Err(_) => self.push_plain(&format!("{}{}", call.arguments, self.line)),
        }
        self.push_tag(function_end);
    }

    fn push_named(&mut self, before: &str, name: &str, behind: &str) {
        self.push_tag(before);
        self.push_plain(name);
        self.push_tag(behind);
    }

    fn write_parameter(&mut self, key: &str, value: &str) {
        let Tags { parameter, parameter_end, values, name, .. } = *self.tags;
        let text: Option<String> = serde_json::from_str(value).ok();
        self.push_tag(parameter);
        match name {
            NameForm::Plain => self.push_named("", key, ">"),
            NameForm::Attribute if values.marks_strings => {
                self.push_named("\"", key, &format!("\" string=\"{}\">", text.is_some()));
            }
            NameForm::Attribute => self.push_named("\"", key, "\">"),
            NameForm::Element { value, end } => self.push_named("", key, &format!("{end}{}{value}", self.line)),
        }
        let around = if values.on_lines { "\n" } else { "" };
        let value = match value {
            "true" if values.python_words => "True",
            "false" if values.python_words => "False",
            "null" if values.python_words => "None",
            other => text.as_deref().unwrap_or(other),
        };
        self.push_plain(&format!("{around}{value}{around}"));
        self.push_tag(&format!("{parameter_end}{}", self.line));
    }
}
