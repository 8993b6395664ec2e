//! Chat templates in Hugging Face's dialect of Jinja, rendered with the origin of each character.
//!
//! A template is code of a model's author; the texts of a conversation come from users and tools. [`Template::render`]
//! tells both apart in the result: a [`TextRun`] of characters is the template's own or comes from one source.
//! Expressions see the true texts. Text from outside never counts as the template's own, except that a number which the
//! template computes from it, and a literal which the template chooses by it, do.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod builtin;
mod context;
mod error;
mod eval;
mod parse;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use context::RenderLimits;
pub use error::TemplateError;
pub use template::{Rendering, Template};
pub use text::{Class, Form, Origin, Piece, Text, TextRun};
pub use value::Value;
