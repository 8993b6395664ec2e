//! Comparisons of values.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{RangeObject, Val, items_of, number_of};
use crate::context::Context;
use crate::error::{Fault, fail};

/// Whether two values are equal. The contents of compared strings are inspected.
pub(crate) fn equal(cx: &Context, left: &Val, right: &Val) -> Result<bool, Fault> {
    cx.steps(1)?;
    Ok(match (left, right) {
        (Val::Str(left), Val::Str(right)) => {
            cx.inspect(left);
            cx.inspect(right);
            cx.work(left.len().min(right.len()))?;
            left.as_str() == right.as_str()
        }
        (Val::Undefined(_), Val::Undefined(_)) | (Val::None, Val::None) => true,
        (Val::List(left), Val::List(right)) | (Val::Tuple(left), Val::Tuple(right)) => {
            if left.items.len() != right.items.len() {
                return Ok(false);
            }
            for (left, right) in left.items.iter().zip(&right.items) {
                if !equal(cx, left, right)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Dict(left), Val::Dict(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (key, value) in left.entries() {
                let Some(other) = right.get(cx, key)? else { return Ok(false) };
                if !equal(cx, value, other)? {
                    return Ok(false);
                }
            }
            true
        }
        (Val::Range(left), Val::Range(right)) => same_range(*left, *right),
        (Val::Object(left), Val::Object(right)) => Rc::ptr_eq(left, right),
        (Val::Iter(left), Val::Iter(right)) => Rc::ptr_eq(left, right),
        (Val::Function(left, _), Val::Function(right, _)) => left == right,
        _ => match (left.as_int(), right.as_int()) {
            (Some(left), Some(right)) => left == right,
            _ => matches!((number_of(left), number_of(right)), (Some(left), Some(right)) if left == right),
        },
    })
}

fn same_range(left: RangeObject, right: RangeObject) -> bool {
    left.len == right.len && (left.len == 0 || left.start == right.start) && (left.len < 2 || left.step == right.step)
}

/// The order of two values, as `<` and sorting need it.
pub(crate) fn compare(cx: &Context, left: &Val, right: &Val) -> Result<Ordering, Fault> {
    cx.steps(1)?;
    match (left, right) {
        (Val::Str(left), Val::Str(right)) => {
            cx.inspect(left);
            cx.inspect(right);
            cx.work(left.len().min(right.len()))?;
            return Ok(left.as_str().cmp(right.as_str()));
        }
        (Val::List(left), Val::List(right)) | (Val::Tuple(left), Val::Tuple(right)) => {
            for (left, right) in left.items.iter().zip(&right.items) {
                if !equal(cx, left, right)? {
                    return compare(cx, left, right);
                }
            }
            return Ok(left.items.len().cmp(&right.items.len()));
        }
        _ => {}
    }
    left.check_defined()?;
    right.check_defined()?;
    let order = match (left.as_int(), right.as_int()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => match (number_of(left), number_of(right)) {
            (Some(left), Some(right)) => Some(left.partial_cmp(&right).unwrap_or(Ordering::Equal)),
            _ => None,
        },
    };
    match order {
        Some(order) => Ok(order),
        None => fail(format!("values of types `{}` and `{}` have no order", left.type_name(), right.type_name())),
    }
}

/// Whether `item in container`.
pub(crate) fn contains(cx: &Context, container: &Val, item: &Val) -> Result<bool, Fault> {
    match container {
        Val::Str(text) => {
            let Val::Str(part) = item else {
                item.check_defined()?;
                return fail(format!("a string cannot contain a value of type `{}`", item.type_name()));
            };
            cx.inspect(text);
            cx.inspect(part);
            cx.work(text.len())?;
            Ok(text.as_str().contains(part.as_str()))
        }
        Val::Dict(dict) => Ok(dict.get(cx, item)?.is_some()),
        Val::Object(_) | Val::None | Val::Bool(_) | Val::Int(_) | Val::Float(_) | Val::Function(..) => {
            fail(format!("a value of type `{}` is not a container", container.type_name()))
        }
        _ => {
            for known in &items_of(cx, container)?.items {
                if equal(cx, known, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// The items in order; equal ones stay in theirs. The order may fail or be inconsistent, as that of `nan`.
pub(crate) fn sorted<T>(
    items: Vec<T>,
    mut compare: impl FnMut(&T, &T) -> Result<Ordering, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut parts: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while parts.len() > 1 {
        let mut merged = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(left) = rest.next() {
            merged.push(match rest.next() {
                Some(right) => merge(left, right, &mut compare)?,
                None => left,
            });
        }
        parts = merged;
    }
    Ok(parts.pop().unwrap_or_default())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let takes_right = compare(first, second)? == Ordering::Greater;
        merged.extend(if takes_right { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}
