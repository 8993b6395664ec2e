//! Chat templates: Hugging Face's dialect of Jinja, rendered with placeholders for text from outside.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Environment, ErrorKind, Value};
use serde::Serialize;
use serde_json::Value as Json;

use crate::error::ChatError;

/// The template's name in its environment.
pub(crate) const NAME: &str = "chat";

/// Placeholders are numbers between two private-use characters, which no control token contains.
const OPEN: char = '\u{F8F0}';
const CLOSE: char = '\u{F8F1}';

/// Steps of one rendering (instructions of the interpreter, about a second). Published templates take some hundreds for
/// a message.
pub(crate) const MAX_STEPS: u64 = 10_000_000;
/// Bytes that one rendering may write. Texts of messages are placeholders, so this is the template's own text and the
/// list of functions.
const MAX_WRITTEN_BYTES: usize = 8 << 20;
/// Bytes of a template's source. Published templates have up to some tens of thousands.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Maximum indent of `tojson`, in spaces.
const MAX_INDENT: usize = 16;

/// The texts of a rendered template's placeholders, by number.
#[derive(Debug, Default)]
pub(crate) struct Placeholders<'a> {
    texts: Vec<PlaceholderText<'a>>,
}

#[derive(Debug)]
struct PlaceholderText<'a> {
    text: &'a str,
    author: Author,
    /// The reply's sampled tokens; empty if they are unknown.
    tokens: &'a [u32],
}

/// The author of a placeholder's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// The run: instructions and functions.
    Run,
    /// A user or a tool.
    Observed,
    /// The policy: the segment already holds the reply as tokens.
    Policy,
}

/// A piece of a rendered template.
pub(crate) enum TemplatePiece<'a> {
    /// Text of the template.
    Own(&'a str),
    /// Text of the run: instructions and functions.
    Outside(&'a str),
    /// Text of a user or a tool.
    Observed(&'a str),
    /// A reply of the policy, as sampled tokens.
    Sampled(&'a [u32]),
}

/// The placeholder with this number.
pub(crate) fn placeholder(number: usize) -> String {
    format!("{OPEN}{number}{CLOSE}")
}

/// Replaces the strings of a JSON value that contain a control token's text or a placeholder's marks by placeholders,
/// and appends the strings to `texts`, in their JSON form, because a template prints them as JSON.
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
    /// Adds the text of the next placeholder.
    pub(crate) fn put(&mut self, text: &'a str) {
        self.texts.push(PlaceholderText { text, author: Author::Run, tokens: &[] });
    }

    /// As `put`, for a text that the policy observes.
    pub(crate) fn put_observed(&mut self, text: &'a str) {
        self.texts.push(PlaceholderText { text, author: Author::Observed, tokens: &[] });
    }

    /// As `put`, for a reply of the policy. Its tokens replace the text unless they are empty.
    pub(crate) fn put_reply(&mut self, text: &'a str, tokens: &'a [u32]) {
        self.texts.push(PlaceholderText { text, author: Author::Policy, tokens });
    }

    /// The rendered text in pieces.
    pub(crate) fn split<'t>(&'t self, text: &'t str) -> Vec<TemplatePiece<'t>> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, index, after)) = next_placeholder(rest) {
            if !before.is_empty() {
                pieces.push(TemplatePiece::Own(before));
            }
            match self.texts.get(index) {
                Some(entry) if !entry.tokens.is_empty() => pieces.push(TemplatePiece::Sampled(entry.tokens)),
                Some(PlaceholderText { text, author: Author::Observed, .. }) if !text.is_empty() => {
                    pieces.push(TemplatePiece::Observed(text));
                }
                Some(entry) if !entry.text.is_empty() => pieces.push(TemplatePiece::Outside(entry.text)),
                _ => {}
            }
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(TemplatePiece::Own(rest));
        }
        pieces
    }

    /// The text after a reply's placeholder, if `text` starts with one.
    pub(crate) fn strip_leading<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (before, index, after) = next_placeholder(text)?;
        (before.is_empty() && self.texts.get(index)?.author == Author::Policy).then_some(after)
    }

    /// The text after the last placeholder of `text`.
    pub(crate) fn after_last<'t>(&self, text: &'t str) -> Option<&'t str> {
        let last = placeholder(self.texts.len().checked_sub(1)?);
        text.split_once(&last).map(|(_, tail)| tail)
    }
}

/// The text behind the last placeholder of a rendering.
pub(crate) fn behind_placeholders(text: &str) -> &str {
    text.rsplit_once(CLOSE).map_or(text, |(_, tail)| tail)
}

