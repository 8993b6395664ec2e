//! Chat templates: Hugging Face's dialect of Jinja, rendered with placeholders for text from outside.

use minijinja::{Environment, ErrorKind, Value};
use serde_json::Value as Json;

/// The name under which the template stands in its environment.
pub(crate) const NAME: &str = "chat";

/// Placeholders are numbers between two private-use characters, which no control token contains.
const OPEN: char = '\u{F8F0}';
const CLOSE: char = '\u{F8F1}';

/// The texts that belong into a rendered template's placeholders.
#[derive(Debug, Default)]
pub(crate) struct Placeholders<'a> {
    texts: Vec<Entry<'a>>,
}

#[derive(Debug)]
struct Entry<'a> {
    text: &'a str,
    /// The policy said it, so that it is in the segment as tokens already.
    reply: bool,
    /// Those tokens, where they are known.
    tokens: &'a [u32],
}

/// A piece of a rendered template.
pub(crate) enum Piece<'a> {
    /// Written by the template.
    Own(&'a str),
    /// From outside.
    Outside(&'a str),
    /// What the policy said, as it was sampled.
    Sampled(&'a [u32]),
}

/// The placeholder of this number.
pub(crate) fn placeholder(number: usize) -> String {
    format!("{OPEN}{number}{CLOSE}")
}

/// Replaces the strings of a JSON value that contain a control token's text or look like a placeholder, and keeps them
/// in `texts`. A template prints them as JSON, so what is kept is the string's JSON form.
pub(crate) fn guard(value: Json, controls: &[String], texts: &mut Vec<String>) -> Json {
    match value {
        Json::String(text) => Json::String(guard_text(text, controls, texts)),
        Json::Array(items) => items.into_iter().map(|item| guard(item, controls, texts)).collect(),
        Json::Object(map) => map
            .into_iter()
            .map(|(key, item)| (guard_text(key, controls, texts), guard(item, controls, texts)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

fn guard_text(text: String, controls: &[String], texts: &mut Vec<String>) -> String {
    let harmless = !text.contains([OPEN, CLOSE]) && !controls.iter().any(|control| text.contains(control.as_str()));
    if harmless {
        return text;
    }
    let quoted = Json::String(text).to_string();
    texts.push(quoted[1..quoted.len() - 1].to_owned());
    placeholder(texts.len() - 1)
}

impl<'a> Placeholders<'a> {
    /// Keeps a text for the next placeholder.
    pub(crate) fn put(&mut self, text: &'a str) {
        self.texts.push(Entry { text, reply: false, tokens: &[] });
    }

    /// As `put`, for what the policy said. Its tokens stand for the text, unless there are none.
    pub(crate) fn put_reply(&mut self, text: &'a str, tokens: &'a [u32]) {
        self.texts.push(Entry { text, reply: true, tokens });
    }

    /// The rendered text in pieces.
    pub(crate) fn split<'t>(&'t self, text: &'t str) -> Vec<Piece<'t>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, index, after)) = next_placeholder(rest) {
            if !before.is_empty() {
                pieces.push(Piece::Own(before));
            }
            match self.texts.get(index) {
                Some(entry) if !entry.tokens.is_empty() => pieces.push(Piece::Sampled(entry.tokens)),
                Some(entry) if !entry.text.is_empty() => pieces.push(Piece::Outside(entry.text)),
                _ => {}
            }
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Own(rest));
        }
        pieces
    }

    /// What follows a reply's placeholder, if `text` starts with one.
    pub(crate) fn strip_leading<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (before, index, after) = next_placeholder(text)?;
        (before.is_empty() && self.texts.get(index)?.reply).then_some(after)
    }

    /// What follows the last placeholder of `text`.
    pub(crate) fn after_last<'t>(&self, text: &'t str) -> Option<&'t str> {
        let last = placeholder(self.texts.len().checked_sub(1)?);
        text.split_once(&last).map(|(_, tail)| tail)
    }
}

fn next_placeholder(text: &str) -> Option<(&str, usize, &str)> {
    let (before, behind) = text.split_once(OPEN)?;
    let (number, after) = behind.split_once(CLOSE)?;
    Some((before, number.parse().ok()?, after))
}

/// A token's text in the tokenizer's configuration, where it is a string or an object with `content`.
pub(crate) fn token_text(config: &Json, key: &str) -> String {
    let token = &config[key];
    token.as_str().or_else(|| token["content"].as_str()).unwrap_or_default().to_owned()
}

/// An environment that renders Hugging Face's templates: whitespace control, Python's string methods,
/// `raise_exception`, and `tojson` in Python's spacing.
pub(crate) fn environment(source: String) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_filter("tojson", |value: Value| -> Result<Value, minijinja::Error> {
        let mut bytes = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, PythonSpacing);
        serde::Serialize::serialize(&value, &mut writer)
            .map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))?;
        Ok(Value::from_safe_string(String::from_utf8_lossy(&bytes).into_owned()))
    });
    environment.add_template_owned(NAME, source)?;
    Ok(environment)
}

/// `json.dumps` puts a space behind each comma and colon, and models were trained on that.
struct PythonSpacing;

impl serde_json::ser::Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}
