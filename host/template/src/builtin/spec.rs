//! Format specifications of single values: fill, alignment, sign, width, precision and type.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Str};
use crate::value::{Val, float_text, number_of, print};

/// Most characters of a formatted value's width and precision.
const MAX_WIDTH: usize = 1 << 20;

/// How a value is formatted.
#[derive(Debug, Clone, Default)]
pub(super) struct Spec {
    pub(super) fill: Option<char>,
    /// One of `<`, `>`, `^` and `=`.
    pub(super) align: Option<char>,
    /// One of `+`, `-` and a space.
    pub(super) sign: Option<char>,
    pub(super) is_alternate: bool,
    pub(super) width: usize,
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

impl Spec {
    /// Reads `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let letters: Vec<char> = text.chars().collect();
        let mut spec = Self::default();
        let is_align = |at: usize| letters.get(at).filter(|letter| "<>^=".contains(**letter)).copied();
        let mut at = 0;
        if let Some(align) = is_align(1) {
            (spec.fill, spec.align, at) = (letters.first().copied(), Some(align), 2);
        } else if let Some(align) = is_align(0) {
            (spec.align, at) = (Some(align), 1);
        }
        let next = |allowed: &str, at: &mut usize| {
            let found = letters.get(*at).filter(|letter| allowed.contains(**letter)).copied();
            *at += usize::from(found.is_some());
            found
        };
        spec.sign = next("+- ", &mut at);
        spec.is_alternate = next("#", &mut at).is_some();
        if next("0", &mut at).is_some() && spec.align.is_none() {
            (spec.fill, spec.align) = (Some('0'), Some('='));
        }
        spec.width = number(&letters, &mut at)?.unwrap_or(0);
        spec.grouping = next(",_", &mut at);
        if next(".", &mut at).is_some() {
            let Some(precision) = number(&letters, &mut at)? else { return fail("a format lacks its precision") };
            spec.precision = Some(precision);
        }
        spec.kind = letters.get(at).copied();
        if letters.len() > at + 1 {
            return fail(format!("the format `{text}` is malformed"));
        }
        Ok(spec)
    }

    /// The value in this format.
    pub(super) fn format(&self, cx: &Context, value: &Val) -> Result<Str, Fault> {
        cx.hold(self.width + self.precision.unwrap_or(0))?;
        match value {
            Val::Str(text) if matches!(self.kind, None | Some('s')) => self.format_text(cx, text),
            Val::Bool(_) if self.kind.is_none() => self.format_text(cx, &print(cx, value)?),
            Val::Int(_) | Val::Bool(_) | Val::Float(_) => self.format_number(cx, value),
            Val::Str(_) => self.unknown(value),
            _ if self.is_plain() => print(cx, value),
            _ => self.unknown(value),
        }
    }

    fn is_plain(&self) -> bool {
        self.width == 0
            && self.align.is_none()
            && self.precision.is_none()
            && self.kind.is_none()
            && self.sign.is_none()
    }

    fn unknown<T>(&self, value: &Val) -> Result<T, Fault> {
        let kind = self.kind.map(String::from).unwrap_or_default();
        fail(format!("the format `{kind}` does not apply to a value of type `{}`", value.type_name()))
    }

    /// A text, cut to the precision and filled to the width.
    pub(super) fn format_text(&self, cx: &Context, text: &Str) -> Result<Str, Fault> {
        if self.sign.is_some() || self.align == Some('=') {
            return fail("a string has no sign in a format");
        }
        let mut text = text.clone();
        if let Some(precision) = self.precision {
            cx.inspect(&text);
            let end = text.as_str().char_indices().nth(precision).map_or(text.len(), |(at, _)| at);
            text = text.part(0, end);
        }
        Ok(self.pad(cx, &text, 0, '<'))
    }

    /// Fills a text to the width; the fill of `=` goes behind the first bytes.
    fn pad(&self, cx: &Context, text: &Str, sign_bytes: usize, default: char) -> Str {
        if self.width == 0 {
            return text.clone();
        }
        cx.inspect(text);
        let missing = self.width.saturating_sub(text.count());
        if missing == 0 {
            return text.clone();
        }
        let fill = self.fill.unwrap_or(' ');
        let filling = |count: usize| String::from_iter(std::iter::repeat_n(fill, count));
        let mut padded = Builder::default();
        match self.align.unwrap_or(default) {
            '<' => {
                padded.add_str(text);
                padded.own(&filling(missing));
            }
            '^' => {
                padded.own(&filling(missing / 2));
                padded.add_str(text);
                padded.own(&filling(missing - missing / 2));
            }
            '=' => {
                padded.add_part(text, 0, sign_bytes);
                padded.own(&filling(missing));
                padded.add_part(text, sign_bytes, text.len());
            }
            _ => {
                padded.own(&filling(missing));
                padded.add_str(text);
            }
        }
        padded.finish()
    }

