//! The filter `tojson`: Python's `json.dumps` without escapes of HTML.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Mark, Str};
use crate::value::{Args, Val, compare, float_text, items_of, sorted};

/// How a value is written.
struct Style {
    ensures_ascii: bool,
    indent: Option<Str>,
    between: Str,
    colon: Str,
    sorts_keys: bool,
}

/// The filter `tojson`.
pub(super) fn tojson(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] = args.bind("tojson", names, 0)?;
    let indent = match indent.present() {
        None => None,
        Some(Val::Str(text)) => Some(text.clone()),
        Some(width) => {
            let width = usize::try_from(width.need_int("the indent of `tojson`")?).unwrap_or(0);
            cx.hold(width)?;
            Some(Str::own(&" ".repeat(width)))
        }
    };
    let (between, colon) = match separators.present() {
        None => (Str::own(if indent.is_some() { "," } else { ", " }), Str::own(": ")),
        Some(pair) => match items_of(cx, pair)?.items.as_slice() {
            [between, colon] => (between.need_str("a separator")?.clone(), colon.need_str("a separator")?.clone()),
            _ => return fail("`separators` must be a pair"),
        },
    };
    let style =
        Style { ensures_ascii: ensure_ascii.is_true(), indent, between, colon, sorts_keys: sort_keys.is_true() };
    let mut to = Builder::default();
    style.write(cx, value, 0, &mut to)?;
    Val::text(cx, to.finish())
}

impl Style {
    fn write(&self, cx: &Context, value: &Val, level: usize, to: &mut Builder) -> Result<(), Fault> {
        cx.steps(1)?;
        match value {
            Val::None => to.own("null"),
            Val::Bool(value) => to.own(if *value { "true" } else { "false" }),
            Val::Int(number) => to.own(&number.to_string()),
            Val::Float(number) => to.own(&json_float(*number)),
            Val::Str(text) => self.quote(cx, text, to)?,
            Val::List(seq) | Val::Tuple(seq) => {
                let items = seq.items.iter().map(|item| (None, item));
                self.collection(cx, items, ("[", "]"), level, to)?;
            }
            Val::Dict(dict) => {
                let mut entries: Vec<(&Val, &Val)> = dict.entries().iter().map(|(key, value)| (key, value)).collect();
                if self.sorts_keys {
                    entries = sorted(entries, |left, right| compare(cx, left.0, right.0))?;
                }
                let entries = entries.into_iter().map(|(key, value)| (Some(key), value));
                self.collection(cx, entries, ("{", "}"), level, to)?;
            }
            other => {
                other.check_defined()?;
                return fail(format!("a value of type `{}` has no JSON form", other.type_name()));
            }
        }
        Ok(())
    }

    fn collection<'v>(
        &self,
        cx: &Context,
        entries: impl ExactSizeIterator<Item = (Option<&'v Val>, &'v Val)>,
        around: (&str, &str),
        level: usize,
        to: &mut Builder,
    ) -> Result<(), Fault> {
        let is_empty = entries.len() == 0;
        to.own(around.0);
        for (place, (key, value)) in entries.enumerate() {
            if place > 0 {
                to.add_str(&self.between);
            }
            self.line(cx, level + 1, to)?;
            if let Some(key) = key {
                self.key(cx, key, to)?;
                to.add_str(&self.colon);
            }
            self.write(cx, value, level + 1, to)?;
        }
        if !is_empty {
            self.line(cx, level, to)?;
        }
        to.own(around.1);
        Ok(())
    }

    /// Begins a line, if the style has an indent.
    fn line(&self, cx: &Context, level: usize, to: &mut Builder) -> Result<(), Fault> {
        let Some(indent) = &self.indent else { return Ok(()) };
        cx.hold(level.saturating_mul(indent.len()))?;
        to.own("\n");
        for _ in 0..level {
            to.add_str(indent);
        }
        Ok(())
    }

    fn key(&self, cx: &Context, key: &Val, to: &mut Builder) -> Result<(), Fault> {
        let text = match key {
            Val::Str(text) => return self.quote(cx, text, to),
            Val::None => "null".to_owned(),
            Val::Bool(value) => if *value { "true" } else { "false" }.to_owned(),
            Val::Int(number) => number.to_string(),
            Val::Float(number) => json_float(*number),
            other => return fail(format!("a value of type `{}` cannot be a key in JSON", other.type_name())),
        };
        to.own(&format!("\"{text}\""));
        Ok(())
    }

    /// Appends a string in quotes; escapes come from the source of the character.
    fn quote(&self, cx: &Context, text: &Str, to: &mut Builder) -> Result<(), Fault> {
        cx.inspect(text);
        cx.hold(text.len())?;
        to.letter('"', Mark::OWN);
        let mut escaped = String::new();
        for (part, mark) in text.segments() {
            escaped.clear();
            part.chars().for_each(|letter| self.escape(letter, &mut escaped));
            to.add(&escaped, mark.derived());
        }
        to.letter('"', Mark::OWN);
        Ok(())
    }

    fn escape(&self, letter: char, to: &mut String) {
        match letter {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            '\0'..='\u{1f}' => to.push_str(&format!("\\u{:04x}", u32::from(letter))),
            '\u{7f}'.. if self.ensures_ascii => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    to.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => to.push(letter),
        }
    }
}

fn json_float(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => float_text(number),
    }
}
