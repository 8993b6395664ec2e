//! Parsing of expressions.

use std::sync::Arc;

use super::ast::{Arguments, Comparison, Constant, Expr, ExprKind, FilterCall, TestCall};
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::builtin;
use crate::error::TemplateError;
use crate::text::Str;

type Parsed = Result<Expr, TemplateError>;

/// Most levels of an expression's tree.
const MAX_DEPTH: u16 = 200;

/// Binding of operators, from the loosest to the tightest.
const OR: u8 = 0;
const AND: u8 = 1;
const NOT: u8 = 2;
const COMPARE: u8 = 3;
const ADD: u8 = 4;
const CONCAT: u8 = 5;
const MULTIPLY: u8 = 6;
const POWER: u8 = 7;

impl Parser<'_> {
    /// A node, unless the tree is too deep.
    fn node(&self, line: u32, kind: ExprKind) -> Parsed {
        let expr = Expr::new(line, kind);
        if expr.depth > MAX_DEPTH {
            return Err(TemplateError::Limit { excess: format!("nests code more than {MAX_DEPTH} levels deep") });
        }
        Ok(expr)
    }

    /// An expression.
    pub(super) fn expression(&mut self) -> Parsed {
        self.nested(Self::conditional)
    }

    /// An expression without `if` at its end, as loops have it.
    fn unconditional(&mut self) -> Parsed {
        self.nested(|parser| parser.binary(OR))
    }

    fn conditional(&mut self) -> Parsed {
        let mut value = self.binary(OR)?;
        while self.is_name("if") {
            let line = self.line();
            self.skip();
            let condition = Box::new(self.binary(OR)?);
            let other = if self.eat_name("else") { Some(Box::new(self.expression()?)) } else { None };
            value = self.node(line, ExprKind::Conditional(condition, Box::new(value), other))?;
        }
        Ok(value)
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> Parsed {
        let line = self.line();
        let mut left = if least <= NOT && self.is_name("not") {
            self.skip();
            let part = self.nested(|parser| parser.binary(NOT))?;
            self.node(line, ExprKind::Not(Box::new(part)))?
        } else {
            self.unary(true)?
        };
        while let Some((binding, operator)) = self.binary_operator().filter(|(binding, _)| *binding >= least) {
            let line = self.line();
            if binding == COMPARE {
                left = self.comparisons(line, left)?;
                continue;
            }
            if binding == CONCAT {
                left = self.concatenation(line, left)?;
                continue;
            }
            self.skip();
            let right = Box::new(self.binary(binding + 1)?);
            let left_part = Box::new(left);
            let kind = match binding {
                OR => ExprKind::Or(left_part, right),
                AND => ExprKind::And(left_part, right),
                _ => ExprKind::Arithmetic(operator, left_part, right),
            };
            left = self.node(line, kind)?;
        }
        Ok(left)
    }

    /// The binding and name of the current operator.
    fn binary_operator(&self) -> Option<(u8, &'static str)> {
        Some(match self.kind() {
            TokenKind::Name("or") => (OR, "or"),
            TokenKind::Name("and") => (AND, "and"),
            TokenKind::Operator(operator @ ("+" | "-")) => (ADD, operator),
            TokenKind::Operator(operator @ "~") => (CONCAT, operator),
            TokenKind::Operator(operator @ ("*" | "/" | "//" | "%")) => (MULTIPLY, operator),
            TokenKind::Operator(operator @ "**") => (POWER, operator),
            _ => (COMPARE, self.comparison().map(|_| "")?),
        })
    }

    fn comparison(&self) -> Option<Comparison> {
        Some(match self.kind() {
            TokenKind::Operator("==") => Comparison::Equal,
            TokenKind::Operator("!=") => Comparison::Unequal,
            TokenKind::Operator("<") => Comparison::Less,
            TokenKind::Operator("<=") => Comparison::LessOrEqual,
            TokenKind::Operator(">") => Comparison::Greater,
            TokenKind::Operator(">=") => Comparison::GreaterOrEqual,
            TokenKind::Name("in") => Comparison::In,
            TokenKind::Name("not") if *self.following() == TokenKind::Name("in") => Comparison::NotIn,
            _ => return None,
        })
    }

    fn comparisons(&mut self, line: u32, left: Expr) -> Parsed {
        let mut others = Vec::new();
        while let Some(comparison) = self.comparison() {
            self.skip();
            if comparison == Comparison::NotIn {
                self.skip();
            }
            others.push((comparison, self.binary(ADD)?));
        }
        self.node(line, ExprKind::Compare(Box::new(left), others))
    }

    fn concatenation(&mut self, line: u32, left: Expr) -> Parsed {
        let mut parts = vec![left];
        while self.eat_operator("~") {
            parts.push(self.binary(MULTIPLY)?);
        }
        self.node(line, ExprKind::Concat(parts))
    }

    fn unary(&mut self, with_filters: bool) -> Parsed {
        let line = self.line();
        let sign = if self.eat_operator("-") {
            Some(ExprKind::Negative as fn(Box<Expr>) -> ExprKind)
        } else if self.eat_operator("+") {
            Some(ExprKind::Positive as fn(Box<Expr>) -> ExprKind)
        } else {
            None
        };
        let mut value = match sign {
            Some(kind) => {
                let part = self.nested(|parser| parser.unary(false))?;
                self.node(line, kind(Box::new(part)))?
            }
            None => self.primary()?,
        };
        loop {
            let line = self.line();
            value = match self.kind() {
                TokenKind::Operator("." | "[") => self.subscript(value)?,
                TokenKind::Operator("(") => {
                    let arguments = self.arguments()?;
                    self.node(line, ExprKind::Call(Box::new(value), arguments))?
                }
                TokenKind::Operator("|") if with_filters => {
                    self.skip();
                    let call = self.filter()?;
                    self.node(line, ExprKind::Filter(Box::new(value), call))?
                }
                TokenKind::Name("is") if with_filters => {
                    self.skip();
                    let call = self.test()?;
                    self.node(line, ExprKind::Test(Box::new(value), call))?
                }
                _ => return Ok(value),
            };
        }
    }

    pub(super) fn primary(&mut self) -> Parsed {
        let line = self.line();
        let kind = match self.kind().clone() {
            TokenKind::Name("true" | "True") => constant(Constant::Bool(true)),
            TokenKind::Name("false" | "False") => constant(Constant::Bool(false)),
            TokenKind::Name("none" | "None") => constant(Constant::None),
            TokenKind::Name(name) => ExprKind::Name(self.symbol(name)),
            TokenKind::Text(_) => return self.text(line),
            TokenKind::Int(number) => constant(Constant::Int(number)),
            TokenKind::Float(number) => constant(Constant::Float(number)),
            TokenKind::Operator("(") => {
                self.skip();
                let tuple = self.tuple(true, false)?;
                self.expect_operator(")")?;
                return Ok(tuple);
            }
            TokenKind::Operator("[") => {
                self.skip();
                return self.list(line);
            }
            TokenKind::Operator("{") => {
                self.skip();
                return self.dict(line);
            }
            _ => return self.unexpected("an expression"),
        };
        self.skip();
        self.node(line, kind)
    }

    /// Neighbouring strings, which are one.
    fn text(&mut self, line: u32) -> Parsed {
        let mut text = String::new();
        while let TokenKind::Text(part) = self.kind() {
            text.push_str(part);
            self.skip();
        }
        let text: Arc<str> = Arc::from(text);
        self.literals.push(Arc::clone(&text));
        self.node(line, constant(Constant::Str(Str::shared(text))))
    }

    fn list(&mut self, line: u32) -> Parsed {
        let mut items = Vec::new();
        while !self.is_operator("]") {
            items.push(self.expression()?);
            if !self.eat_operator(",") {
                break;
            }
        }
        self.expect_operator("]")?;
        self.node(line, ExprKind::List(items))
    }

    fn dict(&mut self, line: u32) -> Parsed {
        let mut entries = Vec::new();
        while !self.is_operator("}") {
            let key = self.expression()?;
            self.expect_operator(":")?;
            entries.push((key, self.expression()?));
            if !self.eat_operator(",") {
                break;
            }
        }
        self.expect_operator("}")?;
        self.node(line, ExprKind::Dict(entries))
    }

    /// One expression or several between commas, which are a tuple.
    pub(super) fn tuple(&mut self, in_parentheses: bool, of_loop: bool) -> Parsed {
        let line = self.line();
        let mut items = Vec::new();
        let mut is_tuple = in_parentheses && self.is_operator(")");
        while !self.at_tuple_end(of_loop) {
            items.push(if of_loop { self.unconditional()? } else { self.expression()? });
            if !self.eat_operator(",") {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            Some(item) if !is_tuple => Ok(item),
            None if !is_tuple => self.unexpected("an expression"),
            last => {
                items.extend(last);
                self.node(line, ExprKind::Tuple(items))
            }
        }
    }

    fn at_tuple_end(&self, of_loop: bool) -> bool {
        let at_end = matches!(
            self.kind(),
            TokenKind::PrintEnd | TokenKind::BlockEnd | TokenKind::Operator(")") | TokenKind::End
        );
        at_end || (of_loop && self.is_name("recursive"))
    }

    fn subscript(&mut self, value: Expr) -> Parsed {
        let line = self.line();
        if self.eat_operator(".") {
            return match self.take() {
                TokenKind::Name(name) => self.node(line, ExprKind::Attribute(Box::new(value), Arc::from(name))),
                TokenKind::Int(number) => {
                    let index = self.node(line, constant(Constant::Int(number)))?;
                    self.node(line, ExprKind::Item(Box::new(value), Box::new(index)))
                }
                _ => self.error("expected a name or number after a dot"),
            };
        }
        self.expect_operator("[")?;
        let mut bounds = [None, None, None];
        let mut count = 0;
        if !self.is_operator(":") {
            let index = self.tuple_in_brackets()?;
            if self.eat_operator("]") {
                return self.node(line, ExprKind::Item(Box::new(value), Box::new(index)));
            }
            bounds[0] = Some(index);
        }
        while count < 2 && self.eat_operator(":") {
            count += 1;
            if !self.is_operator(":") && !self.is_operator("]") {
                let bound = self.expression()?;
                if let Some(slot) = bounds.get_mut(count) {
                    *slot = Some(bound);
                }
            }
        }
        self.expect_operator("]")?;
        self.node(line, ExprKind::Slice(Box::new(value), Box::new(bounds)))
    }

    fn tuple_in_brackets(&mut self) -> Parsed {
        let line = self.line();
        let first = self.expression()?;
        if !self.is_operator(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.eat_operator(",") && !self.is_operator("]") {
            items.push(self.expression()?);
        }
        self.node(line, ExprKind::Tuple(items))
    }

    /// Arguments between parentheses.
    pub(super) fn arguments(&mut self) -> Result<Arguments, TemplateError> {
        self.expect_operator("(")?;
        let mut arguments = Arguments::default();
        while !self.is_operator(")") {
            let is_named = matches!(self.kind(), TokenKind::Name(_)) && *self.following() == TokenKind::Operator("=");
            if self.is_operator("*") && arguments.sequence.is_none() && arguments.mapping.is_none() {
                self.skip();
                arguments.sequence = Some(Box::new(self.expression()?));
            } else if self.is_operator("**") && arguments.mapping.is_none() {
                self.skip();
                arguments.mapping = Some(Box::new(self.expression()?));
            } else if is_named && arguments.mapping.is_none() {
                let name = Arc::from(self.name("a name")?);
                self.skip();
                arguments.named.push((name, self.expression()?));
            } else if arguments.named.is_empty() && arguments.sequence.is_none() && arguments.mapping.is_none() {
                arguments.positional.push(self.expression()?);
            } else {
                return self.error("the arguments of a call are malformed");
            }
            if !self.eat_operator(",") {
                break;
            }
        }
        self.expect_operator(")")?;
        Ok(arguments)
    }

    /// A filter behind `|`.
    pub(super) fn filter(&mut self) -> Result<FilterCall, TemplateError> {
        let line = self.line();
        let mut name = self.name("the name of a filter")?.to_owned();
        while self.eat_operator(".") {
            name = format!("{name}.{}", self.name("the name of a filter")?);
        }
        let arguments = if self.is_operator("(") { self.arguments()? } else { Arguments::default() };
        let filter = builtin::filter(&name);
        Ok(FilterCall { line, filter, name: Arc::from(name), arguments })
    }

    /// A test behind `is`.
    fn test(&mut self) -> Result<TestCall, TemplateError> {
        let is_negated = self.eat_name("not");
        let mut name = self.name("the name of a test")?.to_owned();
        while self.eat_operator(".") {
            name = format!("{name}.{}", self.name("the name of a test")?);
        }
        let mut arguments = Arguments::default();
        match self.kind() {
            TokenKind::Operator("(") => arguments = self.arguments()?,
            TokenKind::Name("else" | "or" | "and") => {}
            TokenKind::Name("is") => return self.error("tests cannot follow each other"),
            // These names begin the rest of a statement in all sources that Jinja accepts, except as arguments.
            TokenKind::Name(_)
            | TokenKind::Text(_)
            | TokenKind::Int(_)
            | TokenKind::Float(_)
            | TokenKind::Operator("[" | "{") => {
                let mut argument = self.nested(Self::primary)?;
                while matches!(self.kind(), TokenKind::Operator("." | "[")) {
                    argument = self.subscript(argument)?;
                }
                arguments.positional.push(argument);
            }
            _ => {}
        }
        let test = builtin::test(&name);
        Ok(TestCall { name: Arc::from(name), test, arguments, is_negated })
    }
}

fn constant(constant: Constant) -> ExprKind {
    ExprKind::Constant(constant)
}
