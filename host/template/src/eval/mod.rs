//! Evaluation of parsed templates.

mod call;
mod expression;
mod loops;
mod macros;
mod operators;
mod scope;
mod statement;

use std::rc::Rc;

use crate::context::Context;
use crate::error::Fault;
use crate::parse::{Parsed, Symbol};
use crate::text::{Builder, Str, Text};
use crate::value::{Val, check_depth};
use scope::VariableScope;

/// One rendering of a template.
pub(crate) struct Rendering<'a> {
    cx: &'a Context,
    parsed: &'a Parsed,
    /// Variables and global functions, by symbol.
    globals: Vec<Option<Val>>,
    /// Symbol of `loop`, if the template uses it.
    loop_symbol: Option<Symbol>,
}

impl<'a> Rendering<'a> {
    /// A rendering with these global functions and variables, of which later ones win.
    pub(crate) fn new(
        cx: &'a Context,
        parsed: &'a Parsed,
        global: fn(&str) -> Option<Val>,
        variables: Vec<(String, Val)>,
    ) -> Result<Self, Fault> {
        let mut globals: Vec<Option<Val>> = parsed.names.iter().map(|name| global(name)).collect();
        let loop_symbol = parsed.symbol("loop");
        for (name, value) in variables {
            check_depth(value.depth())?;
            if let Some(slot) = parsed.symbol(&name).and_then(|symbol| globals.get_mut(symbol)) {
                *slot = Some(value);
            }
        }
        Ok(Self { cx, parsed, globals, loop_symbol })
    }

    /// The rendered text.
    pub(crate) fn run(&self) -> Result<Text, Fault> {
        let mut output = Output { text: Builder::default(), is_final: true };
        self.execute(&self.parsed.body, &Rc::new(VariableScope::default()), &mut output)?;
        Ok(output.text.into_text())
    }

    /// The value of a variable.
    fn variable(&self, symbol: Symbol, scope: &VariableScope) -> Val {
        if let Some(value) = scope.get(symbol) {
            return value;
        }
        match self.globals.get(symbol) {
            Some(Some(value)) => value.clone(),
            _ => Val::Undefined(self.parsed.names.get(symbol).cloned()),
        }
    }
}

/// A text that statements write.
struct Output {
    text: Builder,
    /// Whether this is the rendering itself, not the value of a macro or block.
    is_final: bool,
}

impl Output {
    fn inner() -> Self {
        Self { text: Builder::default(), is_final: false }
    }

    fn write(&mut self, cx: &Context, text: &Str) -> Result<(), Fault> {
        let bytes = self.text.len().saturating_add(text.len());
        match self.is_final {
            true => cx.write(bytes)?,
            false => cx.write_part(bytes)?,
        }
        cx.work(text.len())?;
        self.text.add_str(text);
        Ok(())
    }

    fn finish(self, cx: &Context) -> Result<Str, Fault> {
        cx.hold(self.text.len())?;
        Ok(self.text.finish())
    }
}
