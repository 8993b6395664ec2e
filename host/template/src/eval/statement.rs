//! Execution of statements.

use std::rc::Rc;

use super::macros::MacroValue;
use super::scope::VariableScope;
use super::{Output, Rendering};
use crate::error::{Fault, fail};
use crate::parse::{AssignmentTarget, Expr, ExprKind, FilterCall, Statement, StatementKind};
use crate::text::Str;
use crate::value::{NamespaceObject, Val, items_of, print};

/// How execution goes on after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

impl Rendering<'_> {
    /// Executes statements up to a `break` or `continue`.
    pub(super) fn execute(
        &self,
        body: &[Statement],
        scope: &Rc<VariableScope>,
        output: &mut Output,
    ) -> Result<Flow, Fault> {
        self.cx.enter()?;
        for statement in body {
            let flow = self.statement(statement, scope, output)?;
            if flow != Flow::Next {
                self.cx.leave();
                return Ok(flow);
            }
        }
        self.cx.leave();
        Ok(Flow::Next)
    }

    fn statement(&self, statement: &Statement, scope: &Rc<VariableScope>, output: &mut Output) -> Result<Flow, Fault> {
        self.cx.set_line(statement.line);
        match &statement.kind {
            StatementKind::Text(text) => output.write(self.cx, text)?,
            StatementKind::Print(value) => {
                let value = self.evaluate(value, scope)?;
                output.write(self.cx, &print(self.cx, &value)?)?;
            }
            StatementKind::If(branches, otherwise) => return self.branch(branches, otherwise, scope, output),
            StatementKind::For(parsed) => self.for_loop(parsed, scope, output)?,
            StatementKind::Set(target, value) => {
                let value = self.evaluate(value, scope)?;
                self.assign(target, value, scope)?;
            }
            StatementKind::SetBlock(target, filters, body) => {
                let value = self.filtered_body(filters, body, scope)?;
                self.assign(target, value, scope)?;
            }
            StatementKind::Macro(parsed) => {
                let value = MacroValue::make(self.cx, parsed, scope)?;
                if let Some(symbol) = parsed.symbol {
                    scope.set(symbol, value);
                }
            }
            StatementKind::CallBlock(body, call) => {
                let ExprKind::Call(function, arguments) = &call.kind else { return Ok(Flow::Next) };
                let caller = MacroValue::make(self.cx, body, scope)?;
                let value = self.call_with(call.line, function, arguments, Some(caller), scope)?;
                output.write(self.cx, &print(self.cx, &value)?)?;
            }
            StatementKind::FilterBlock(filters, body) => {
                let value = self.filtered_body(filters, body, scope)?;
                output.write(self.cx, &print(self.cx, &value)?)?;
            }
            StatementKind::With(values, body) => return self.with(values, body, scope, output),
            StatementKind::Scoped(body) => return self.execute(body, &VariableScope::inside(scope), output),
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::Refused(name) => {
                return fail(format!("`{name}` needs other templates, which a chat template does not have"));
            }
        }
        Ok(Flow::Next)
    }

    fn branch(
        &self,
        branches: &[(Expr, Vec<Statement>)],
        otherwise: &[Statement],
        scope: &Rc<VariableScope>,
        output: &mut Output,
    ) -> Result<Flow, Fault> {
        for (condition, body) in branches {
            if self.evaluate(condition, scope)?.is_true() {
                return self.execute(body, scope, output);
            }
        }
        self.execute(otherwise, scope, output)
    }

    fn with(
        &self,
        values: &[(AssignmentTarget, Expr)],
        body: &[Statement],
        scope: &Rc<VariableScope>,
        output: &mut Output,
    ) -> Result<Flow, Fault> {
        let inner = VariableScope::inside(scope);
        for (target, value) in values {
            self.assign(target, self.evaluate(value, scope)?, &inner)?;
        }
        self.execute(body, &inner, output)
    }

    /// The text that statements write, through filters.
    fn filtered_body(
        &self,
        filters: &[FilterCall],
        body: &[Statement],
        scope: &Rc<VariableScope>,
    ) -> Result<Val, Fault> {
        let mut output = Output::inner();
        let inner = VariableScope::inside(scope);
        self.execute(body, &inner, &mut output)?;
        let text: Str = output.finish(self.cx)?;
        filters.iter().try_fold(Val::Str(text), |value, filter| self.filter(&value, filter, scope))
    }

    /// Assigns a value to names or to an attribute of a namespace.
    pub(super) fn assign(&self, target: &AssignmentTarget, value: Val, scope: &Rc<VariableScope>) -> Result<(), Fault> {
        match target {
            AssignmentTarget::Name(symbol) => {
                scope.set(*symbol, value);
                Ok(())
            }
            AssignmentTarget::Attribute(symbol, name) => {
                let owner = self.variable(*symbol, scope);
                match owner.as_object::<NamespaceObject>() {
                    Some(namespace) => namespace.set(self.cx, name, value),
                    None => fail(format!("attribute `{name}` cannot be set, since its owner is not a namespace")),
                }
            }
            AssignmentTarget::Tuple(targets) => {
                let items = items_of(self.cx, &value)?;
                if items.items.len() != targets.len() {
                    return fail(format!("{} values cannot be assigned to {} names", items.items.len(), targets.len()));
                }
                for (target, item) in targets.iter().zip(&items.items) {
                    self.assign(target, item.clone(), scope)?;
                }
                Ok(())
            }
        }
    }
}
