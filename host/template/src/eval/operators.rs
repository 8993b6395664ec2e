//! Evaluation of operators with two operands.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Rendering;
use super::scope::VariableScope;
use crate::builtin::{escaped, percent};
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::parse::{Comparison, Expr};
use crate::text::{Builder, Str};
use crate::value::{Val, arithmetic, compare, contains, equal};

impl Rendering<'_> {
    /// The value of a chain of comparisons.
    pub(super) fn compare(
        &self,
        line: u32,
        left: &Expr,
        others: &[(Comparison, Expr)],
        scope: &Rc<VariableScope>,
    ) -> Result<Val, Fault> {
        let mut left = self.evaluate(left, scope)?;
        for (comparison, right) in others {
            let right = self.evaluate(right, scope)?;
            let holds = holds(self.cx, *comparison, &left, &right).map_err(|fault| self.at(line, fault))?;
            if !holds {
                return Ok(Val::Bool(false));
            }
            left = right;
        }
        Ok(Val::Bool(true))
    }

    /// The value of an arithmetic operation, also on strings and lists.
    pub(super) fn arithmetic(
        &self,
        line: u32,
        operator: &str,
        left: &Expr,
        right: &Expr,
        scope: &Rc<VariableScope>,
    ) -> Result<Val, Fault> {
        let left = self.evaluate(left, scope)?;
        let right = self.evaluate(right, scope)?;
        operate(self.cx, operator, &left, &right).map_err(|fault| self.at(line, fault))
    }
}

fn holds(cx: &Context, comparison: Comparison, left: &Val, right: &Val) -> Result<bool, Fault> {
    let is = |holds: fn(Ordering) -> bool| compare(cx, left, right).map(holds);
    match comparison {
        Comparison::Equal => equal(cx, left, right),
        Comparison::Unequal => equal(cx, left, right).map(|is_equal| !is_equal),
        Comparison::Less => is(Ordering::is_lt),
        Comparison::LessOrEqual => is(Ordering::is_le),
        Comparison::Greater => is(Ordering::is_gt),
        Comparison::GreaterOrEqual => is(Ordering::is_ge),
        Comparison::In => contains(cx, right, left),
        Comparison::NotIn => contains(cx, right, left).map(|is_in| !is_in),
    }
}

fn operate(cx: &Context, operator: &str, left: &Val, right: &Val) -> Result<Val, Fault> {
    left.check_defined()?;
    match (operator, left, right) {
        ("%", Val::Str(format), values) => return percent(cx, format, values),
        ("+", Val::Str(left), Val::Str(right)) => return joined(cx, left, right),
        ("+", Val::List(left), Val::List(right)) => {
            return Val::list(cx, left.items.iter().chain(&right.items).cloned().collect());
        }
        ("+", Val::Tuple(left), Val::Tuple(right)) => {
            return Val::tuple(cx, left.items.iter().chain(&right.items).cloned().collect());
        }
        ("*", Val::Str(_) | Val::List(_) | Val::Tuple(_), times) if times.as_int().is_some() => {
            return repeated(cx, left, times.as_int().unwrap_or(0));
        }
        ("*", times, Val::Str(_) | Val::List(_) | Val::Tuple(_)) if times.as_int().is_some() => {
            return repeated(cx, right, times.as_int().unwrap_or(0));
        }
        _ => {}
    }
    right.check_defined()?;
    match arithmetic(operator, left, right) {
        Some(result) => result,
        None => {
            let (left, right) = (left.type_name(), right.type_name());
            fail(format!("`{operator}` does not apply to values of types `{left}` and `{right}`"))
        }
    }
}

fn joined(cx: &Context, left: &Str, right: &Str) -> Result<Val, Fault> {
    cx.hold(left.len().saturating_add(right.len()))?;
    if left.is_markup() || right.is_markup() {
        let mut text = Builder::default();
        text.add_str(&escaped(cx, left)?);
        text.add_str(&escaped(cx, right)?);
        return Ok(Val::Str(text.finish().with_markup(true)));
    }
    let mut text = Builder::default();
    text.add_str(left);
    text.add_str(right);
    Ok(Val::Str(text.finish()))
}

fn repeated(cx: &Context, value: &Val, times: i128) -> Result<Val, Fault> {
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    match value {
        Val::Str(text) => {
            cx.hold(text.len().saturating_mul(times))?;
            let times = if text.is_empty() { 0 } else { times };
            Ok(Val::Str(text.repeated(times).with_markup(text.is_markup())))
        }
        Val::List(seq) | Val::Tuple(seq) => {
            cx.hold(seq.items.len().saturating_mul(times).saturating_mul(size_of::<Val>()))?;
            let times = if seq.items.is_empty() { 0 } else { times };
            let mut items = Vec::new();
            for _ in 0..times {
                items.extend_from_slice(&seq.items);
            }
            if let Val::List(_) = value { Val::list(cx, items) } else { Val::tuple(cx, items) }
        }
        other => fail(format!("a value of type `{}` cannot be repeated", other.type_name())),
    }
}
