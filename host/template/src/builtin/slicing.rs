//! Slices of strings and lists.

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Str};
use crate::value::{Val, items_of};

/// The value of `value[start:stop:step]`.
pub(crate) fn slice(cx: &Context, value: &Val, bounds: &[Option<Val>; 3]) -> Result<Val, Fault> {
    let mut numbers = [None; 3];
    for (number, bound) in numbers.iter_mut().zip(bounds) {
        *number = match bound {
            None | Some(Val::None) => None,
            Some(bound) => Some(bound.need_int("a bound of a slice")?),
        };
    }
    match value {
        Val::Str(text) => {
            cx.inspect(text);
            cx.work(text.len())?;
            let indices = indices(text.count(), numbers)?;
            Val::text(cx, slice_text(text, &indices))
        }
        Val::List(seq) => Val::list(cx, picked(&seq.items, &indices(seq.items.len(), numbers)?)),
        Val::Tuple(seq) => Val::tuple(cx, picked(&seq.items, &indices(seq.items.len(), numbers)?)),
        Val::Range(range) => {
            let items = items_of(cx, value)?;
            Val::list(cx, picked(&items.items, &indices(range.len, numbers)?))
        }
        other => {
            other.check_defined()?;
            fail(format!("a value of type `{}` has no slices", other.type_name()))
        }
    }
}

/// Indices of a slice: the first one, their number and the step.
struct Indices {
    first: i128,
    step: i128,
    count: usize,
}

impl Indices {
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let at = |place: usize| usize::try_from(self.first + self.step * place as i128).unwrap_or(usize::MAX);
        (0..self.count).map(at)
    }
}

fn indices(len: usize, [start, stop, step]: [Option<i128>; 3]) -> Result<Indices, Fault> {
    let len = len as i128;
    let step = step.unwrap_or(1).clamp(-(1 << 64), 1 << 64);
    if step == 0 {
        return fail("the step of a slice is 0");
    }
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |bound: Option<i128>, default: i128| match bound {
        None => default,
        Some(bound) if bound < 0 => bound.saturating_add(len).max(low),
        Some(bound) => bound.min(high),
    };
    let first = bound(start, if step > 0 { low } else { high });
    let stop = bound(stop, if step > 0 { high } else { low });
    let distance = if step > 0 { stop - first } else { first - stop };
    let count = if distance > 0 { (distance - 1) / step.abs() + 1 } else { 0 };
    Ok(Indices { first, step, count: usize::try_from(count).unwrap_or(0) })
}

fn picked(items: &[Val], indices: &Indices) -> Vec<Val> {
    indices.iter().filter_map(|at| items.get(at).cloned()).collect()
}

fn slice_text(text: &Str, indices: &Indices) -> Str {
    let source = text.as_str();
    if indices.step == 1 {
        let first = usize::try_from(indices.first).unwrap_or(0);
        let byte = |at: usize| {
            if source.is_ascii() { at } else { source.char_indices().nth(at).map_or(source.len(), |(byte, _)| byte) }
        };
        return text.part(byte(first), byte(first + indices.count));
    }
    let letters: Vec<_> = text.letters().collect();
    let mut picked = Builder::default();
    for (letter, mark) in indices.iter().filter_map(|at| letters.get(at)) {
        picked.letter(*letter, mark.derived());
    }
    picked.finish()
}
