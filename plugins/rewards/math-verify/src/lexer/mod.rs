//! Tokenizer for LaTeX and plain text. It drops purely visual markup.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Pow;

use crate::tree::{Function, Relation, Trouble};
use crate::words::{self, Meaning};

/// Maximum length of an answer, in bytes.
pub const LONGEST: usize = 8_000;
/// Maximum number of digits of a number.
const MOST_DIGITS: usize = 1_000;
/// Maximum exponent of a number such as `1e5`.
const MOST_EXPONENT: u32 = 1_000;

/// Token.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// Number, and whether it was written as an integer.
    Number(BigRational, bool),
    /// Variable or constant.
    Name(String),
    /// Text, such as a unit.
    Word(String),
    /// Function.
    Function(Function),
    /// `\log`, whose base may follow.
    Log,
    /// `\frac`
    Fraction,
    /// `\binom`
    Choose,
    /// `\sqrt`
    Root,
    /// `∞`
    Infinity,
    /// Relation.
    Relation(Relation),
    /// One of `+ - * / ^ _ ! % ° ± ∓ ∪ | , & \`; the last ends a row.
    Sign(char),
    /// One of `( [ { S`, the last of which is the brace of a set, and `⌊ ⌈`.
    Open(char),
    /// One of `) ] } T` and `⌋ ⌉`.
    Close(char),
    /// Start of a matrix.
    Begin,
    /// End of a matrix.
    End,
}

