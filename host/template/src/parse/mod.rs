//! Parsing of templates.

mod ast;
mod expression;
mod lexer;
mod literal;
mod parser;
mod statement;

pub(crate) use ast::{
    Arguments, AssignmentTarget, Comparison, Constant, Expr, ExprKind, FilterCall, Loop, Macro, Statement,
    StatementKind, Symbol, TestCall,
};

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::TemplateError;
use parser::Parser;

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) body: Vec<Statement>,
    /// Names of variables, by symbol.
    pub(crate) names: Vec<Arc<str>>,
    symbols: HashMap<Arc<str>, Symbol>,
    /// Strings in the source: text outside of tags, and literals in expressions.
    pub(crate) literals: Vec<Arc<str>>,
}

impl Parsed {
    /// The symbol of a name, if the template uses it.
    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(name).copied()
    }
}

/// Parses a source.
pub(crate) fn parse(source: &str) -> Result<Parsed, TemplateError> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut parser = Parser::new(lexer::tokens(source)?);
    let body = parser.template()?;
    Ok(Parsed { body, names: parser.names, symbols: parser.symbols, literals: parser.literals })
}
