//! The functions, filters, tests and methods of the language.

mod access;
mod filters;
mod format;
mod functions;
mod html;
mod method_names;
mod methods;
mod percent;
mod predicates;
mod slicing;
mod spec;
mod strftime;
mod tojson;

pub(crate) use access::{attribute, item};
pub(crate) use filters::filter;
pub(crate) use functions::global;
pub(crate) use html::escaped;
pub(crate) use methods::call_method;
pub(crate) use percent::percent;
pub(crate) use predicates::test;
pub(crate) use slicing::slice;

use crate::context::Context;
use crate::error::Fault;
use crate::value::{Args, Val};

/// A filter: a function of the value and the arguments.
pub(crate) type FilterFunction = fn(&Context, &Val, Args) -> Result<Val, Fault>;

/// A test of a value with arguments.
pub(crate) type Test = fn(&Context, &Val, Args) -> Result<bool, Fault>;
