//! The operator `%` of strings.

use super::html::escaped;
use super::spec::Spec;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Mark, Str};
use crate::value::{Val, number_of, print, repr};

/// Values for the conversions of a format.
struct FormatValues<'a> {
    all: &'a Val,
    at: usize,
}

impl FormatValues<'_> {
    fn next(&mut self) -> Result<Val, Fault> {
        let at = self.at;
        self.at += 1;
        let value = match self.all {
            Val::Tuple(seq) => seq.items.get(at),
            single => (at == 0).then_some(single),
        };
        value.map_or_else(|| fail("a format has more conversions than values"), |value| Ok(value.clone()))
    }

    fn are_used(&self) -> bool {
        match self.all {
            Val::Tuple(seq) => self.at >= seq.items.len(),
            Val::Dict(_) | Val::List(_) => true,
            _ => self.at > 0,
        }
    }
}

/// The value of `format % values`.
pub(crate) fn percent(cx: &Context, format: &Str, values: &Val) -> Result<Val, Fault> {
    cx.inspect(format);
    let mut to = Builder::default();
    let mut values = FormatValues { all: values, at: 0 };
    let mut letters = format.letters().peekable();
    while let Some((letter, mark)) = letters.next() {
        if letter != '%' {
            to.letter(letter, mark.derived());
            continue;
        }
        let mut conversion = Conversion { escapes: format.is_markup(), ..Conversion::default() };
        let mut text = String::new();
        for (letter, _) in letters.by_ref() {
            text.push(letter);
            if conversion.take(letter, &mut values)? {
                break;
            }
        }
        if conversion.spec.kind.is_none() {
            return fail("a format is incomplete");
        }
        conversion.write(cx, &mut values, mark, &mut to)?;
        cx.steps(1)?;
    }
    if !values.are_used() {
        return fail("a format has fewer conversions than values");
    }
    Val::text(cx, to.finish().with_markup(format.is_markup()))
}

/// One conversion, such as `%-5.2f`.
#[derive(Default)]
struct Conversion {
    spec: Spec,
    key: Option<String>,
    in_key: bool,
    in_precision: bool,
    has_width: bool,
    /// Whether the format is HTML.
    escapes: bool,
}

impl Conversion {
    /// Reads one more character; whether it is the last one.
    fn take(&mut self, letter: char, values: &mut FormatValues<'_>) -> Result<bool, Fault> {
        if self.in_key {
            match letter {
                ')' => self.in_key = false,
                _ => self.key.get_or_insert_default().push(letter),
            }
            return Ok(false);
        }
        match letter {
            '(' if self.key.is_none() => {
                self.key = Some(String::new());
                self.in_key = true;
            }
            '-' => self.spec.align = Some('<'),
            '+' => self.spec.sign = Some('+'),
            ' ' => self.spec.sign = self.spec.sign.or(Some(' ')),
            '#' => self.spec.is_alternate = true,
            '0' if !self.has_width && !self.in_precision => self.spec.fill = Some('0'),
            '0'..='9' => self.digit(letter)?,
            '.' => (self.in_precision, self.spec.precision) = (true, Some(0)),
            '*' => {
                let number = values.next()?.need_int("a width in a format")?;
                if number < 0 {
                    self.spec.align = Some('<');
                }
                let number = number.unsigned_abs().min(1 << 30) as usize;
                match self.in_precision {
                    true => self.spec.precision = Some(number),
                    false => (self.spec.width, self.has_width) = (number, true),
                }
            }
            'l' | 'h' | 'L' => {}
            _ => {
                self.spec.kind = Some(letter);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn digit(&mut self, letter: char) -> Result<(), Fault> {
        let digit = letter.to_digit(10).unwrap_or(0) as usize;
        let number = match self.in_precision {
            true => self.spec.precision.get_or_insert(0),
            false => &mut self.spec.width,
        };
        *number = number.saturating_mul(10).saturating_add(digit);
        self.has_width |= !self.in_precision;
        if *number > 1 << 20 { fail("a format is too wide") } else { Ok(()) }
    }

    fn write(mut self, cx: &Context, values: &mut FormatValues<'_>, mark: Mark, to: &mut Builder) -> Result<(), Fault> {
        if self.spec.kind == Some('%') {
            to.add("%", mark.derived());
            return Ok(());
        }
        let value = match &self.key {
            None => values.next()?,
            Some(key) => match values.all {
                Val::Dict(dict) => match dict.get_own(cx, key) {
                    Some(value) => value.clone(),
                    None => return fail(format!("a format has no value for `{key}`")),
                },
                _ => return fail("a format needs a dictionary"),
            },
        };
        cx.hold(self.spec.width.saturating_add(self.spec.precision.unwrap_or(0)))?;
        let is_plain = matches!(self.spec.kind, Some('s' | 'r' | 'a' | 'c')) && self.spec.width == 0;
        let is_zero_filled = self.spec.fill == Some('0');
        let kind = self.spec.kind.take().unwrap_or('s');
        let text = match kind {
            's' | 'r' | 'a' => {
                let mut text = if kind == 's' { print(cx, &value)? } else { repr(cx, &value)? };
                if self.escapes {
                    text = escaped(cx, &text)?;
                }
                (self.spec.fill, self.spec.sign) = (None, None);
                self.spec.align = self.spec.align.or(Some('>'));
                self.spec.format_text(cx, &text)?
            }
            'c' if value.as_str().is_some() => {
                let text = print(cx, &value)?;
                cx.inspect(&text);
                if text.count() != 1 {
                    return fail("`%c` needs one character");
                }
                text
            }
            'c' => return fail("`%c` of a number is not supported"),
            _ => {
                let is_whole = matches!(kind, 'd' | 'i' | 'u' | 'x' | 'X' | 'o');
                let value = if is_whole { whole(&value, kind)? } else { float(&value)? };
                self.spec.kind = Some(match kind {
                    'i' | 'u' => 'd',
                    other => other,
                });
                if is_zero_filled && self.spec.align.is_none() {
                    self.spec.align = Some('=');
                }
                if self.spec.align == Some('<') {
                    self.spec.fill = None;
                }
                if is_whole {
                    self.spec.precision = None;
                }
                self.spec.format(cx, &value)?
            }
        };
        if is_plain {
            to.add_str(&text);
        } else {
            to.add_str(&text.shaped(mark));
        }
        Ok(())
    }
}

/// The whole number for `%d` and its relatives.
fn whole(value: &Val, kind: char) -> Result<Val, Fault> {
    match value {
        Val::Float(number) if number.abs() < 1e30 && matches!(kind, 'd' | 'i' | 'u') => Ok(Val::Int(*number as i128)),
        other => Ok(Val::Int(other.need_int("the value of a whole number's format")?)),
    }
}

/// The number for `%f` and its relatives.
fn float(value: &Val) -> Result<Val, Fault> {
    match number_of(value) {
        Some(number) => Ok(Val::Float(number)),
        None => fail(format!("a number's format does not apply to a value of type `{}`", value.type_name())),
    }
}
