//! The state of the parser: tokens, names and depth.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{Extra, Symbol};
use super::lexer::{Token, TokenKind};
use crate::error::TemplateError;

/// Most nested expressions and statements of a source. Jinja2 itself fails at about 80 nested parentheses.
const MAX_NESTING: u16 = 60;

pub(super) struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    nesting: u16,
    pub(super) symbols: HashMap<Arc<str>, Symbol>,
    pub(super) names: Vec<Arc<str>>,
    pub(super) literals: Vec<Arc<str>>,
    /// Loops around the current statement, in the same macro.
    pub(super) loops: usize,
    /// Special names that the current macro uses.
    pub(super) extra: Extra,
}

impl<'s> Parser<'s> {
    pub(super) fn new(tokens: Vec<Token<'s>>) -> Self {
        Self {
            tokens,
            at: 0,
            nesting: 0,
            symbols: HashMap::new(),
            names: Vec::new(),
            literals: Vec::new(),
            loops: 0,
            extra: Extra::default(),
        }
    }

    /// The current token.
    pub(super) fn kind(&self) -> &TokenKind<'s> {
        self.tokens.get(self.at).map_or(&TokenKind::End, |token| &token.kind)
    }

    /// The token after the current one.
    pub(super) fn following(&self) -> &TokenKind<'s> {
        self.tokens.get(self.at + 1).map_or(&TokenKind::End, |token| &token.kind)
    }

    /// The line of the current token.
    pub(super) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    /// Takes the current token.
    pub(super) fn take(&mut self) -> TokenKind<'s> {
        let taken = self.kind().clone();
        self.at = (self.at + 1).min(self.tokens.len());
        taken
    }

    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len());
    }

    pub(super) fn error<T>(&self, reason: impl Into<String>) -> Result<T, TemplateError> {
        Err(TemplateError::Syntax { line: self.line(), reason: reason.into() })
    }

    /// A failure because of the current token.
    pub(super) fn unexpected<T>(&self, wanted: &str) -> Result<T, TemplateError> {
        let found = match self.kind() {
            TokenKind::Data(_) => "text".to_owned(),
            TokenKind::PrintBegin => "`{{`".to_owned(),
            TokenKind::PrintEnd => "`}}`".to_owned(),
            TokenKind::BlockBegin => "`{%`".to_owned(),
            TokenKind::BlockEnd => "`%}`".to_owned(),
            TokenKind::Name(name) => format!("`{name}`"),
            TokenKind::Text(_) => "a string".to_owned(),
            TokenKind::Int(_) | TokenKind::Float(_) => "a number".to_owned(),
            TokenKind::Operator(operator) => format!("`{operator}`"),
            TokenKind::End => "the end".to_owned(),
        };
        self.error(format!("expected {wanted}, found {found}"))
    }

    pub(super) fn is_operator(&self, operator: &str) -> bool {
        matches!(self.kind(), TokenKind::Operator(found) if *found == operator)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.kind(), TokenKind::Name(found) if *found == name)
    }

    pub(super) fn eat_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(operator);
        if found {
            self.skip();
        }
        found
    }

    pub(super) fn eat_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.skip();
        }
        found
    }

    pub(super) fn expect_operator(&mut self, operator: &'static str) -> Result<(), TemplateError> {
        if self.eat_operator(operator) { Ok(()) } else { self.unexpected(&format!("`{operator}`")) }
    }

    pub(super) fn expect(&mut self, kind: &TokenKind<'s>, wanted: &str) -> Result<(), TemplateError> {
        if self.kind() != kind {
            return self.unexpected(wanted);
        }
        self.skip();
        Ok(())
    }

    /// Takes a name.
    pub(super) fn name(&mut self, wanted: &str) -> Result<&'s str, TemplateError> {
        let TokenKind::Name(name) = *self.kind() else { return self.unexpected(wanted) };
        self.skip();
        Ok(name)
    }

    /// The symbol of a name.
    pub(super) fn symbol(&mut self, name: &str) -> Symbol {
        match name {
            "caller" => self.extra.caller = true,
            "varargs" => self.extra.varargs = true,
            "kwargs" => self.extra.kwargs = true,
            _ => {}
        }
        if let Some(symbol) = self.symbols.get(name) {
            return *symbol;
        }
        let shared: Arc<str> = Arc::from(name);
        let symbol = self.names.len();
        self.names.push(Arc::clone(&shared));
        self.symbols.insert(shared, symbol);
        symbol
    }

    /// Parses something inside of something else.
    pub(super) fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, TemplateError>,
    ) -> Result<T, TemplateError> {
        if self.nesting >= MAX_NESTING {
            return Err(TemplateError::Limit { excess: format!("nests code more than {MAX_NESTING} levels deep") });
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }
}
