//! Filters on the order and grouping of items.

use std::cmp::Ordering;

use crate::builtin::methods;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Val, compare, items_of, sorted};

pub(super) fn list(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("list", [], 0)?;
    Val::list(cx, items_of(cx, value)?.items.clone())
}

pub(super) fn first(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("first", [], 0)?;
    if let Val::Iter(iter) = value {
        return Ok(iter.next().unwrap_or(Val::Undefined(None)));
    }
    Ok(items_of(cx, value)?.items.first().cloned().unwrap_or(Val::Undefined(None)))
}

pub(super) fn last(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("last", [], 0)?;
    if let Val::Iter(_) = value {
        return fail("an iterator has no last item");
    }
    Ok(items_of(cx, value)?.items.last().cloned().unwrap_or(Val::Undefined(None)))
}

pub(super) fn reverse(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("reverse", [], 0)?;
    if let Val::Str(_) = value {
        return crate::builtin::slice(cx, value, &[None, None, Some(Val::Int(-1))]);
    }
    let mut items = items_of(cx, value)?.items.clone();
    items.reverse();
    match value {
        Val::Iter(_) => Val::list(cx, items),
        _ => Val::iter(cx, items),
    }
}

/// Pairs of keys and values.
pub(super) fn items(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("items", [], 0)?;
    let mut pairs = Vec::new();
    match value {
        Val::Undefined(_) => {}
        Val::Dict(dict) => {
            for (key, value) in dict.entries() {
                pairs.push(Val::tuple(cx, vec![key.clone(), value.clone()])?);
            }
        }
        other => return fail(format!("`items` needs a dictionary, not a value of type `{}`", other.type_name())),
    }
    Val::iter(cx, pairs)
}

/// Lists of some items each.
pub(super) fn batch(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [count, fill] = args.bind("batch", ["linecount", "fill_with"], 1)?;
    let count = usize::try_from(count.need_int("the size of a batch")?.max(1)).unwrap_or(usize::MAX);
    let items = items_of(cx, value)?;
    let mut batches = Vec::new();
    for batch in items.items.chunks(count) {
        let mut batch = batch.to_vec();
        if let Some(fill) = fill.present() {
            cx.hold((count - batch.len()).saturating_mul(size_of::<Val>()))?;
            batch.resize(count, fill.clone());
        }
        batches.push(Val::list(cx, batch)?);
    }
    Val::iter(cx, batches)
}

/// Lists of about equal length.
pub(super) fn slice(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [count, fill] = args.bind("slice", ["slices", "fill_with"], 1)?;
    let items = items_of(cx, value)?;
    let count = usize::try_from(count.need_int("the number of slices")?).unwrap_or(0);
    if count == 0 {
        return fail("the number of slices must be positive");
    }
    cx.hold(count.saturating_mul(size_of::<Val>()))?;
    let (size, longer) = (items.items.len() / count, items.items.len() % count);
    let mut at = 0;
    let mut slices = Vec::new();
    for place in 0..count {
        let end = at + size + usize::from(place < longer);
        let mut part = items.items.get(at..end).unwrap_or_default().to_vec();
        if let Some(fill) = fill.present().filter(|_| place >= longer) {
            part.push(fill.clone());
        }
        slices.push(Val::list(cx, part)?);
        at = end;
    }
    Val::iter(cx, slices)
}

/// Pairs of keys and values, sorted.
pub(super) fn dictsort(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [is_case_sensitive, by, is_reversed] = args.bind("dictsort", ["case_sensitive", "by", "reverse"], 0)?;
    let by_value = match by.given().map(|by| by.need_str("`by`")).transpose()?.map_or("key", crate::text::Str::as_str) {
        "key" => false,
        "value" => true,
        _ => return fail("`by` must be `key` or `value`"),
    };
    let Val::Dict(dict) = value else { return fail("`dictsort` needs a dictionary") };
    let is_folded = !is_case_sensitive.is_true();
    let mut pairs = Vec::new();
    for (key, value) in dict.entries() {
        let rank = folded(cx, if by_value { value } else { key }, is_folded)?;
        pairs.push((rank, Val::tuple(cx, vec![key.clone(), value.clone()])?));
    }
    let pairs = ordered(cx, pairs, is_reversed.is_true())?;
    Val::list(cx, pairs)
}

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
