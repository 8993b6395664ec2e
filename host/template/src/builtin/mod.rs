//! The functions, filters, tests and methods of the language.

mod access;
mod filters;
mod format;
mod functions;
mod methods;
mod percent;
mod slicing;
mod spec;
mod strftime;
mod tests;
mod tojson;

pub(crate) use access::{attribute, item};
pub(crate) use filters::{escaped, filter};
pub(crate) use functions::global;
pub(crate) use methods::call_method;
pub(crate) use percent::percent;
pub(crate) use slicing::slice;
pub(crate) use tests::test;

use crate::context::Context;
use crate::error::Fault;
use crate::value::{Args, Val};

/// A filter: a function of the value and the arguments.
pub(crate) type Filter = fn(&Context, &Val, Args) -> Result<Val, Fault>;

/// A test of a value with arguments.
pub(crate) type Test = fn(&Context, &Val, Args) -> Result<bool, Fault>;
