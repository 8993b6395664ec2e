//! Numbers: thousands separators, decimals, repeating digits, exponents and fractions of one character.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Pow;

use super::{Lexer, Token};
use crate::notation::fraction;
use crate::tree::Trouble;

/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 1_000;
/// Separators of thousands; the first also separates members of a list in brackets.
const SEPARATORS: [&str; 7] = [",", "{,}", "\\,", "\\!", "\u{a0}", "\u{2009}", "\u{202f}"];
/// Commands before the digits that repeat.
const REPEATING: [&str; 4] = ["\\overline{", "\\bar{", "\\dot{", "\\dot "];
/// Maximum exponent of a number such as `1e5`.
const MAX_EXPONENT: u32 = 1_000;

impl Lexer<'_> {
    /// Number with thousands separators, decimals, a repeating part and an exponent.
    pub(super) fn number(&mut self) -> Result<(), Trouble> {
        let mut digits = self.take_while(|letter| letter.is_ascii_digit()).to_owned();
        let leading = digits.len();
        while (1..=3).contains(&leading) {
            let separators: &[&str] = if self.depth == 0 { &SEPARATORS } else { &SEPARATORS[1..] };
            let mut behind = separators.iter().filter_map(|separator| self.rest.strip_prefix(separator));
            let Some(group) = behind.find(|behind| grouped(behind)) else { break };
            digits.push_str(&group[..3]);
            self.rest = &group[3..];
        }
        let point = self.rest.strip_prefix('.').filter(|behind| {
            behind.starts_with(|letter: char| letter.is_ascii_digit())
                || REPEATING.iter().any(|command| behind.starts_with(command))
        });
        let mut value = (digits, String::new(), String::new());
        if let Some(behind) = point {
            self.rest = behind;
            value.1 = self.take_while(|letter| letter.is_ascii_digit()).to_owned();
            value.2 = self.repeated()?;
        }
        let number = decimal(&value.0, &value.1, &value.2)?;
        let number = number * self.exponent()?;
        self.push(Token::Number(number, point.is_none()));
        Ok(())
    }

    /// Digits that repeat: below a bar, or between dots. Empty without such a command.
    fn repeated(&mut self) -> Result<String, Trouble> {
        let is_digit = |letter: char| letter.is_ascii_digit();
        let Some(command) = REPEATING.iter().find(|command| self.rest.starts_with(**command)) else {
            return Ok(String::new());
        };
        let mut digits = self.marked_digits(command).ok_or(Trouble::Unreadable)?;
        if command.starts_with("\\dot") {
            // `0.\dot{1}4285\dot{7}`: the second dot is on the last digit.
            let between = self.rest.len() - self.rest.trim_start_matches(is_digit).len();
            if self.rest[between..].starts_with("\\dot") {
                digits += self.take_while(is_digit);
                digits += &self.marked_digits(command).ok_or(Trouble::Unreadable)?;
            }
        }
        Ok(digits)
    }

    /// Digits of a command such as `\dot{3}`; those of `\dot 3` have no braces.
    fn marked_digits(&mut self, command: &str) -> Option<String> {
        self.rest = self.rest.strip_prefix(command)?;
        let digits = self.take_while(|letter| letter.is_ascii_digit()).to_owned();
        let is_closed = !command.ends_with('{') || self.eat("}");
        (is_closed && !digits.is_empty()).then_some(digits)
    }

    /// Power of ten of `1e5` or `1E-5`; 1 without an exponent.
    fn exponent(&mut self) -> Result<BigRational, Trouble> {
        let one = BigRational::from_integer(1.into());
        let Some(behind) = self.rest.strip_prefix(['e', 'E']) else { return Ok(one) };
        let (negative, digits) = match behind.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, behind.strip_prefix('+').unwrap_or(behind)),
        };
        let length = digits.len() - digits.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        if length == 0 {
            return Ok(one);
        }
        let exponent: u32 = digits[..length].parse().map_err(|_| Trouble::TooLarge)?;
        if exponent > MAX_EXPONENT {
            return Err(Trouble::TooLarge);
        }
        self.rest = &digits[length..];
        let power = BigRational::from_integer(BigInt::from(10).pow(exponent));
        Ok(if negative { power.recip() } else { power })
    }

    /// Fraction of one character, which an integer before it makes a mixed number.
    pub(super) fn fraction(&mut self, letter: char) {
        let Some((above, below)) = fraction(letter) else { return };
        let part = BigRational::new(above.into(), below.into());
        match self.tokens.last_mut() {
            Some(Token::Number(whole, is_integer)) if *is_integer => (*whole, *is_integer) = (&*whole + part, false),
            _ => self.push(Token::Number(part, false)),
        }
    }
}

/// Whether exactly three digits follow.
fn grouped(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit) && !bytes.get(3).is_some_and(u8::is_ascii_digit)
}

/// Exact value of `whole.fraction` followed by infinite repetitions of `repeated`.
fn decimal(whole: &str, fraction: &str, repeated: &str) -> Result<BigRational, Trouble> {
    if whole.len() + fraction.len() + repeated.len() > MAX_DIGITS {
        return Err(Trouble::TooLarge);
    }
    let integer = |digits: String| if digits.is_empty() { Ok(BigInt::from(0)) } else { digits.parse() };
    let read = |digits: String| integer(digits).map_err(|_: num_bigint::ParseBigIntError| Trouble::Unreadable);
    let ten = |power: usize| Pow::pow(BigInt::from(10), power);
    let fixed = BigRational::new(read(format!("{whole}{fraction}"))?, ten(fraction.len()));
    if repeated.is_empty() {
        return Ok(fixed);
    }
    let nines = ten(repeated.len()) - BigInt::from(1);
    Ok(fixed + BigRational::new(read(repeated.to_owned())?, nines * ten(fraction.len())))
}
