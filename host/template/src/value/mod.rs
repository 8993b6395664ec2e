//! Values of a rendering: Python's types, with the origin of each character of strings.

mod args;
mod compare;
mod dict;
mod iterate;
mod make;
mod number;
mod object;
mod print;

use std::rc::Rc;
use std::sync::Arc;

use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::Str;

pub(crate) use args::Args;
pub(crate) use compare::{compare, contains, equal, sorted};
pub(crate) use dict::{Dict, ViewKind};
pub(crate) use iterate::{Iter, items_of, length_of};
pub(crate) use number::{arithmetic, float_text, negate, number_of};
pub(crate) use object::{Cycler, Joiner, NamespaceObject, Object};
pub(crate) use print::{print, repr};

pub use make::Value;

/// Most levels of nested collections.
pub(crate) const MAX_NESTING: u16 = 120;

/// A function of the language.
pub(crate) type Native = fn(&Context, Args) -> Result<Val, Fault>;

/// A value during a rendering. Clones are cheap.
#[derive(Clone)]
pub(crate) enum Val {
    /// The value of a missing name or attribute, with that name.
    Undefined(Option<Arc<str>>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Str),
    List(Rc<Seq>),
    Tuple(Rc<Seq>),
    Dict(Rc<Dict>),
    View(Rc<Dict>, ViewKind),
    Range(RangeObject),
    Iter(Rc<Iter>),
    Function(&'static str, Native),
    /// A method with the value that it belongs to.
    Method(Rc<(Val, Arc<str>)>),
    Object(Rc<dyn Object>),
}

/// Items of a list or tuple, with the depth of their nesting.
pub(crate) struct Seq {
    pub(crate) items: Vec<Val>,
    /// Whether the tuple is one of the filter `groupby`, with the attributes `grouper` and `list`.
    pub(crate) is_group: bool,
    depth: u16,
}

/// Python's `range`.
#[derive(Clone, Copy)]
pub(crate) struct RangeObject {
    pub(crate) start: i64,
    pub(crate) step: i64,
    pub(crate) len: usize,
}

impl RangeObject {
    pub(crate) fn get(&self, index: usize) -> i128 {
        i128::from(self.start) + i128::from(self.step) * index as i128
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = i128> {
        (0..self.len).map(move |index| self.get(index))
    }
}

impl Seq {
    pub(crate) fn new(items: Vec<Val>) -> Self {
        let depth = items.iter().map(Val::depth).max().unwrap_or(0).saturating_add(1);
        Self { items, is_group: false, depth }
    }

    pub(crate) fn depth(&self) -> u16 {
        self.depth
    }

    fn checked(cx: &Context, items: Vec<Val>) -> Result<Self, Fault> {
        let seq = Self::new(items);
        check_depth(seq.depth)?;
        cx.hold((1 + seq.items.len()) * size_of::<Val>())?;
        Ok(seq)
    }
}

/// Fails for collections that are nested too deeply.
pub(crate) fn check_depth(depth: u16) -> Result<(), Fault> {
    if depth > MAX_NESTING {
        return Err(Fault::Limit(format!("nests collections more than {MAX_NESTING} levels deep")));
    }
    Ok(())
}

impl Val {
    pub(crate) fn own(text: &str) -> Self {
        Self::Str(Str::own(text))
    }

    pub(crate) fn int(number: usize) -> Self {
        Self::Int(number as i128)
    }

    /// A new string.
    pub(crate) fn text(cx: &Context, text: Str) -> Result<Self, Fault> {
        cx.hold(text.len() + size_of::<Self>())?;
        Ok(Self::Str(text))
    }

    /// A new list.
    pub(crate) fn list(cx: &Context, items: Vec<Self>) -> Result<Self, Fault> {
        Ok(Self::List(Rc::new(Seq::checked(cx, items)?)))
    }

    /// A new tuple.
    pub(crate) fn tuple(cx: &Context, items: Vec<Self>) -> Result<Self, Fault> {
        Ok(Self::Tuple(Rc::new(Seq::checked(cx, items)?)))
    }

    /// A new tuple of `groupby`.
    pub(crate) fn group(cx: &Context, grouper: Self, members: Self) -> Result<Self, Fault> {
        let seq = Seq::checked(cx, vec![grouper, members])?;
        Ok(Self::Tuple(Rc::new(Seq { is_group: true, ..seq })))
    }

    /// A new iterator, which can be read once.
    pub(crate) fn iter(cx: &Context, items: Vec<Self>) -> Result<Self, Fault> {
        Ok(Self::Iter(Rc::new(Iter::new(Seq::checked(cx, items)?))))
    }

    /// Levels of nested collections.
    pub(crate) fn depth(&self) -> u16 {
        match self {
            Self::List(seq) | Self::Tuple(seq) => seq.depth,
            Self::Dict(dict) | Self::View(dict, _) => dict.depth(),
            Self::Iter(iter) => iter.depth(),
            Self::Method(method) => method.0.depth().saturating_add(1),
            Self::Object(object) => object.depth(),
            _ => 0,
        }
    }

    /// Truth as in Python. That of a string depends on the classes of its sources only.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Str(text) => !text.is_empty(),
            Self::List(seq) | Self::Tuple(seq) => !seq.items.is_empty(),
            Self::Dict(dict) | Self::View(dict, _) => dict.len() > 0,
            Self::Range(range) => range.len > 0,
            Self::Iter(_) | Self::Function(..) | Self::Method(_) | Self::Object(_) => true,
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Python's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::View(_, kind) => kind.name(),
            Self::Range(_) => "range",
            Self::Iter(_) => "generator",
            Self::Function(..) => "function",
            Self::Method(_) => "builtin_function_or_method",
            Self::Object(object) => object.type_name(),
        }
    }

    /// The failure of an operation on an undefined value; else nothing.
    pub(crate) fn check_defined(&self) -> Result<(), Fault> {
        match self {
            Self::Undefined(Some(name)) => fail(format!("`{name}` is undefined")),
            Self::Undefined(None) => fail("a value is undefined"),
            _ => Ok(()),
        }
    }

    /// The whole number, also of a boolean.
    pub(crate) fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&Str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if it is of this type.
    pub(crate) fn as_object<T: 'static>(&self) -> Option<&T> {
        match self {
            Self::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }
}
