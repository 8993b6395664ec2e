//! The formats of Gemma 4 and FunctionGemma: `call:NAME{key:value,…}` between control tokens, with texts between
//! control tokens of their own.
//!
//! Sources: the chat template of google/gemma-4-31B-it in llama.cpp (`models/templates/gemma4.jinja`), the page
//! "FunctionGemma formatting and best practices" of Google, and vLLM's tool parsers `gemma4` and `functiongemma` with
//! their tests.

use gymkhana_record::Function;

use super::json::exact::{Entries, MAX_DEPTH, ObjectText, compact};
use super::scan::{behind, split_at_mark};
use super::schema::{Schema, quoted};
use super::{CallPiece, NewCall, ParsedReply, ReplyBuilder, WrittenCall};

/// The marks of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// The mark before a call.
    pub open: &'static str,
    /// The mark behind a call.
    pub close: &'static str,
    /// The mark before and behind a text.
    pub quote: &'static str,
    /// The mark that begins a tool's answer, which ends the turn.
    pub answer: &'static str,
}

/// Gemma 4.
pub(super) const GEMMA: Marks =
    Marks { open: "<|tool_call>", close: "<tool_call|>", quote: "<|\"|>", answer: "<|tool_response>" };
/// FunctionGemma.
pub(super) const FUNCTION_GEMMA: Marks = Marks {
    open: "<start_function_call>",
    close: "<end_function_call>",
    quote: "<escape>",
    answer: "<start_function_response>",
};
const CALL: &str = "call:";

pub(super) fn parse(text: &str, marks: &Marks, functions: &[Function]) -> ParsedReply {
    let mut reply = ReplyBuilder::default();
    let mut rest = text;
    while let Some((outside, _, after)) = split_at_mark(rest, &[marks.open]) {
        reply.message.push_str(outside);
        let mut values = Values { marks, text: after };
        match values.read_call(functions) {
            Ok(call) => {
                reply.calls.push(call);
                rest = behind(values.text, marks.close).unwrap_or_default();
            }
            Err(reason) => {
                let (lost, mark, behind) = split_at_mark(after, &[marks.close, marks.open]).unwrap_or((after, "", ""));
                reply.calls.push(WrittenCall::malformed(lost, reason));
                rest = if mark == marks.open { &after[lost.len()..] } else { behind };
            }
        }
    }
    reply.message.push_str(rest);
    reply.finish()
}

/// The part of a call that was not read yet.
struct Values<'t> {
    marks: &'t Marks,
    text: &'t str,
}

impl<'t> Values<'t> {
    /// Reads `call:NAME{…}` and its closing mark, which may be absent at the end of the text.
    fn read_call(&mut self, functions: &[Function]) -> Result<WrittenCall, String> {
        self.text = behind(self.text, CALL).ok_or("the call does not begin with call:NAME{")?;
        let end = self.text.find(['{', '<', '\n']).unwrap_or(self.text.len());
        let (name, inside) = self.text.split_at(end);
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err("the call has no function name".to_owned());
        }
        if !inside.starts_with('{') {
            return Err("the call does not begin with call:NAME{".to_owned());
        }
        self.text = inside;
        let schema = Schema::of(name, functions);
        let arguments = self.read_object(0, Some(&schema))?;
        if self.text.trim_start().is_empty() || behind(self.text, self.marks.close).is_some() {
            return Ok(WrittenCall::Sound { name: name.to_owned(), arguments: compact(&arguments)? });
        }
        Err(format!("the call is not closed by {}", self.marks.close))
    }

    fn skip(&mut self, mark: &str) -> bool {
        let rest = behind(self.text, mark);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    /// Reads `{key:value,…}`. The schema is that of the outermost object.
    fn read_object(&mut self, depth: usize, schema: Option<&Schema>) -> Result<String, String> {
        self.skip("{");
        let mut object = ObjectText::default();
        while !self.skip("}") {
            let key = self.read_key()?;
            let value = match (self.skip(self.marks.quote), schema) {
                (true, Some(schema)) => self.read_text().map(|text| schema.read_text(&key, text)),
                (true, None) => self.read_text().map(quoted),
                (false, _) => self.read_value(depth + 1),
            }?;
            if !object.insert(&key, value) {
                return Err(format!("argument `{key}` is given twice"));
            }
            if !self.skip(",") && !self.text.trim_start().starts_with('}') {
                return Err(format!("`,` or `}}` is missing behind argument `{key}`"));
            }
        }
        Ok(object.finish())
    }

    /// Reads a key and the colon behind it.
    fn read_key(&mut self) -> Result<String, String> {
        let key = if self.skip(self.marks.quote) {
            self.read_text()?.to_owned()
        } else {
            let end = self.text.find([':', ',', '{', '}', '<', '\n']).unwrap_or(self.text.len());
            let (key, rest) = self.text.split_at(end);
            self.text = rest;
            key.trim().trim_matches('"').to_owned()
        };
        if self.skip(":") { Ok(key) } else { Err("an argument is not of the form key:value".to_owned()) }
    }

    /// Reads a text behind its opening mark.
    fn read_text(&mut self) -> Result<&'t str, String> {
        let (text, _, rest) = split_at_mark(self.text, &[self.marks.quote])
            .ok_or_else(|| format!("a text is not closed by {}", self.marks.quote))?;
        self.text = rest;
        Ok(text)
    }

    fn read_value(&mut self, depth: usize) -> Result<String, String> {
        if depth > MAX_DEPTH {
            return Err("recursion limit exceeded".to_owned());
        }
        if self.skip(self.marks.quote) {
            return self.read_text().map(quoted);
        }
        self.text = self.text.trim_start();
        match self.text.bytes().next() {
            Some(b'{') => self.read_object(depth, None),
            Some(b'[') => self.read_list(depth),
            Some(b'"') => self.read_json_string(),
            Some(_) => self.read_word(),
            None => Err("a value is missing at the end of the call".to_owned()),
        }
    }

    fn read_list(&mut self, depth: usize) -> Result<String, String> {
        self.skip("[");
        let mut values = Vec::new();
        while !self.skip("]") {
            values.push(self.read_value(depth + 1)?);
            if !self.skip(",") && !self.text.trim_start().starts_with(']') {
                return Err("`,` or `]` is missing in a list".to_owned());
            }
        }
        Ok(format!("[{}]", values.join(",")))
    }

    /// Models of this family write a text as a JSON string now and then.
    fn read_json_string(&mut self) -> Result<String, String> {
        let (string, rest) = super::json::split_value(self.text).ok_or("a text is not closed by a quotation mark")?;
        self.text = rest;
        Ok(string.to_owned())
    }

    /// A number, a constant, or a text without marks.
    fn read_word(&mut self) -> Result<String, String> {
        let end = self.text.find([',', '}', ']', '{', '[', '<', '\n']).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        match word.trim() {
            "" => Err("a value is missing".to_owned()),
            "None" | "none" => Ok("null".to_owned()),
            "True" => Ok("true".to_owned()),
            "False" => Ok("false".to_owned()),
            word => Ok(compact(word).unwrap_or_else(|_| quoted(word))),
        }
    }
}

