//! Literals of Python as JSON text: numbers, strings, `None`, `True`, `False`, lists, tuples, sets and dictionaries.
//!
//! The words of JSON (`null`, `true`, `false`) are read as well. Numbers keep their digits.

use super::super::json::exact::{MAX_DEPTH, compact, push_string};

/// Reads a text that is one literal.
///
/// # Errors
/// The reason, for text that is not a literal.
pub(in super::super) fn read(text: &str) -> Result<String, String> {
    let mut cursor = Cursor::new(text.trim());
    let mut json = String::new();
    cursor.push_literal(0, &mut json)?;
    cursor.skip_space();
    if cursor.rest().is_empty() { compact(&json) } else { Err("text follows the literal".to_owned()) }
}

/// A place in a text of Python.
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips a text if it is next.
    pub(super) fn skip(&mut self, expected: &str) -> bool {
        let next = self.rest().starts_with(expected);
        self.at += if next { expected.len() } else { 0 };
        next
    }

    /// The longest text of these characters that is next.
    pub(super) fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c: char| !is_part(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Reads a literal and appends it as JSON.
    pub(super) fn push_literal(&mut self, depth: usize, json: &mut String) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("recursion limit exceeded".to_owned());
        }
        self.skip_space();
        let rest = self.rest();
        match rest.chars().next() {
            None => Err("a value is missing at the end of the text".to_owned()),
            Some('[') => self.push_list("[", "]", depth, json),
            Some('(') => self.push_list("(", ")", depth, json),
            Some('{') => self.push_braces(depth, json),
            Some('"' | '\'') => self.push_strings(json),
            Some('-' | '+' | '.' | '0'..='9') => self.push_number(json),
            Some(_) if is_prefixed_string(rest) => self.push_strings(json),
            Some(_) => self.push_word(json),
        }
    }

    fn push_list(&mut self, open: &str, close: &str, depth: usize, json: &mut String) -> Result<(), String> {
        self.skip(open);
        json.push('[');
        match self.push_values(close, (0, 0), depth, json)? {
            (1, 0) if open == "(" => Err("parentheses around one value are not a literal".to_owned()),
            _ => Ok(()),
        }
    }

    /// Reads values up to a closing bracket, behind as many values and commas as `before` says, and gives the numbers of
    /// both.
    fn push_values(
        &mut self,
        close: &str,
        before: (usize, usize),
        depth: usize,
        json: &mut String,
    ) -> Result<(usize, usize), String> {
        let (mut values, mut commas) = before;
        loop {
            self.skip_space();
            if self.skip(close) {
                json.push(']');
                return Ok((values, commas));
            }
            if values > commas {
                return Err(format!("`,` or `{close}` is missing behind a value"));
            }
            if values > 0 {
                json.push(',');
            }
            self.push_literal(depth + 1, json)?;
            values += 1;
            self.skip_space();
            commas += usize::from(self.skip(","));
        }
    }

    /// Reads a dictionary or a set.
    fn push_braces(&mut self, depth: usize, json: &mut String) -> Result<(), String> {
        self.skip("{");
        self.skip_space();
        if self.skip("}") {
            json.push_str("{}");
            return Ok(());
        }
        let mut first = String::new();
        self.push_literal(depth + 1, &mut first)?;
        self.skip_space();
        if self.rest().starts_with(':') {
            return self.push_dictionary(first, depth, json);
        }
        json.push('[');
        json.push_str(&first);
        let comma = self.skip(",");
        self.push_values("}", (1, usize::from(comma)), depth, json).map(|_| ())
    }

    /// Reads a dictionary behind its first key.
    fn push_dictionary(&mut self, first: String, depth: usize, json: &mut String) -> Result<(), String> {
        let mut key = first;
        json.push('{');
        loop {
            self.skip_space();
            if !self.skip(":") {
                return Err("`:` is missing behind a key".to_owned());
            }
            match key.bytes().next() {
                Some(b'"') => json.push_str(&key),
                Some(b'[' | b'{') => return Err("a key is a list or a dictionary".to_owned()),
                _ => push_string(&key, json),
            }
            json.push(':');
            self.push_literal(depth + 1, json)?;
            self.skip_space();
            let comma = self.skip(",");
            self.skip_space();
            if self.skip("}") {
                json.push('}');
                return Ok(());
            }
            if !comma {
                return Err("`,` or `}` is missing in a dictionary".to_owned());
            }
            json.push(',');
            key = String::new();
            self.push_literal(depth + 1, &mut key)?;
        }
    }

    fn push_number(&mut self, json: &mut String) -> Result<(), String> {
        let text = self.take(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
        let negative = text.starts_with('-');
        let digits = text.trim_start_matches(['-', '+']).replace('_', "");
        if text.len() - text.trim_start_matches(['-', '+']).len() > 1 {
            return Err(format!("`{text}` is not a number"));
        }
        let lower = digits.to_ascii_lowercase();
        let other = [("0x", 16), ("0o", 8), ("0b", 2)];
        let radix = other.iter().find_map(|(prefix, radix)| Some((lower.strip_prefix(prefix)?, *radix)));
        let number = match radix {
            Some((digits, radix)) => u64::from_str_radix(digits, radix).ok().map(|number| number.to_string()),
            None => decimal(&digits),
        };
        let number = number.ok_or_else(|| format!("`{text}` is not a number"))?;
        json.push_str(if negative { "-" } else { "" });
        json.push_str(&number);
        Ok(())
    }

    fn push_word(&mut self, json: &mut String) -> Result<(), String> {
        let word = self.take(|c| c.is_alphanumeric() || c == '_');
        json.push_str(match word {
            "None" | "null" => "null",
            "True" | "true" => "true",
            "False" | "false" => "false",
            "" => return Err(format!("`{}` begins no value", self.rest().chars().next().unwrap_or_default())),
            other => return Err(format!("`{other}` is not a value; texts need quotation marks")),
        });
        Ok(())
    }

    /// Reads strings behind each other, which Python joins.
    fn push_strings(&mut self, json: &mut String) -> Result<(), String> {
        let mut text = String::new();
        loop {
            self.push_one_string(&mut text)?;
            self.skip_space();
            let rest = self.rest();
            if !rest.starts_with(['"', '\'']) && !is_prefixed_string(rest) {
                break;
            }
        }
        push_string(&text, json);
        Ok(())
    }

    fn push_one_string(&mut self, text: &mut String) -> Result<(), String> {
        let prefix = self.take(|c| c.is_ascii_alphabetic());
        let raw = prefix.contains(['r', 'R']);
        let Some(quote) = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| self.skip(quote)) else {
            return Err("a string has no quotation mark".to_owned());
        };
        loop {
            text.push_str(self.take(|c| c != '\\' && !quote.starts_with(c)));
            if self.skip(quote) {
                return Ok(());
            }
            match self.rest().chars().next() {
                None => return Err("a string is not closed".to_owned()),
                Some('\\') if raw => {
                    let pair: String = self.rest().chars().take(2).collect();
                    self.at += pair.len();
                    text.push_str(&pair);
                }
                Some('\\') => self.push_escape(text)?,
                Some(other) => {
                    self.at += other.len_utf8();
                    text.push(other);
                }
            }
        }
    }

    fn push_escape(&mut self, text: &mut String) -> Result<(), String> {
        self.skip("\\");
        let code = self.rest().chars().next().ok_or("a string is not closed")?;
        self.at += code.len_utf8();
        match code {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'v' => text.push('\u{b}'),
            'a' => text.push('\u{7}'),
            '0' => text.push('\0'),
            '\n' => {}
            '\\' | '\'' | '"' | '/' => text.push(code),
            'x' => text.push(self.read_hex(2)?),
            'u' => text.push(self.read_hex(4)?),
            'U' => text.push(self.read_hex(8)?),
            // Python keeps the backslash of an unknown escape.
            other => text.extend(['\\', other]),
        }
        Ok(())
    }

    /// A character by its hexadecimal number, with the second half of a surrogate pair.
    fn read_hex(&mut self, digits: usize) -> Result<char, String> {
        let mut code = self.read_code(digits)?;
        if (0xd800..0xdc00).contains(&code) && self.skip("\\u") {
            let low = self.read_code(4)?;
            code = 0x1_0000 + ((code - 0xd800) << 10) + low.wrapping_sub(0xdc00) % 0x400;
        }
        char::from_u32(code).ok_or_else(|| "an escape is half of a surrogate pair".to_owned())
    }

    fn read_code(&mut self, digits: usize) -> Result<u32, String> {
        let code = self.rest().get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok());
        self.at += digits;
        code.ok_or_else(|| "an escape has too few digits".to_owned())
    }
}

/// Whether a string with a letter in front of it is next.
fn is_prefixed_string(text: &str) -> bool {
    let rest = text.trim_start_matches(['r', 'R', 'u', 'U', 'b', 'B', 'f', 'F']);
    let prefix = text.len() - rest.len();
    (1..=2).contains(&prefix) && rest.starts_with(['"', '\''])
}

/// A decimal number of Python as one of JSON.
fn decimal(text: &str) -> Option<String> {
    let exponent = text.find(['e', 'E']).unwrap_or(text.len());
    let (mantissa, exponent) = text.split_at(exponent);
    let mut number = match mantissa.split_once('.') {
        None => mantissa.to_owned(),
        Some((whole, fraction)) if !whole.is_empty() || !fraction.is_empty() => {
            let zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
            format!("{}.{}", zero(whole), zero(fraction))
        }
        Some(_) => return None,
    };
    number.push_str(exponent);
    serde_json::from_str::<serde_json::Number>(&number).is_ok().then_some(number)
}
