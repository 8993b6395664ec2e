//! Items and lengths of values.

use std::cell::Cell;
use std::rc::Rc;

use super::{Dict, Seq, Val, ViewKind};
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::Str;

/// An iterator, which can be read once.
pub(crate) struct Iter {
    seq: Rc<Seq>,
    at: Cell<usize>,
}

impl Iter {
    pub(super) fn new(seq: Seq) -> Self {
        Self { seq: Rc::new(seq), at: Cell::new(0) }
    }

    pub(super) fn depth(&self) -> u16 {
        self.seq.depth
    }

    /// The next item.
    pub(crate) fn next(&self) -> Option<Val> {
        let at = self.at.get();
        self.at.set(at.saturating_add(1).min(self.seq.items.len()));
        self.seq.items.get(at).cloned()
    }

    fn rest(&self) -> Rc<Seq> {
        let at = self.at.replace(self.seq.items.len());
        if at == 0 {
            return Rc::clone(&self.seq);
        }
        Rc::new(Seq::new(self.seq.items.get(at..).unwrap_or_default().to_vec()))
    }
}

/// All items of a value, as a loop sees them.
pub(crate) fn items_of(cx: &Context, value: &Val) -> Result<Rc<Seq>, Fault> {
    let items = match value {
        Val::List(seq) | Val::Tuple(seq) => return Ok(Rc::clone(seq)),
        Val::Iter(iter) => return Ok(iter.rest()),
        Val::Undefined(_) => Vec::new(),
        Val::Str(text) => letters_of(cx, text)?,
        Val::Dict(dict) => view_items(cx, dict, ViewKind::Keys)?,
        Val::View(dict, kind) => view_items(cx, dict, *kind)?,
        Val::Range(range) => {
            cx.hold(range.len.saturating_mul(size_of::<Val>()))?;
            range.iter().map(Val::Int).collect()
        }
        other => return fail(format!("a value of type `{}` cannot be iterated", other.type_name())),
    };
    Ok(Rc::new(Seq::new(items)))
}

fn letters_of(cx: &Context, text: &Str) -> Result<Vec<Val>, Fault> {
    cx.inspect(text);
    cx.hold(text.len().saturating_mul(size_of::<Val>() + 32))?;
    let starts = text.as_str().char_indices();
    Ok(starts.map(|(at, letter)| Val::Str(text.part(at, at + letter.len_utf8()))).collect())
}

fn view_items(cx: &Context, dict: &Dict, kind: ViewKind) -> Result<Vec<Val>, Fault> {
    cx.hold(dict.len() * size_of::<Val>())?;
    let entries = dict.entries().iter();
    Ok(match kind {
        ViewKind::Keys => entries.map(|(key, _)| key.clone()).collect(),
        ViewKind::Values => entries.map(|(_, value)| value.clone()).collect(),
        ViewKind::Items => {
            entries.map(|(key, value)| Val::tuple(cx, vec![key.clone(), value.clone()])).collect::<Result<_, _>>()?
        }
    })
}

/// Number of items or characters.
pub(crate) fn length_of(cx: &Context, value: &Val) -> Result<usize, Fault> {
    Ok(match value {
        Val::Str(text) => {
            cx.inspect(text);
            cx.work(text.len())?;
            text.count()
        }
        Val::List(seq) | Val::Tuple(seq) => seq.items.len(),
        Val::Dict(dict) | Val::View(dict, _) => dict.len(),
        Val::Range(range) => range.len,
        Val::Undefined(_) => 0,
        Val::Object(object) if object.len().is_some() => object.len().unwrap_or_default(),
        other => return fail(format!("a value of type `{}` has no length", other.type_name())),
    })
}
