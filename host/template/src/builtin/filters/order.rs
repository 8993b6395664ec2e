//! The order of items.

use std::cmp::Ordering;

use crate::builtin::methods;
use crate::context::Context;
use crate::error::Fault;
use crate::value::{Val, compare, sorted};

/// The value by which an item is compared: strings without case, if `is_folded`.
pub(super) fn folded(cx: &Context, value: &Val, is_folded: bool) -> Result<Val, Fault> {
    match value {
        Val::Str(text) if is_folded => methods::lower(cx, text),
        other => Ok(other.clone()),
    }
}

/// Values in the order of their ranks. Equal ones stay in their order.
pub(super) fn ordered(cx: &Context, ranked: Vec<(Val, Val)>, is_reversed: bool) -> Result<Vec<Val>, Fault> {
    let order = |left: &(Val, Val), right: &(Val, Val)| {
        let order = compare(cx, &left.0, &right.0)?;
        Ok::<Ordering, Fault>(if is_reversed { order.reverse() } else { order })
    };
    Ok(sorted(ranked, order)?.into_iter().map(|(_, value)| value).collect())
}