/// Tokenizes a text.
pub fn tokens(text: &str) -> Result<Vec<Token>, Trouble> {
    if text.len() > LONGEST {
        return Err(Trouble::TooLarge);
    }
    let mut lexer = Lexer { rest: text, depth: 0, tokens: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.token()?;
    }
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    /// Number of open brackets; inside brackets a comma separates members.
    depth: u32,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn push(&mut self, token: Token) {
        match token {
            Token::Open('(' | '[' | 'S') => self.depth += 1,
            Token::Close(')' | ']' | 'T') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.tokens.push(token);
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let eaten = self.rest.strip_prefix(prefix);
        self.rest = eaten.unwrap_or(self.rest);
        eaten.is_some()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !wanted(letter)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn token(&mut self) -> Result<(), Trouble> {
        let Some(first) = self.rest.chars().next() else { return Ok(()) };
        let second = self.rest[first.len_utf8()..].chars().next();
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|letter| letter.is_ascii_digit())) {
            return self.number();
        }
        if first.is_ascii_alphabetic() {
            let run = self.take_while(|letter| letter.is_ascii_alphabetic());
            self.letters(run);
            return Ok(());
        }
        if self.eat("\\") {
            return self.command();
        }
        if self.eat("**") {
            self.push(Token::Sign('^'));
            return Ok(());
        }
        self.rest = &self.rest[first.len_utf8()..];
        match first {
            '_' => return self.subscript(),
            '\'' | '′' => match self.tokens.last_mut() {
                Some(Token::Name(name)) => name.push('\''),
                _ => return Err(Trouble::Unreadable),
            },
            '²' | '³' => {
                self.push(Token::Sign('^'));
                let power = BigRational::from_integer(if first == '²' { 2 } else { 3 }.into());
                self.push(Token::Number(power, true));
            }
            '.' if self.rest.trim().is_empty() => {}
            letter if letter.is_whitespace() => {}
            letter => {
                let token = self.relation(letter).or_else(|| words::symbol(letter)).ok_or(Trouble::Unreadable)?;
                if let Some(token) = token {
                    self.push(token);
                }
            }
        }
        Ok(())
    }

    /// Relation of one or two characters.
    fn relation(&mut self, first: char) -> Option<Option<Token>> {
        let or_equal = |lexer: &mut Self, with, without| if lexer.eat("=") { with } else { without };
        let relation = match first {
            '=' => or_equal(self, Relation::Equal, Relation::Equal),
            '<' => or_equal(self, Relation::AtMost, Relation::Less),
            '>' => or_equal(self, Relation::AtLeast, Relation::Greater),
            '!' if self.eat("=") => Relation::NotEqual,
            '≤' | '⩽' => Relation::AtMost,
            '≥' | '⩾' => Relation::AtLeast,
            '≠' => Relation::NotEqual,
            '∈' => Relation::In,
            _ => return None,
        };
        Some(Some(Token::Relation(relation)))
    }

    /// Number with thousands separators, decimals, a repeating part and an exponent.
    fn number(&mut self) -> Result<(), Trouble> {
        let mut digits = self.take_while(|letter| letter.is_ascii_digit()).to_owned();
        let leading = digits.len();
        while (1..=3).contains(&leading) {
            let separators: &[&str] =
                if self.depth == 0 { &["{,}", "\\,", "\\!", ","] } else { &["{,}", "\\,", "\\!"] };
            let mut behind = separators.iter().filter_map(|separator| self.rest.strip_prefix(separator));
            let Some(group) = behind.find(|behind| grouped(behind)) else { break };
            digits.push_str(&group[..3]);
            self.rest = &group[3..];
        }
        let point = self.rest.strip_prefix('.').filter(|behind| {
            behind.starts_with(|letter: char| letter.is_ascii_digit()) || behind.starts_with("\\overline{")
        });
        let mut value = (digits, String::new(), String::new());
        if let Some(behind) = point {
            self.rest = behind;
            value.1 = self.take_while(|letter| letter.is_ascii_digit()).to_owned();
            if self.eat("\\overline{") {
                value.2 = self.take_while(|letter| letter.is_ascii_digit()).to_owned();
                if value.2.is_empty() || !self.eat("}") {
                    return Err(Trouble::Unreadable);
                }
            }
        }
        let number = decimal(&value.0, &value.1, &value.2)?;
        let number = number * self.exponent()?;
        self.push(Token::Number(number, point.is_none()));
        Ok(())
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
        if exponent > MOST_EXPONENT {
            return Err(Trouble::TooLarge);
        }
        self.rest = &digits[length..];
        let power = BigRational::from_integer(BigInt::from(10).pow(exponent));
        Ok(if negative { power.recip() } else { power })
    }

    /// Letters without a backslash: a function, a unit, adjacent variables or a word.
    fn letters(&mut self, run: &str) {
        match words::meaning(run) {
            Meaning::Token(token) => self.push(token),
            Meaning::Variables => run.chars().for_each(|letter| self.push(Token::Name(letter.into()))),
            Meaning::Function(function, argument) => {
                self.push(Token::Function(function));
                self.push(Token::Name(argument.to_owned()));
            }
            Meaning::Word => self.push(Token::Word(run.to_owned())),
        }
    }

    /// Command after a backslash.
    fn command(&mut self) -> Result<(), Trouble> {
        let name = self.take_while(|letter| letter.is_ascii_alphabetic());
        if name.is_empty() {
            let Some(letter) = self.rest.chars().next() else { return Ok(()) };
            self.rest = &self.rest[letter.len_utf8()..];
            match letter {
                '{' => self.push(Token::Open('S')),
                '}' => self.push(Token::Close('T')),
                '\\' => self.push(Token::Sign('\\')),
                '%' => self.push(Token::Sign('%')),
                '|' => self.push(Token::Sign('|')),
                // Spaces, dollars and delimiters of a formula.
                ',' | ';' | ':' | '!' | ' ' | '$' | '(' | ')' | '[' | ']' => {}
                _ => return Err(Trouble::Unreadable),
            }
            return Ok(());
        }
        match name {
            "begin" | "end" => self.block(name == "begin"),
            "text" | "textbf" | "textit" | "textrm" | "mathrm" | "mathbf" | "mathit" | "mathbb" | "mathcal"
            | "mbox" | "operatorname" | "boldsymbol" | "overline" | "vec" | "hat" | "bar" | "underline" => {
                self.wrapped(name)
            }
            // The bracket follows; a dot stands for an invisible bracket.
            "left" | "right" => {
                let _ = self.eat(".");
                Ok(())
            }
            _ => {
                if let Some(token) = words::command(name).ok_or(Trouble::Unreadable)? {
                    let arguments = match token {
                        Token::Fraction | Token::Choose => 2,
                        Token::Root => 1,
                        _ => 0,
                    };
                    self.push(token);
                    self.bare_arguments(arguments);
                }
                Ok(())
            }
        }
    }

    /// Arguments without braces are single digits: `\frac12` is one half.
    fn bare_arguments(&mut self, count: usize) {
        for _ in 0..count {
            let rest = self.rest.trim_start();
            let Some(digit) = rest.chars().next().and_then(|letter| letter.to_digit(10)) else { return };
            self.rest = &rest[1..];
            self.push(Token::Number(BigRational::from_integer(digit.into()), true));
        }
    }

    /// `\begin{pmatrix}` and similar; the column letters of an array are dropped.
    fn block(&mut self, begins: bool) -> Result<(), Trouble> {
        let name = self.braced().ok_or(Trouble::Unreadable)?;
        match name.trim_end_matches('*') {
            "pmatrix" | "bmatrix" | "matrix" | "vmatrix" | "Bmatrix" | "smallmatrix" => {}
            "array" if begins => {
                let _ = self.braced();
            }
            "array" => {}
            _ => return Err(Trouble::Unreadable),
        }
        self.push(if begins { Token::Begin } else { Token::End });
        Ok(())
    }

    /// `\text{…}` and similar.
    fn wrapped(&mut self, name: &str) -> Result<(), Trouble> {
        let inside = match self.braced() {
            Some(inside) => inside.trim(),
            None => self.take_while(|letter| letter.is_ascii_alphabetic()),
        };
        if inside.is_empty() {
            return Ok(());
        }
        let upright = matches!(name, "text" | "textbf" | "textit" | "textrm" | "mathrm" | "mbox" | "operatorname");
        // The letter of a multiple-choice answer may be in brackets.
        let letter = inside.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
        let inside = letter.filter(|letter| letter.chars().count() == 1).unwrap_or(inside);
        let single = inside.chars().count() == 1 && inside.chars().all(char::is_alphabetic);
        match words::meaning(inside) {
            Meaning::Token(token) if !single => self.push(token),
            // An accent, such as a bar or an arrow, makes a different variable.
            _ if !upright && name != "mathbf" && name != "mathit" && name != "boldsymbol" => {
                self.push(Token::Name(format!("{name}({inside})")));
            }
            _ if single => self.push(Token::Name(inside.to_owned())),
            _ if inside.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = decimal(inside, "", "")?;
                self.push(Token::Number(number, true));
            }
            _ => self.push(Token::Word(inside.to_owned())),
        }
        Ok(())
    }

    /// Content of the next braces, which may be nested.
    fn braced(&mut self) -> Option<&'a str> {
        let inside = self.rest.trim_start().strip_prefix('{')?;
        let mut depth = 1_u32;
        let end = inside.char_indices().find(|(_, letter)| {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        self.rest = &inside[end.0 + 1..];
        Some(&inside[..end.0])
    }

    /// Appends a subscript to its name; the parser handles the base of a logarithm.
    fn subscript(&mut self) -> Result<(), Trouble> {
        if let Some(Token::Name(_)) = self.tokens.last() {
            let inside = match self.braced() {
                Some(inside) => inside,
                None => {
                    let first = self.rest.trim_start();
                    let length = first.chars().next().ok_or(Trouble::Unreadable)?.len_utf8();
                    self.rest = &first[length..];
                    &first[..length]
                }
            };
            let plain: String = inside.chars().filter(|letter| !letter.is_whitespace()).collect();
            if let Some(Token::Name(name)) = self.tokens.last_mut() {
                name.push('_');
                name.push_str(&plain);
            }
        } else {
            self.push(Token::Sign('_'));
        }
        Ok(())
    }
}

/// Whether exactly three digits follow.
fn grouped(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit) && !bytes.get(3).is_some_and(u8::is_ascii_digit)
}

/// Exact value of `whole.fraction` followed by infinite repetitions of `repeated`.
fn decimal(whole: &str, fraction: &str, repeated: &str) -> Result<BigRational, Trouble> {
    if whole.len() + fraction.len() + repeated.len() > MOST_DIGITS {
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
