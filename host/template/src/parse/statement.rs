//! Parsing of statements.

use std::sync::Arc;

use super::ast::{AssignmentTarget, ExprKind, Extra, FilterCall, Loop, Macro, Parameter, Statement, StatementKind};
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::error::TemplateError;
use crate::text::Str;

type Body = Vec<Statement>;

/// Constants, to which nothing can be assigned.
const CONSTANTS: [&str; 6] = ["true", "True", "false", "False", "none", "None"];

impl Parser<'_> {
    /// The whole template.
    pub(super) fn template(&mut self) -> Result<Body, TemplateError> {
        let (body, _) = self.body(&[])?;
        Ok(body)
    }

    /// Statements up to a tag with one of the names, of which the name is taken; without names, up to the end.
    fn body(&mut self, ends: &[&'static str]) -> Result<(Body, &'static str), TemplateError> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.take() {
                TokenKind::Data(text) => {
                    let text: Arc<str> = Arc::from(text);
                    self.literals.push(Arc::clone(&text));
                    StatementKind::Text(Str::shared(text))
                }
                TokenKind::PrintBegin => {
                    let value = self.tuple(false, false)?;
                    self.expect(&TokenKind::PrintEnd, "`}}`")?;
                    StatementKind::Print(value)
                }
                TokenKind::BlockBegin => {
                    if let Some(end) = ends.iter().find(|end| self.is_name(end)) {
                        self.skip();
                        return Ok((body, end));
                    }
                    let kind = self.nested(Self::statement)?;
                    self.expect(&TokenKind::BlockEnd, "`%}`")?;
                    kind
                }
                TokenKind::End if ends.is_empty() => return Ok((body, "")),
                TokenKind::End => {
                    return self.error(format!("expected `{{% {} %}}`, found the end", ends.join("` or `")));
                }
                _ => return self.error("unexpected tag"),
            };
            body.push(Statement { line, kind });
        }
    }

    /// Statements after the head of a statement.
    fn body_after_head(&mut self, ends: &[&'static str]) -> Result<(Body, &'static str), TemplateError> {
        self.eat_operator(":");
        self.expect(&TokenKind::BlockEnd, "`%}`")?;
        self.body(ends)
    }

    fn statement(&mut self) -> Result<StatementKind, TemplateError> {
        let line = self.line();
        let name = self.name("the name of a statement")?;
        match name {
            "if" => self.branches(),
            "for" => self.for_loop(),
            "set" => self.set(),
            "macro" => self.macro_statement(),
            "call" => self.call_block(line),
            "filter" => {
                let filters = self.filters(true)?;
                let (body, _) = self.body_after_head(&["endfilter"])?;
                Ok(StatementKind::FilterBlock(filters, body))
            }
            "with" => self.with(),
            "generation" => Ok(StatementKind::Scoped(self.body_after_head(&["endgeneration"])?.0)),
            "block" => self.block(),
            "print" => self.print(),
            "break" | "continue" if self.loops == 0 => self.error(format!("`{name}` is outside of a loop")),
            "break" => Ok(StatementKind::Break),
            "continue" => Ok(StatementKind::Continue),
            "include" => Ok(self.refused("include")),
            "import" | "from" => Ok(self.refused("import")),
            "extends" => Ok(self.refused("extends")),
            _ => self.error(format!("the statement `{name}` does not exist")),
        }
    }

    /// Expressions between commas, which are printed without a separator.
    fn print(&mut self) -> Result<StatementKind, TemplateError> {
        let mut prints = Vec::new();
        while *self.kind() != TokenKind::BlockEnd {
            if !prints.is_empty() {
                self.expect_operator(",")?;
            }
            let line = self.line();
            prints.push(Statement { line, kind: StatementKind::Print(self.expression()?) });
        }
        Ok(StatementKind::Scoped(prints))
    }

    /// A statement that needs other templates.
    fn refused(&mut self, name: &'static str) -> StatementKind {
        while !matches!(self.kind(), TokenKind::BlockEnd | TokenKind::End) {
            self.skip();
        }
        StatementKind::Refused(name)
    }

    fn branches(&mut self) -> Result<StatementKind, TemplateError> {
        let mut branches = Vec::new();
        loop {
            let condition = self.tuple(false, true)?;
            let (body, end) = self.body_after_head(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            match end {
                "elif" => {}
                "else" => {
                    let (otherwise, _) = self.body_after_head(&["endif"])?;
                    return Ok(StatementKind::If(branches, otherwise));
                }
                _ => return Ok(StatementKind::If(branches, Vec::new())),
            }
        }
    }

    fn for_loop(&mut self) -> Result<StatementKind, TemplateError> {
        let target = self.target(false)?;
        if !self.eat_name("in") {
            return self.unexpected("`in`");
        }
        let items = self.tuple(false, true)?;
        let condition = if self.eat_name("if") { Some(self.expression()?) } else { None };
        let is_recursive = self.eat_name("recursive");
        self.loops += 1;
        let (body, end) = self.body_after_head(&["else", "endfor"])?;
        self.loops -= 1;
        let otherwise = if end == "else" { self.body_after_head(&["endfor"])?.0 } else { Vec::new() };
        Ok(StatementKind::For(Arc::new(Loop { target, items, condition, is_recursive, body, otherwise })))
    }

    /// Names to which values are assigned, with attributes of namespaces if `with_attributes`.
    fn target(&mut self, with_attributes: bool) -> Result<AssignmentTarget, TemplateError> {
        let mut targets = Vec::new();
        let mut is_tuple = false;
        while !matches!(self.kind(), TokenKind::BlockEnd | TokenKind::Operator(")")) && !self.is_name("in") {
            targets.push(self.nested(|parser| parser.single_target(with_attributes))?);
            if !self.eat_operator(",") {
                break;
            }
            is_tuple = true;
        }
        match targets.pop() {
            Some(target) if !is_tuple => Ok(target),
            None => self.unexpected("a name"),
            last => {
                targets.extend(last);
                Ok(AssignmentTarget::Tuple(targets))
            }
        }
    }

    fn single_target(&mut self, with_attributes: bool) -> Result<AssignmentTarget, TemplateError> {
        if self.eat_operator("(") {
            let target = self.target(with_attributes)?;
            self.expect_operator(")")?;
            return Ok(target);
        }
        let name = self.name("a name")?;
        if CONSTANTS.contains(&name) {
            return self.error(format!("`{name}` is a constant"));
        }
        let symbol = self.symbol(name);
        if with_attributes && self.eat_operator(".") {
            return Ok(AssignmentTarget::Attribute(symbol, Arc::from(self.name("the name of an attribute")?)));
        }
        Ok(AssignmentTarget::Name(symbol))
    }

    fn set(&mut self) -> Result<StatementKind, TemplateError> {
        let target = self.target(true)?;
        if self.eat_operator("=") {
            return Ok(StatementKind::Set(target, self.tuple(false, false)?));
        }
        let filters = self.filters(false)?;
        let (body, _) = self.body_after_head(&["endset"])?;
        Ok(StatementKind::SetBlock(target, filters, body))
    }

    /// Filters between `|`; the first one stands without it if `starts_inline`.
    fn filters(&mut self, starts_inline: bool) -> Result<Vec<FilterCall>, TemplateError> {
        let mut filters = Vec::new();
        if starts_inline {
            filters.push(self.filter()?);
        }
        while self.eat_operator("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn with(&mut self) -> Result<StatementKind, TemplateError> {
        let mut values = Vec::new();
        while !matches!(self.kind(), TokenKind::BlockEnd) {
            if !values.is_empty() {
                self.expect_operator(",")?;
            }
            let target = self.target_before_assign()?;
            self.expect_operator("=")?;
            values.push((target, self.expression()?));
        }
        Ok(StatementKind::With(values, self.body_after_head(&["endwith"])?.0))
    }

    fn target_before_assign(&mut self) -> Result<AssignmentTarget, TemplateError> {
        self.nested(|parser| parser.single_target(false))
    }

    fn block(&mut self) -> Result<StatementKind, TemplateError> {
        let name = self.name("the name of a block")?;
        while matches!(self.kind(), TokenKind::Name("scoped" | "required")) {
            self.skip();
        }
        let (body, _) = self.body_after_head(&["endblock"])?;
        self.eat_name(name);
        Ok(StatementKind::Scoped(body))
    }

    fn macro_statement(&mut self) -> Result<StatementKind, TemplateError> {
        let name = self.name("the name of a macro")?;
        if CONSTANTS.contains(&name) {
            return self.error(format!("`{name}` is a constant"));
        }
        let symbol = self.symbol(name);
        let mut parsed = self.callable(name, "endmacro", |_| Ok(()))?.0;
        parsed.symbol = Some(symbol);
        Ok(StatementKind::Macro(Arc::new(parsed)))
    }

    fn call_block(&mut self, line: u32) -> Result<StatementKind, TemplateError> {
        let (body, call) = self.callable("caller", "endcall", |parser| {
            let call = parser.expression()?;
            match call.kind {
                ExprKind::Call(..) => Ok(call),
                _ => Err(TemplateError::Syntax { line, reason: "`call` needs a call".to_owned() }),
            }
        })?;
        Ok(StatementKind::CallBlock(Arc::new(body), call))
    }

    /// Parameters, what `rest` parses in the head, and the body of a macro or of the body of a call.
    fn callable<T>(
        &mut self,
        name: &str,
        end: &'static str,
        rest: impl FnOnce(&mut Self) -> Result<T, TemplateError>,
    ) -> Result<(Macro, T), TemplateError> {
        let parameters = match self.is_operator("(") || end == "endmacro" {
            true => self.parameters()?,
            false => Vec::new(),
        };
        let rest = rest(self)?;
        let outer = (std::mem::take(&mut self.extra), std::mem::take(&mut self.loops));
        let (body, _) = self.body_after_head(&[end])?;
        let extra = self.extra;
        let (outer_extra, loops) = outer;
        // A macro uses what macros inside of it use.
        self.extra = Extra {
            caller: outer_extra.caller || extra.caller,
            varargs: outer_extra.varargs || extra.varargs,
            kwargs: outer_extra.kwargs || extra.kwargs,
        };
        self.loops = loops;
        Ok((Macro { name: Arc::from(name), symbol: None, parameters, body, extra }, rest))
    }

    fn parameters(&mut self) -> Result<Vec<Parameter>, TemplateError> {
        self.expect_operator("(")?;
        let mut parameters: Vec<Parameter> = Vec::new();
        while !self.is_operator(")") {
            let name = self.name("the name of a parameter")?;
            let symbol = self.symbol(name);
            let default = if self.eat_operator("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.last().is_some_and(|last| last.default.is_some()) {
                return self.error(format!("parameter `{name}` needs a default, as those before it"));
            }
            if parameters.iter().any(|known| known.symbol == symbol) {
                return self.error(format!("parameter `{name}` occurs twice"));
            }
            parameters.push(Parameter { name: Arc::from(name), symbol, default });
            if !self.eat_operator(",") {
                break;
            }
        }
        self.expect_operator(")")?;
        Ok(parameters)
    }
}
