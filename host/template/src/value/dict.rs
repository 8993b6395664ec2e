//! Dictionaries: entries in their order of insertion.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::{Val, check_depth};
use crate::context::Context;
use crate::error::{Fault, fail};

/// Entries up to which a search compares one by one.
const SMALL: usize = 8;

/// An immutable dictionary.
pub(crate) struct Dict {
    entries: Vec<(Val, Val)>,
    depth: u16,
    index: OnceCell<HashMap<Key, usize>>,
    /// Whether a key from outside may be inspected by a search.
    has_outside_keys: Cell<bool>,
}

/// Content of a key, equal for keys that are equal in Python.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    None,
    Int(i128),
    Float(u64),
    Str(Arc<str>),
    Tuple(Vec<Self>),
    Other(usize),
}

/// A view of a dictionary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewKind {
    Keys,
    Values,
    Items,
}

impl ViewKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keys => "dict_keys",
            Self::Values => "dict_values",
            Self::Items => "dict_items",
        }
    }
}

impl Dict {
    /// A dictionary of entries with different keys.
    pub(super) fn of_unique(entries: Vec<(Val, Val)>) -> Self {
        let depths = entries.iter().map(|(key, value)| key.depth().max(value.depth()));
        let depth = depths.max().unwrap_or(0).saturating_add(1);
        let has_outside_keys = Cell::new(entries.iter().any(|(key, _)| is_outside(key)));
        Self { entries, depth, index: OnceCell::new(), has_outside_keys }
    }

    /// A dictionary of entries, of which later ones replace the values of earlier ones with the same key.
    pub(crate) fn make(cx: &Context, entries: Vec<(Val, Val)>) -> Result<Val, Fault> {
        cx.hold((1 + entries.len()) * 2 * size_of::<Val>())?;
        let mut unique: Vec<(Val, Val)> = Vec::with_capacity(entries.len());
        let mut places: HashMap<Key, usize> = HashMap::with_capacity(entries.len());
        let many = entries.len() > 1;
        for (key, value) in entries {
            if many {
                inspect_key(cx, &key);
            }
            let place = *places.entry(content(&key)?).or_insert(unique.len());
            match unique.get_mut(place) {
                Some(entry) => entry.1 = value,
                None => unique.push((key, value)),
            }
        }
        let dict = Self::of_unique(unique);
        check_depth(dict.depth)?;
        Ok(Val::Dict(Rc::new(dict)))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    pub(crate) fn entries(&self) -> &[(Val, Val)] {
        &self.entries
    }

    /// The value of a key of the template.
    pub(crate) fn get_own(&self, cx: &Context, key: &str) -> Option<&Val> {
        self.inspect_keys(cx);
        if self.entries.len() <= SMALL {
            return self.entries.iter().find(|(known, _)| is_text(known, key)).map(|(_, value)| value);
        }
        let place = *self.index().get(&Key::Str(Arc::from(key)))?;
        self.entries.get(place).map(|(_, value)| value)
    }

    /// The value of a key.
    pub(crate) fn get(&self, cx: &Context, key: &Val) -> Result<Option<&Val>, Fault> {
        if let Val::Str(text) = key {
            cx.inspect(text);
            return Ok(self.get_own(cx, text.as_str()));
        }
        let wanted = content(key)?;
        inspect_key(cx, key);
        self.inspect_keys(cx);
        Ok(self.index().get(&wanted).and_then(|place| self.entries.get(*place)).map(|(_, value)| value))
    }

    /// The keys are compared with another one.
    fn inspect_keys(&self, cx: &Context) {
        if self.has_outside_keys.replace(false) {
            self.entries.iter().for_each(|(key, _)| inspect_key(cx, key));
        }
    }

    fn index(&self) -> &HashMap<Key, usize> {
        self.index.get_or_init(|| {
            // Of equal keys, the first one is found.
            let keys = self.entries.iter().enumerate().rev();
            keys.filter_map(|(place, (key, _))| Some((content(key).ok()?, place))).collect()
        })
    }
}

fn is_text(key: &Val, wanted: &str) -> bool {
    matches!(key, Val::Str(text) if text.as_str() == wanted)
}

fn is_outside(key: &Val) -> bool {
    match key {
        Val::Str(text) => text.is_outside(),
        Val::Tuple(seq) => seq.items.iter().any(is_outside),
        _ => false,
    }
}

fn inspect_key(cx: &Context, key: &Val) {
    match key {
        Val::Str(text) => cx.inspect(text),
        Val::Tuple(seq) => seq.items.iter().for_each(|item| inspect_key(cx, item)),
        _ => {}
    }
}

/// The content of a key; an error for values that cannot be one.
fn content(key: &Val) -> Result<Key, Fault> {
    Ok(match key {
        Val::None => Key::None,
        Val::Bool(value) => Key::Int(i128::from(*value)),
        Val::Int(value) => Key::Int(*value),
        Val::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => Key::Int(*value as i128),
        Val::Float(value) => Key::Float(value.to_bits()),
        Val::Str(text) => Key::Str(text.to_arc()),
        Val::Tuple(seq) => Key::Tuple(seq.items.iter().map(content).collect::<Result<_, _>>()?),
        Val::Object(object) => Key::Other(Rc::as_ptr(object).cast::<()>() as usize),
        other => return fail(format!("a value of type `{}` cannot be a key", other.type_name())),
    })
}
