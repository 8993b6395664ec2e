//! Evaluation of expressions.

use std::rc::Rc;

use super::Rendering;
use super::scope::VariableScope;
use crate::builtin::{attribute, item, slice};
use crate::error::{Fault, fail};
use crate::parse::{Constant, Expr, ExprKind, TestCall};
use crate::text::Builder;
use crate::value::{Dict, Val, negate, print};

impl Rendering<'_> {
    /// The value of an expression.
    pub(super) fn evaluate(&self, expr: &Expr, scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        match &expr.kind {
            ExprKind::Constant(value) => Ok(constant(value)),
            ExprKind::Name(symbol) => Ok(self.variable(*symbol, scope)),
            _ => {
                self.cx.enter()?;
                let value = self.compound(expr, scope)?;
                self.cx.leave();
                Ok(value)
            }
        }
    }

    /// The value of an expression with parts.
    fn compound(&self, expr: &Expr, scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        let value = match &expr.kind {
            ExprKind::Constant(_) | ExprKind::Name(_) => return self.evaluate(expr, scope),
            ExprKind::Attribute(value, name) => attribute(self.cx, &self.evaluate(value, scope)?, name),
            ExprKind::Item(value, key) => item(self.cx, &self.evaluate(value, scope)?, &self.evaluate(key, scope)?),
            ExprKind::Compare(left, others) => return self.compare(expr.line, left, others, scope),
            ExprKind::Call(function, arguments) => return self.call(expr.line, function, arguments, scope),
            ExprKind::Filter(value, call) => {
                let value = self.evaluate(value, scope)?;
                return self.filter(&value, call, scope);
            }
            ExprKind::Test(value, call) => return self.test(expr.line, value, call, scope),
            ExprKind::And(left, right) => {
                let left = self.evaluate(left, scope)?;
                return if left.is_true() { self.evaluate(right, scope) } else { Ok(left) };
            }
            ExprKind::Or(left, right) => {
                let left = self.evaluate(left, scope)?;
                return if left.is_true() { Ok(left) } else { self.evaluate(right, scope) };
            }
            ExprKind::Not(part) => Ok(Val::Bool(!self.evaluate(part, scope)?.is_true())),
            ExprKind::Arithmetic(operator, left, right) => {
                return self.arithmetic(expr.line, operator, left, right, scope);
            }
            ExprKind::Concat(parts) => return self.concat(parts, scope),
            ExprKind::Conditional(condition, value, other) => {
                let holds = self.evaluate(condition, scope)?.is_true();
                return match other {
                    _ if holds => self.evaluate(value, scope),
                    Some(other) => self.evaluate(other, scope),
                    None => Ok(Val::Undefined(None)),
                };
            }
            ExprKind::Slice(value, bounds) => return self.slice(expr.line, value, bounds, scope),
            ExprKind::List(items) => Val::list(self.cx, self.all(items, scope)?),
            ExprKind::Tuple(items) => Val::tuple(self.cx, self.all(items, scope)?),
            ExprKind::Dict(entries) => return self.dict(entries, scope),
            ExprKind::Negative(part) => negative(&self.evaluate(part, scope)?),
            ExprKind::Positive(part) => positive(&self.evaluate(part, scope)?),
        };
        value.map_err(|fault| self.at(expr.line, fault))
    }

    /// Notes the line of a fault.
    pub(super) fn at(&self, line: u32, fault: Fault) -> Fault {
        self.cx.set_line(line);
        fault
    }

    pub(super) fn all(&self, items: &[Expr], scope: &Rc<VariableScope>) -> Result<Vec<Val>, Fault> {
        items.iter().map(|item| self.evaluate(item, scope)).collect()
    }

    fn dict(&self, entries: &[(Expr, Expr)], scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        let mut values = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            values.push((self.evaluate(key, scope)?, self.evaluate(value, scope)?));
        }
        Dict::make(self.cx, values)
    }

    fn concat(&self, parts: &[Expr], scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        let mut text = Builder::default();
        for part in parts {
            text.add_str(&print(self.cx, &self.evaluate(part, scope)?)?);
            self.cx.write_part(text.len())?;
        }
        Val::text(self.cx, text.finish())
    }

    fn slice(
        &self,
        line: u32,
        value: &Expr,
        bounds: &[Option<Expr>; 3],
        scope: &Rc<VariableScope>,
    ) -> Result<Val, Fault> {
        let value = self.evaluate(value, scope)?;
        let mut values = [None, None, None];
        for (value, bound) in values.iter_mut().zip(bounds) {
            *value = bound.as_ref().map(|bound| self.evaluate(bound, scope)).transpose()?;
        }
        slice(self.cx, &value, &values).map_err(|fault| self.at(line, fault))
    }

    fn test(&self, line: u32, value: &Expr, call: &TestCall, scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        let value = self.evaluate(value, scope)?;
        let Some(test) = call.test else {
            return Err(self.at(line, Fault::Failed(format!("the test `{}` does not exist", call.name))));
        };
        let args = self.arguments(&call.arguments, scope)?;
        let holds = test(self.cx, &value, args).map_err(|fault| self.at(line, fault))?;
        Ok(Val::Bool(holds != call.is_negated))
    }
}

fn constant(constant: &Constant) -> Val {
    match constant {
        Constant::None => Val::None,
        Constant::Bool(value) => Val::Bool(*value),
        Constant::Int(number) => Val::Int(*number),
        Constant::Float(number) => Val::Float(*number),
        Constant::Str(text) => Val::Str(text.clone()),
    }
}

fn negative(value: &Val) -> Result<Val, Fault> {
    value.check_defined()?;
    negate(value)
}

fn positive(value: &Val) -> Result<Val, Fault> {
    value.check_defined()?;
    match value {
        Val::Int(_) | Val::Float(_) => Ok(value.clone()),
        Val::Bool(value) => Ok(Val::Int(i128::from(*value))),
        other => fail(format!("a value of type `{}` has no sign", other.type_name())),
    }
}