fn next_placeholder(text: &str) -> Option<(&str, usize, &str)> {
    let (before, behind) = text.split_once(OPEN)?;
    let (number, after) = behind.split_once(CLOSE)?;
    Some((before, number.parse().ok()?, after))
}

/// A token's text in the tokenizer's configuration, which holds a string or an object with `content`; else empty.
pub(crate) fn token_text(config: &Json, key: &str) -> String {
    let token = &config[key];
    token.as_str().or_else(|| token["content"].as_str()).unwrap_or_default().to_owned()
}

/// An environment that renders Hugging Face's templates: whitespace control, Python's string methods,
/// `raise_exception`, and `tojson` with Python's spacing and its `indent` argument.
///
/// # Errors
/// [`ChatError::TemplateLimit`] for a source that is too long, [`ChatError::Render`] for a malformed one.
pub(crate) fn environment(source: String) -> Result<Environment<'static>, ChatError> {
    if source.len() > MAX_SOURCE_BYTES {
        let excess = format!("has {} bytes, more than {MAX_SOURCE_BYTES}", source.len());
        return Err(ChatError::TemplateLimit { excess });
    }
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
    // As in Python, `none` is not iterable; templates test `tools` in this way.
    environment
        .add_test("iterable", |value: &Value| value.is_undefined() || (!value.is_none() && value.try_iter().is_ok()));
    environment.add_template_owned(NAME, source).map_err(ChatError::Render)?;
    Ok(environment)
}

/// Renders the template of an environment.
///
/// # Errors
/// [`ChatError::TemplateLimit`] beyond a limit, [`ChatError::Render`] if the template fails.
pub(crate) fn render(environment: &Environment<'_>, context: &Value) -> Result<String, ChatError> {
    let template = environment.get_template(NAME).map_err(ChatError::Render)?;
    let mut written = Bounded(Vec::new());
    let rendered = template.render_captured_to(context, &mut written).map(drop);
    rendered.map_err(|error| match error.kind() {
        ErrorKind::OutOfFuel => ChatError::TemplateLimit { excess: format!("takes more than {MAX_STEPS} steps") },
        ErrorKind::WriteFailure => {
            ChatError::TemplateLimit { excess: format!("writes more than {MAX_WRITTEN_BYTES} bytes") }
        }
        _ => ChatError::Render(error),
    })?;
    String::from_utf8(written.0).map_err(|error| ChatError::Decode(error.to_string()))
}

/// Bytes of a rendering, up to the limit.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_WRITTEN_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The function `strftime_now`, with a fixed date instead of today's, so that a run's prompts do not depend on the day.
/// The date is the one that Llama's templates use without this function.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    // Friday, 26 July 2024, at midnight.
    let codes = [
        ("%Y", "2024"),
        ("%y", "24"),
        ("%m", "07"),
        ("%d", "26"),
        ("%b", "Jul"),
        ("%B", "July"),
        ("%a", "Fri"),
        ("%A", "Friday"),
        ("%H", "00"),
        ("%M", "00"),
        ("%S", "00"),
    ];
    let text = codes.iter().fold(format.to_owned(), |text, (code, value)| text.replace(code, value));
    if text.contains('%') {
        let reason = format!("strftime_now cannot format a date as `{format}`");
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason));
    }
    Ok(text)
}

/// The filter `tojson` as transformers defines it, with the arguments that published templates use: `indent`, and
/// `ensure_ascii`, which is false there already.
#[allow(clippy::needless_pass_by_value, reason = "minijinja calls filters with owned arguments")]
fn to_json(value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    if ensure_ascii == Some(true) {
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, "tojson cannot escape to ASCII"));
    }
    let mut bytes = Vec::new();
    let written = match indent {
        Some(width) => {
            let indent = " ".repeat(width.min(MAX_INDENT));
            let pretty = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, pretty))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, PythonSpacing)),
    };
    written.map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&bytes).into_owned()))
}

/// An object as JSON text in the spacing of Python's `json.dumps`, as chat templates write the arguments of calls.
#[must_use]
pub fn python_json(object: &serde_json::Map<String, Json>) -> String {
    let mut bytes = Vec::new();
    let written = object.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, PythonSpacing));
    match written {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // An object of JSON values is always written.
        Err(_) => Json::Object(object.clone()).to_string(),
    }
}

/// The spacing of Python's `json.dumps`, a space after each comma and colon, on which models were trained.
struct PythonSpacing;

impl serde_json::ser::Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
