//! Filters on numbers.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Val, negate, number_of};

pub(super) fn abs(_cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("abs", [], 0)?;
    match value {
        Val::Float(number) => Ok(Val::Float(number.abs())),
        other => match other.need_int("the value of `abs`")? {
            ..0 => negate(other),
            number => Ok(Val::Int(number)),
        },
    }
}

/// The whole number of a value; a default if it has none.
pub(super) fn int(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [default, base] = args.bind("int", ["default", "base"], 0)?;
    let default = default.given().cloned().unwrap_or(Val::Int(0));
    let base = base.given().map_or(Ok(10), |base| base.need_int("the base of `int`"))?;
    value.check_defined()?;
    let number = match value {
        Val::Str(text) => {
            cx.inspect(text);
            let text = text.as_str().trim_matches(crate::text::is_space);
            let base = u32::try_from(base).ok().filter(|base| (2..=36).contains(base) || *base == 0);
            let Some(base) = base else { return fail("the base of `int` must be 2 to 36") };
            parse_int(text, base).or_else(|| parse_float(text).and_then(truncated))
        }
        Val::Float(number) => truncated(*number),
        other => other.as_int(),
    };
    Ok(number.map_or(default, Val::Int))
}

fn truncated(number: f64) -> Option<i128> {
    (number.is_finite() && number.abs() < 1e38).then_some(number.trunc() as i128)
}

/// Python's `int(text, base)`: a sign, a prefix of the base, digits with single underscores.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match (base, lower.get(..2)) {
        (16 | 0, Some("0x")) => (16, lower.get(2..)?.trim_start_matches('_')),
        (8 | 0, Some("0o")) => (8, lower.get(2..)?.trim_start_matches('_')),
        (2 | 0, Some("0b")) => (2, lower.get(2..)?.trim_start_matches('_')),
        (0, _) => (10, lower.as_str()),
        (base, _) => (base, lower.as_str()),
    };
    let is_malformed = digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__");
    let number = i128::from_str_radix(&digits.replace('_', ""), base).ok().filter(|_| !is_malformed)?;
    Some(if is_negative { -number } else { number })
}

/// Python's `float(text)`.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(crate::text::is_space);
    let is_malformed = text.starts_with('_') || text.ends_with('_') || text.contains("__") || text.contains("_.");
    text.replace('_', "").parse().ok().filter(|_| !is_malformed)
}

/// The number of a value; a default if it has none.
pub(super) fn float(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [default] = args.bind("float", ["default"], 0)?;
    let default = default.given().cloned().unwrap_or(Val::Float(0.0));
    value.check_defined()?;
    let number = match value {
        Val::Str(text) => {
            cx.inspect(text);
            parse_float(text.as_str())
        }
        other => number_of(other),
    };
    Ok(number.map_or(default, Val::Float))
}

/// The number with fewer digits.
pub(super) fn round(_cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [precision, method] = args.bind("round", ["precision", "method"], 0)?;
    let precision = precision.given().map_or(Ok(0), |precision| precision.need_int("a precision"))?;
    let precision = i32::try_from(precision.clamp(-400, 400)).unwrap_or(0);
    let method =
        method.given().map_or(Ok("common"), |method| method.need_str("a method").map(crate::text::Str::as_str))?;
    let number = value.need_number("the value of `round`")?;
    let scale = 10_f64.powi(precision);
    match method {
        "common" => {}
        "ceil" => return Ok(Val::Float((number * scale).ceil() / scale)),
        "floor" => return Ok(Val::Float((number * scale).floor() / scale)),
        _ => return fail("the method of `round` must be `common`, `ceil` or `floor`"),
    }
    if let Some(number) = value.as_int() {
        return round_int(number, precision);
    }
    if !number.is_finite() {
        return Ok(value.clone());
    }
    let rounded = match usize::try_from(precision) {
        Ok(decimals) => format!("{number:.decimals$}").parse().unwrap_or(number),
        Err(_) => (number * scale).round_ties_even() / scale,
    };
    Ok(Val::Float(rounded))
}

/// A whole number, rounded to tens and so on for a negative precision; halves go to even numbers.
fn round_int(number: i128, precision: i32) -> Result<Val, Fault> {
    if precision >= 0 {
        return Ok(Val::Int(number));
    }
    let Some(unit) = 10_i128.checked_pow(precision.unsigned_abs()) else { return Ok(Val::Int(0)) };
    let (count, rest) = (number.div_euclid(unit), number.rem_euclid(unit));
    let up = rest > unit - rest || (rest == unit - rest && count % 2 != 0);
    match (count + i128::from(up)).checked_mul(unit) {
        Some(rounded) => Ok(Val::Int(rounded)),
        None => fail("a whole number is too large"),
    }
}

/// A size in bytes for people.
pub(super) fn filesizeformat(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [binary] = args.bind("filesizeformat", ["binary"], 0)?;
    let is_binary = binary.is_true();
    let size = match float(cx, value, Args::of(vec![Val::None]))? {
        Val::Float(size) => size,
        _ => return fail("a size must be a number"),
    };
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    if size == 1.0 {
        return Ok(Val::own("1 Byte"));
    }
    if size < base {
        return Ok(Val::own(&format!("{} Bytes", size.trunc())));
    }
    let mut unit = base;
    let mut letter = 'k';
    for next in "kMGTPEZY".chars() {
        letter = next;
        unit *= base;
        if size < unit {
            break;
        }
    }
    let prefix = if is_binary { format!("{}iB", letter.to_ascii_uppercase()) } else { format!("{letter}B") };
    Ok(Val::own(&format!("{:.1} {prefix}", base * size / unit)))
}
