//! The source as tokens, with the white space rules of `trim_blocks` and `lstrip_blocks`.

use crate::error::TemplateError;
use crate::parse::literal;
use crate::text::{first_of_trimmed, is_space};

/// A token and its line.
#[derive(Debug, Clone)]
pub(super) struct Token<'s> {
    pub(super) line: u32,
    pub(super) kind: TokenKind<'s>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind<'s> {
    Data(&'s str),
    PrintBegin,
    PrintEnd,
    BlockBegin,
    BlockEnd,
    Name(&'s str),
    Text(String),
    Int(i128),
    Float(f64),
    Operator(&'static str),
    End,
}

/// Operators; longer ones first.
const OPERATORS: [&str; 25] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",",
];

/// The tokens of a source, whose line ends are `\n`.
pub(super) fn tokens(source: &str) -> Result<Vec<Token<'_>>, TemplateError> {
    let mut lexer = Lexer { rest: source, line: 1, tokens: Vec::new(), at_line_start: true };
    while !lexer.rest.is_empty() {
        lexer.data()?;
    }
    lexer.put(TokenKind::End);
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    rest: &'s str,
    line: u32,
    tokens: Vec<Token<'s>>,
    /// Whether the last token ended with a line end.
    at_line_start: bool,
}

impl<'s> Lexer<'s> {
    fn put(&mut self, kind: TokenKind<'s>) {
        self.tokens.push(Token { line: self.line, kind });
    }

    fn error<T>(&self, reason: impl Into<String>) -> Result<T, TemplateError> {
        Err(TemplateError::Syntax { line: self.line, reason: reason.into() })
    }

    /// Takes some bytes.
    fn take(&mut self, bytes: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        let lines = taken.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
        taken
    }

    /// Takes white space.
    fn skip_space(&mut self) {
        self.take(first_of_trimmed(self.rest));
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest.starts_with(text);
        if found {
            self.take(text.len());
        }
        found
    }

    /// Text up to the next tag, and the tag.
    fn data(&mut self) -> Result<(), TemplateError> {
        let is_tag = |at: &usize| matches!(self.rest.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#'));
        let mut braces = self.rest.bytes().enumerate().filter(|(_, byte)| *byte == b'{').map(|(at, _)| at);
        let Some(at) = braces.find(is_tag) else {
            let text = self.take(self.rest.len());
            self.put(TokenKind::Data(text));
            return Ok(());
        };
        let line = self.line;
        let text = self.take(at);
        let tag = self.take(2);
        let sign = self.rest.bytes().next().filter(|sign| matches!(sign, b'-' | b'+'));
        if sign.is_some() {
            self.take(1);
        }
        let text = match sign {
            Some(b'-') => text.trim_end_matches(is_space),
            None if tag != "{{" => self.without_indent(text),
            _ => text,
        };
        if !text.is_empty() {
            self.tokens.push(Token { line, kind: TokenKind::Data(text) });
        }
        self.at_line_start = false;
        match tag {
            "{{" => self.inside(TokenKind::PrintBegin, TokenKind::PrintEnd, "}}"),
            "{#" => self.comment(),
            _ if self.raw_begin() => self.raw(),
            _ => self.inside(TokenKind::BlockBegin, TokenKind::BlockEnd, "%}"),
        }
    }

    /// The text without white space between the last line end and the tag.
    fn without_indent(&self, text: &'s str) -> &'s str {
        let start = text.rfind('\n').map_or(0, |at| at + 1);
        let is_blank = text.get(start..).is_some_and(|line| line.chars().all(is_space));
        match (start > 0 || self.at_line_start) && is_blank {
            true => text.get(..start).unwrap_or(text),
            false => text,
        }
    }

    /// What follows the end of a block: one line end is removed.
    fn trim_line_end(&mut self) {
        self.at_line_start = self.eat("\n");
    }

    /// Takes the end of a tag with its sign, if it is next.
    fn tag_end(&mut self, end: &str) -> bool {
        let (sign, bare) = match self.rest.as_bytes().first() {
            Some(sign @ (b'-' | b'+')) => (Some(*sign), self.rest.get(1..).unwrap_or_default()),
            _ => (None, self.rest),
        };
        if !bare.starts_with(end) || (sign == Some(b'+') && end == "}}") {
            return false;
        }
        self.take(end.len() + usize::from(sign.is_some()));
        self.at_line_start = false;
        match sign {
            Some(b'-') => {
                let space = self.take(first_of_trimmed(self.rest));
                self.at_line_start = space.ends_with('\n');
            }
            None if end != "}}" => self.trim_line_end(),
            _ => {}
        }
        true
    }

    fn comment(&mut self) -> Result<(), TemplateError> {
        let Some(at) = self.rest.find("#}") else { return self.error("a comment has no end") };
        let sign = self.rest.get(..at).is_some_and(|text| text.ends_with(['-', '+']));
        self.take(at - usize::from(sign));
        self.tag_end("#}");
        Ok(())
    }

    /// Takes the rest of `{% raw %}`, if it is next.
    fn raw_begin(&mut self) -> bool {
        let name = self.rest.trim_start_matches(is_space);
        let Some(after) = name.strip_prefix("raw") else { return false };
        let after = after.trim_start_matches(is_space);
        let bytes = self.rest.len() - after.len();
        if after.starts_with("-%}") {
            self.take(bytes + 3);
            self.skip_space();
        } else if after.starts_with("%}") {
            self.take(bytes + 2);
        } else {
            return false;
        }
        // The tag itself is the last token; white space behind it may end with a line end.
        self.at_line_start = false;
        true
    }

    /// Text up to `{% endraw %}`.
    fn raw(&mut self) -> Result<(), TemplateError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let line = self.line;
        let mut from = 0;
        while let Some(found) = self.rest.get(from..).and_then(|rest| rest.find("{%")) {
            let start = from + found;
            let inner = self.rest.get(start + 2..).unwrap_or_default();
            let sign = inner.bytes().next().filter(|sign| matches!(sign, b'-' | b'+'));
            let inner = if sign.is_some() { inner.get(1..).unwrap_or_default() } else { inner };
            let name = inner.trim_start_matches(is_space);
            if let Some(after) = name.strip_prefix("endraw") {
                let after = after.trim_start_matches(is_space);
                let is_end = ["%}", "-%}", "+%}"].iter().any(|end| after.starts_with(end));
                if is_end {
                    let text = self.take(start);
                    let text = match sign {
                        Some(b'-') => text.trim_end_matches(is_space),
                        None => self.without_indent(text),
                        _ => text,
                    };
                    self.tokens.push(Token { line, kind: TokenKind::Data(text) });
                    self.take(self.rest.len() - after.len());
                    self.tag_end("%}");
                    return Ok(());
                }
            }
            from = start + 2;
        }
        self.error("a raw block has no end")
    }

    /// The tokens of a tag.
    fn inside(&mut self, begin: TokenKind<'s>, end: TokenKind<'s>, closing: &str) -> Result<(), TemplateError> {
        self.put(begin);
        let mut open: Vec<&'static str> = Vec::new();
        loop {
            if open.is_empty() {
                let line = self.line;
                if self.tag_end(closing) {
                    self.tokens.push(Token { line, kind: end });
                    return Ok(());
                }
            }
            let Some(first) = self.rest.chars().next() else { return self.error("a tag has no end") };
            match first {
                _ if is_space(first) => self.skip_space(),
                '0'..='9' => self.number()?,
                '"' | '\'' => self.text(first)?,
                _ if first == '_' || first.is_alphanumeric() => self.name(),
                _ => self.operator(&mut open)?,
            }
        }
    }

    fn name(&mut self) {
        let end = self.rest.find(|letter: char| letter != '_' && !letter.is_alphanumeric());
        let name = self.take(end.unwrap_or(self.rest.len()));
        self.put(TokenKind::Name(name));
    }

    fn number(&mut self) -> Result<(), TemplateError> {
        let after_dot = matches!(self.tokens.last(), Some(Token { kind: TokenKind::Operator("."), .. }));
        let (bytes, number) = match literal::number(self.rest, !after_dot) {
            Ok(number) => number,
            Err(reason) => return self.error(reason),
        };
        self.take(bytes);
        self.put(match number {
            literal::NumberLiteral::Int(number) => TokenKind::Int(number),
            literal::NumberLiteral::Float(number) => TokenKind::Float(number),
        });
        Ok(())
    }

    fn text(&mut self, quote: char) -> Result<(), TemplateError> {
        let mut is_escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == quote && !is_escaped;
            is_escaped = *letter == '\\' && !is_escaped;
            ends
        });
        let Some((end, _)) = end else { return self.error("a string has no end") };
        match literal::text(self.rest.get(1..end).unwrap_or_default()) {
            Ok(text) => self.put(TokenKind::Text(text)),
            Err(reason) => return self.error(reason),
        }
        self.take(end + 1);
        Ok(())
    }

    fn operator(&mut self, open: &mut Vec<&'static str>) -> Result<(), TemplateError> {
        let Some(operator) = OPERATORS.into_iter().find(|operator| self.rest.starts_with(operator)) else {
            return self.error(format!("unexpected character `{}`", self.rest.chars().next().unwrap_or(' ')));
        };
        match operator {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(operator) => return self.error(format!("unexpected `{operator}`")),
            _ => {}
        }
        self.put(TokenKind::Operator(operator));
        self.take(operator.len());
        Ok(())
    }
}
