//! Exact arithmetic on text, by precedence climbing.
//!
//! Every input gives a number or an error message for the agent. Depth and size are bounded, so that no input exhausts
//! the stack or memory.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

/// Maximum nesting of parentheses, signs and powers.
const DEPTH_LIMIT: usize = 200;
/// Maximum length of an expression, in characters.
const LENGTH_LIMIT: usize = 10_000;
/// Maximum size of numerator and denominator together, in bits: about 3,000 decimal digits.
const BIT_LIMIT: u64 = 10_000;

/// Precedences. A sign binds between products and powers, so -2^2 is -4.
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SIGN: u8 = 3;
const POWER: u8 = 4;

/// Value of `expression`: an integer such as `42`, or a fraction in lowest terms such as `7/3`.
///
/// # Errors
///
/// Message for the agent; positions count characters from 1.
pub fn evaluate(expression: &str) -> Result<String, String> {
    let characters: Vec<char> = expression.chars().collect();
    if characters.len() > LENGTH_LIMIT {
        return Err(format!("the expression has more than {LENGTH_LIMIT} characters; calculate it in parts"));
    }
    let mut parser = Parser { characters, position: 0, depth: 0 };
    let value = parser.expression(SUM)?;
    match parser.peek() {
        None => Ok(value.to_string()),
        Some(')') => Err(format!("`)` at position {} closes nothing", parser.place())),
        Some(_) => Err(parser.unexpected("an operator such as + - * / ^")),
    }
}

struct Parser {
    characters: Vec<char>,
    position: usize,
    depth: usize,
}

impl Parser {
    /// Next character after spaces; its index becomes `position`.
    fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.position).is_some_and(|character| character.is_whitespace()) {
            self.position += 1;
        }
        self.characters.get(self.position).copied()
    }

    /// `position`, counted from 1.
    fn place(&self) -> usize {
        self.position + 1
    }

    fn unexpected(&mut self, wanted: &str) -> String {
        match self.peek() {
            Some(',') => format!("unexpected `,` at position {}: write 1000 for 1,000", self.place()),
            Some(character) => {
                format!("unexpected `{character}` at position {}: {wanted} must stand there", self.place())
            }
            None => format!("the expression ends too early: {wanted} must follow"),
        }
    }

    /// Parses an expression whose operators bind at least as tightly as `loosest`.
    fn expression(&mut self, loosest: u8) -> Result<BigRational, String> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(format!("the expression nests deeper than {DEPTH_LIMIT}; calculate it in parts"));
        }
        let mut left = self.operand()?;
        while let Some(operator) = self.operator().filter(|operator| operator.tightness >= loosest) {
            self.position += operator.length;
            // Powers associate to the right, other operators to the left.
            let right = self.expression(operator.tightness + u8::from(operator.tightness != POWER))?;
            left = checked(operator.apply(&left, &right)?)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Next operator, without consuming it.
    fn operator(&mut self) -> Option<Operator> {
        let first = self.peek()?;
        let doubled = first == '*' && self.characters.get(self.position + 1) == Some(&'*');
        let (symbol, tightness) = match first {
            '+' => ('+', SUM),
            '-' | '−' => ('-', SUM),
            '^' => ('^', POWER),
            '*' if doubled => ('^', POWER),
            '*' | '×' | '·' => ('*', PRODUCT),
            '/' | '÷' => ('/', PRODUCT),
            _ => return None,
        };
        Some(Operator { symbol, tightness, length: 1 + usize::from(doubled) })
    }

    /// Parses a number, a parenthesis or a signed operand.
    fn operand(&mut self) -> Result<BigRational, String> {
        match self.peek() {
            Some('-' | '−') => {
                self.position += 1;
                Ok(-self.expression(SIGN)?)
            }
            Some('+') => {
                self.position += 1;
                self.expression(SIGN)
            }
            Some('(') => {
                let opened = self.place();
                self.position += 1;
                let value = self.expression(SUM)?;
                match self.peek() {
                    Some(')') => self.position += 1,
                    None => return Err(format!("`(` at position {opened} is never closed")),
                    Some(_) => return Err(self.unexpected("an operator or `)`")),
                }
                Ok(value)
            }
            Some(character) if character.is_ascii_digit() || character == '.' => self.number(),
            _ => Err(self.unexpected("a number or `(`")),
        }
    }

    /// Parses an integer or a decimal exactly: 0.25 is 1/4.
    fn number(&mut self) -> Result<BigRational, String> {
        let place = self.place();
        let whole = self.digits();
        let mut fraction = String::new();
        if self.characters.get(self.position) == Some(&'.') {
            self.position += 1;
            fraction = self.digits();
        }
        let digits = format!("{whole}{fraction}");
        let numerator: BigInt = digits.parse().map_err(|_| format!("`.` at position {place} is not a number"))?;
        let denominator = BigInt::from(10).pow(fraction.len());
        checked(BigRational::new(numerator, denominator))
    }

    fn digits(&mut self) -> String {
        let rest = &self.characters[self.position..];
        let digits: String = rest.iter().take_while(|character| character.is_ascii_digit()).collect();
        self.position += digits.len();
        digits
    }
}

struct Operator {
    symbol: char,
    tightness: u8,
    /// Number of characters.
    length: usize,
}

