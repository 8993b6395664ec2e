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
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::collections::BTreeSet;

use crate::builtin::global;
use crate::context::Context;
use crate::parse::{Parsed, parse};

pub use context::RenderLimits;
pub use error::TemplateError;
pub use text::{Class, Form, Origin, Piece, Text, TextRun};
pub use value::Value;

/// Most bytes of a source. Published templates have up to some tens of thousands.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    parsed: Parsed,
}

/// A rendered conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendering {
    /// The text, with the origin of each character.
    pub text: Text,
    /// Whether the rendering depends on more of the texts from outside than on their classes
    /// ([`Class`]): with other texts of the same classes, it might be more than the same text with the
    /// runs replaced as their forms say.
    pub inspected: bool,
    /// The sources to which this applies. Texts of other sources may be replaced by texts of the same class, as long as
    /// the texts of these sources stay.
    pub inspected_sources: BTreeSet<u32>,
}

impl Template {
    /// Parses the source of a template.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] for a malformed source, [`TemplateError::Limit`] for one that is longer than 1 MiB or
    /// nested too deeply.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE_BYTES {
            let excess = format!("has {} bytes, more than {MAX_SOURCE_BYTES}", source.len());
            return Err(TemplateError::Limit { excess });
        }
        Ok(Self { parsed: parse(source)? })
    }

    /// Renders the template with variables, of which later ones win. A variable hides a global function of its name.
    ///
    /// # Errors
    /// [`TemplateError::Raised`] if the template calls `raise_exception`, [`TemplateError::Eval`] if it fails,
    /// [`TemplateError::Limit`] beyond a limit.
    pub fn render(&self, variables: Vec<(String, Value)>, limits: &RenderLimits) -> Result<Rendering, TemplateError> {
        let cx = Context::new(*limits);
        let variables = variables.into_iter().map(|(name, value)| (name, value.0)).collect();
        let rendering = eval::Rendering::new(&cx, &self.parsed, global, variables);
        let text = rendering.and_then(|rendering| rendering.run()).map_err(|fault| fault.at(cx.line()))?;
        let inspected_sources = cx.take_inspected();
        Ok(Rendering { text, inspected: !inspected_sources.is_empty(), inspected_sources })
    }

    /// Strings in the source: text outside of tags, and literals in expressions. Comments are left out.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.parsed.literals.iter().map(|literal| &**literal)
    }

    /// Names of variables in the source, also of those that it sets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parsed.names.iter().map(|name| &**name)
    }
}
