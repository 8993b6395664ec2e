//! Calls in Python's notation: `[name(a=1, b='x'), other()]`, bare or between marks.
//!
//! Sources: the chat templates of Llama 3.2 and Llama 4 in vLLM (`examples/tool_chat_template_llama4_pythonic.jinja`,
//! `tool_chat_template_olmo3.jinja`) and LiquidAI/LFM2-1.2B, and vLLM's tool parsers `pythonic`, `llama4_pythonic`,
//! `olmo3` and `lfm2` with their tests.

pub(super) mod literal;
mod read;

use super::json::exact::Entries;
use super::{CallPiece, NewCall};

pub(super) use self::read::{parse, starts_call};

/// The marks and the layout of a format in Python's notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notation {
    /// The text before calls.
    pub open: &'static str,
    /// The text behind calls.
    pub close: &'static str,
    /// The text between two calls.
    pub between: &'static str,
    /// Whether constants are written as `True`, `False` and `None`; else as in JSON.
    pub python_words: bool,
    /// Whether the calls stand in square brackets.
    pub brackets: bool,
}

/// Llama 3.2 and 4: a list without marks.
pub(super) const BARE: Notation = Notation { open: "", close: "", between: ", ", python_words: true, brackets: true };
/// LFM2: a list between control tokens.
pub(super) const LFM2: Notation = Notation {
    open: "<|tool_call_start|>",
    close: "<|tool_call_end|>",
    between: ", ",
    python_words: true,
    brackets: true,
};
/// Olmo 3: a line for each call.
pub(super) const OLMO: Notation = Notation {
    open: "<function_calls>\n",
    close: "\n</function_calls>",
    between: "\n",
    python_words: false,
    brackets: false,
};

/// Marks around calls that every format in Python's notation reads.
pub(super) const MARKS: [(&str, &str); 3] = [
    ("<|tool_call_start|>", "<|tool_call_end|>"),
    ("<function_calls>", "</function_calls>"),
    ("<|python_start|>", "<|python_end|>"),
];

/// Writes calls in a notation.
pub(super) fn write(calls: &[NewCall<'_>], notation: &Notation) -> Vec<CallPiece> {
    let texts: Vec<String> = calls.iter().map(|call| write_call(call, notation)).collect();
    let joined = texts.join(notation.between);
    let text = if notation.brackets { format!("[{joined}]") } else { joined };
    let pieces = [CallPiece::frame(notation.open), CallPiece::plain(text), CallPiece::frame(notation.close)];
    pieces.into_iter().filter(|piece| *piece != CallPiece::frame("")).collect()
}

fn write_call(call: &NewCall<'_>, notation: &Notation) -> String {
    let Ok(entries) = Entries::of(call.arguments) else {
        // No parser reads arguments that are not a JSON object.
        return format!("{}({})", call.name, call.arguments);
    };
    let mut arguments = Vec::new();
    for (key, value) in &entries.0 {
        let mut text = String::new();
        push_literal(value.get(), notation, &mut text);
        arguments.push(if is_identifier(key) {
            format!("{key}={text}")
        } else {
            format!("**{{{}: {text}}}", serde_json::Value::from(key.as_str()))
        });
    }
    format!("{}({})", call.name, arguments.join(", "))
}

fn is_identifier(key: &str) -> bool {
    !key.starts_with(|c: char| c.is_ascii_digit())
        && !key.is_empty()
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Appends a JSON value as a literal. The text outside of strings differs in its constants alone.
fn push_literal(json: &str, notation: &Notation, text: &mut String) {
    if !notation.python_words {
        text.push_str(json);
        return;
    }
    let mut rest = json;
    while let Some(at) = rest.find(['"', 't', 'f', 'n']) {
        text.push_str(&rest[..at]);
        let here = &rest[at..];
        let (word, length) = match here.as_bytes()[0] {
            b't' => ("True", 4),
            b'f' => ("False", 5),
            b'n' => ("None", 4),
            _ => {
                let end = string_end(here);
                (&here[..end], end)
            }
        };
        text.push_str(word);
        rest = here.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
}

/// The length of the JSON string at the beginning of a text.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