impl Operator {
    fn apply(&self, left: &BigRational, right: &BigRational) -> Result<BigRational, String> {
        Ok(match self.symbol {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            '/' if right.is_zero() => return Err(format!("{left}/0 is a division by zero")),
            '/' => left / right,
            _ => power(left, right)?,
        })
    }
}

fn power(base: &BigRational, exponent: &BigRational) -> Result<BigRational, String> {
    if !exponent.is_integer() {
        return Err(format!("the exponent {exponent} is not a whole number; only whole powers are exact"));
    }
    if base.is_zero() && exponent.is_negative() {
        return Err(format!("0^({exponent}) is a division by zero"));
    }
    if base.is_zero() || base.abs().is_one() {
        // Powers of these bases stay small, even for exponents that exceed a machine word.
        let odd = exponent.numer().bit(0);
        return Ok(if exponent.is_zero() {
            BigRational::one()
        } else if odd {
            base.clone()
        } else {
            base.abs()
        });
    }
    // A base of n bits gives a power of more than (n - 1) * exponent bits: reject it before computing it.
    let exponent = exponent.to_i64().filter(|exponent| {
        let growth = base.numer().bits().max(base.denom().bits()).saturating_sub(1).max(1);
        growth.saturating_mul(exponent.unsigned_abs()) <= BIT_LIMIT
    });
    let exponent = exponent.and_then(|exponent| i32::try_from(exponent).ok()).ok_or_else(too_large)?;
    Ok(Pow::pow(base, exponent))
}

fn checked(value: BigRational) -> Result<BigRational, String> {
    if value.numer().bits() + value.denom().bits() > BIT_LIMIT { Err(too_large()) } else { Ok(value) }
}

fn too_large() -> String {
    "the result would have more than 3000 digits; use smaller numbers".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(expression: &str) -> String {
        evaluate(expression).unwrap_or_else(|message| panic!("{expression}: {message}"))
    }

    fn refusal(expression: &str) -> String {
        match evaluate(expression) {
            Ok(value) => panic!("{expression} gave {value}"),
            Err(message) => message,
        }
    }

    /// Values from Python's `fractions`.
    #[test]
    fn arithmetic_is_exact() {
        for (expression, expected) in [
            ("37*84-59", "3049"),
            ("(12+30)*45", "1890"),
            ("2 + 3 * 4 - 10 / 4", "23/2"),
            ("7/3", "7/3"),
            ("0.1 + 0.2", "3/10"),
            (".5 + 1.", "3/2"),
            ("-2^2", "-4"),
            ("(-2)^2", "4"),
            ("2^3^2", "512"),
            ("2**-3", "1/8"),
            ("2*-3", "-6"),
            ("1 - 2 - 3", "-4"),
            ("8/4/2", "1"),
            ("6 × 7 ÷ 2", "21"),
            ("--5", "5"),
            ("+5 - +3", "2"),
            ("1/3 + 1/6", "1/2"),
            ("2^100", "1267650600228229401496703205376"),
            ("(-1)^100000000000000000001", "-1"),
            ("0^0", "1"),
            ("-6/4", "-3/2"),
        ] {
            assert_eq!(value(expression), expected, "{expression}");
        }
    }

    #[test]
    fn mistakes_are_explained_where_they_are() {
        for (expression, expected) in [
            ("", "the expression ends too early: a number or `(` must follow"),
            ("3 +", "the expression ends too early: a number or `(` must follow"),
            ("3 4", "unexpected `4` at position 3: an operator such as + - * / ^ must stand there"),
            ("2(3)", "unexpected `(` at position 2: an operator such as + - * / ^ must stand there"),
            ("(3 + 4", "`(` at position 1 is never closed"),
            ("3)", "`)` at position 2 closes nothing"),
            ("(3 x)", "unexpected `x` at position 4: an operator or `)` must stand there"),
            ("1,000 * 2", "unexpected `,` at position 2: write 1000 for 1,000"),
            ("pens", "unexpected `p` at position 1: a number or `(` must stand there"),
            (".", "`.` at position 1 is not a number"),
            ("5/(3-3)", "5/0 is a division by zero"),
            ("0^-1", "0^(-1) is a division by zero"),
            ("2^(1/2)", "the exponent 1/2 is not a whole number; only whole powers are exact"),
        ] {
            assert_eq!(refusal(expression), expected, "{expression}");
        }
    }

    #[test]
    fn neither_stack_nor_memory_can_be_exhausted() {
        for (open, close) in [("(", ")"), ("-", ""), ("2^", "")] {
            for times in [201, 3_000] {
                let expression = format!("{}1{}", open.repeat(times), close.repeat(times));
                assert!(refusal(&expression).contains("nests deeper"), "{open} {times} times");
            }
        }
        assert_eq!(value(&format!("{}1{}", "(".repeat(199), ")".repeat(199))), "1");
        assert!(refusal("10^30000000").contains("3000 digits"));
        assert!(refusal("9^9^9^9").contains("3000 digits"));
        assert!(refusal("2^99999999999999999999999").contains("3000 digits"));
        assert!(refusal(&"9".repeat(4_000)).contains("3000 digits"));
        assert!(refusal(&format!("1{}", "+1".repeat(5_000))).contains("10000 characters"));
        assert!(refusal(&format!("{0}*{0}", "9".repeat(2_000))).contains("3000 digits"));
    }
}
