//! Numbers: Python's arithmetic and notation of floats.

use super::Val;
use crate::error::{Fault, fail};

/// The number, also of a boolean.
pub(crate) fn number_of(value: &Val) -> Option<f64> {
    match value {
        Val::Float(number) => Some(*number),
        other => other.as_int().map(|number| number as f64),
    }
}

/// The result of `-value`.
pub(crate) fn negate(value: &Val) -> Result<Val, Fault> {
    if let Some(number) = value.as_int() {
        return number.checked_neg().map_or_else(too_large, |number| Ok(Val::Int(number)));
    }
    match value {
        Val::Float(number) => Ok(Val::Float(-number)),
        other => fail(format!("a value of type `{}` has no sign", other.type_name())),
    }
}

fn too_large<T>() -> Result<T, Fault> {
    fail("a whole number is too large")
}

/// The result of an operation on two numbers; nothing for other values.
pub(crate) fn arithmetic(operator: &str, left: &Val, right: &Val) -> Option<Result<Val, Fault>> {
    if let (Some(left), Some(right)) = (left.as_int(), right.as_int()) {
        return Some(of_ints(operator, left, right));
    }
    let (left, right) = (number_of(left)?, number_of(right)?);
    Some(of_floats(operator, left, right).map(Val::Float))
}

fn of_ints(operator: &str, left: i128, right: i128) -> Result<Val, Fault> {
    let whole = |result: Option<i128>| result.map_or_else(too_large, |number| Ok(Val::Int(number)));
    match operator {
        "+" => whole(left.checked_add(right)),
        "-" => whole(left.checked_sub(right)),
        "*" => whole(left.checked_mul(right)),
        "/" | "//" | "%" if right == 0 => fail("division by zero"),
        "/" => Ok(Val::Float(left as f64 / right as f64)),
        "//" => {
            let quotient = left.checked_div(right);
            let is_between = left.checked_rem(right).is_some_and(|rest| rest != 0) && (left < 0) != (right < 0);
            whole(quotient.and_then(|quotient| if is_between { quotient.checked_sub(1) } else { Some(quotient) }))
        }
        "%" => {
            whole(left.checked_rem(right).map(
                |rest| {
                    if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest }
                },
            ))
        }
        "**" if right < 0 && left == 0 => fail("division by zero"),
        "**" if right < 0 => Ok(Val::Float((left as f64).powf(right as f64))),
        "**" => whole(match left {
            0 | 1 => Some(if right == 0 { 1 } else { left }),
            -1 => Some(if right % 2 == 0 { 1 } else { -1 }),
            _ => u32::try_from(right).ok().and_then(|right| left.checked_pow(right)),
        }),
        _ => fail(format!("`{operator}` is not an operation on numbers")),
    }
}

fn of_floats(operator: &str, left: f64, right: f64) -> Result<f64, Fault> {
    Ok(match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" | "//" | "%" if right == 0.0 => return fail("division by zero"),
        "/" => left / right,
        "//" => {
            let rest = modulo(left, right);
            ((left - rest) / right).round()
        }
        "%" => modulo(left, right),
        "**" => match left.powf(right) {
            _ if left == 0.0 && right < 0.0 => return fail("division by zero"),
            power if power.is_nan() && !left.is_nan() && !right.is_nan() => {
                return fail("a power of a negative number is not real");
            }
            power if power.is_infinite() && left.is_finite() && right.is_finite() => return too_large(),
            power => power,
        },
        _ => return fail(format!("`{operator}` is not an operation on numbers")),
    })
}

/// The rest with the sign of the divisor.
fn modulo(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 && (rest < 0.0) != (right < 0.0) {
        rest + right
    } else if rest == 0.0 {
        0.0_f64.copysign(right)
    } else {
        rest
    }
}

/// A float in Python's notation: the shortest digits that give it back.
pub(crate) fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