pub(super) fn write(calls: &[NewCall<'_>], marks: &Marks) -> Vec<CallPiece> {
    let mut writer = GemmaWriter { marks, pieces: Vec::new() };
    for call in calls {
        writer.push_frame(marks.open);
        writer.push_plain(CALL);
        writer.push_plain(call.name);
        // Arguments that are too deep, or that are not a JSON object, are written as they are.
        let readable = compact(call.arguments).is_ok();
        match Entries::of(call.arguments) {
            Ok(entries) if readable => writer.push_object(&entries),
            _ => writer.push_plain(call.arguments),
        }
        writer.push_frame(marks.close);
    }
    writer.pieces
}

struct GemmaWriter<'w> {
    marks: &'w Marks,
    pieces: Vec<CallPiece>,
}

impl GemmaWriter<'_> {
    fn push_frame(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(CallPiece::Frame(frame)) => frame.push_str(text),
            _ => self.pieces.push(CallPiece::frame(text)),
        }
    }

    fn push_plain(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(CallPiece::Plain(plain)) => plain.push_str(text),
            _ => self.pieces.push(CallPiece::plain(text)),
        }
    }

    fn push_text(&mut self, text: &str) {
        self.push_frame(self.marks.quote);
        self.push_plain(text);
        self.push_frame(self.marks.quote);
    }

    fn push_object(&mut self, entries: &Entries<'_>) {
        self.push_plain("{");
        for (index, (key, value)) in entries.0.iter().enumerate() {
            self.push_plain(if index > 0 { "," } else { "" });
            if is_plain_key(key) {
                self.push_plain(key);
            } else {
                self.push_text(key);
            }
            self.push_plain(":");
            self.push_value(value.get());
        }
        self.push_plain("}");
    }

    /// Writes a JSON value. The depth is bounded where the arguments are read as JSON.
    fn push_value(&mut self, json: &str) {
        match json.bytes().next() {
            Some(b'"') => self.push_text(&serde_json::from_str::<String>(json).unwrap_or_default()),
            Some(b'{') => match Entries::of(json) {
                Ok(entries) => self.push_object(&entries),
                Err(_) => self.push_plain(json),
            },
            Some(b'[') => {
                let values: Vec<&serde_json::value::RawValue> = serde_json::from_str(json).unwrap_or_default();
                self.push_plain("[");
                for (index, value) in values.iter().enumerate() {
                    self.push_plain(if index > 0 { "," } else { "" });
                    self.push_value(value.get());
                }
                self.push_plain("]");
            }
            _ => self.push_plain(json),
        }
    }
}

/// Whether a key needs no marks of a text.
fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
}