    /// A number in digits, with sign and grouping, filled to the width.
    pub(super) fn format_number(&self, cx: &Context, value: &Val) -> Result<Str, Fault> {
        let (is_negative, digits) = match (value.as_int(), self.kind) {
            (Some(number), None | Some('d' | 'n' | 'x' | 'X' | 'o' | 'b')) => (number < 0, self.int_digits(number)),
            _ => {
                let number = number_of(value).unwrap_or(0.0);
                let Some(digits) = self.float_digits(number.abs()) else { return self.unknown(value) };
                (number.is_sign_negative() && !number.is_nan(), digits)
            }
        };
        let sign = match self.sign {
            _ if is_negative => "-",
            Some('+') => "+",
            Some(' ') => " ",
            _ => "",
        };
        let digits = match self.grouping {
            Some(separator) => grouped(&digits, separator),
            None => digits,
        };
        let text = Str::own(&format!("{sign}{digits}"));
        Ok(self.pad(cx, &text, sign.len(), '>'))
    }

    fn int_digits(&self, number: i128) -> String {
        let size = number.unsigned_abs();
        let digits = match self.kind {
            Some('x') => format!("{size:x}"),
            Some('X') => format!("{size:X}"),
            Some('o') => format!("{size:o}"),
            Some('b') => format!("{size:b}"),
            _ => size.to_string(),
        };
        let prefix = match self.kind {
            Some('x') if self.is_alternate => "0x",
            Some('X') if self.is_alternate => "0X",
            Some('o') if self.is_alternate => "0o",
            Some('b') if self.is_alternate => "0b",
            _ => "",
        };
        format!("{prefix}{digits}")
    }

    /// Digits of a number that is not negative; nothing if the type is not one of floats.
    fn float_digits(&self, number: f64) -> Option<String> {
        let precision = self.precision.unwrap_or(6);
        Some(match self.kind {
            _ if !number.is_finite() => float_text(number),
            None if self.precision.is_none() => float_text(number),
            Some('f' | 'F') => format!("{number:.precision$}"),
            Some('%') => format!("{:.precision$}%", number * 100.0),
            Some('e') => exponent(&format!("{number:.precision$e}")),
            Some('E') => exponent(&format!("{number:.precision$e}")).to_uppercase(),
            Some('G') => general(number, precision.max(1), false).to_uppercase(),
            None | Some('g' | 'n') => general(number, precision.max(1), self.kind.is_none()),
            _ => return None,
        })
    }
}

fn number(letters: &[char], at: &mut usize) -> Result<Option<usize>, Fault> {
    let start = *at;
    let mut number: usize = 0;
    while let Some(digit) = letters.get(*at).and_then(|letter| letter.to_digit(10)) {
        number = number.saturating_mul(10).saturating_add(digit as usize);
        *at += 1;
    }
    if number > MAX_WIDTH {
        return fail(format!("a format is wider than {MAX_WIDTH} characters"));
    }
    Ok((*at > start).then_some(number))
}

/// Rust's exponent in Python's notation, with a sign and two digits.
fn exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let number: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if number < 0 { '-' } else { '+' }, number.unsigned_abs())
}

/// The shorter of both notations, without zeros at the end.
fn general(number: f64, precision: usize, with_fraction: bool) -> String {
    let scientific = format!("{number:.*e}", precision - 1);
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i64 = power.parse().unwrap_or(0);
    let without_zeros = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if power < -4 || power >= precision as i64 {
        return exponent(&format!("{}e{power}", without_zeros(digits)));
    }
    let decimals = usize::try_from(precision as i64 - 1 - power).unwrap_or(0);
    let plain = without_zeros(&format!("{number:.decimals$}"));
    if with_fraction && !plain.contains('.') { plain + ".0" } else { plain }
}

/// Digits in groups of three before the point.
fn grouped(digits: &str, separator: char) -> String {
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(end);
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            text.push(separator);
        }
        text.push(digit);
    }
    text + rest
}
