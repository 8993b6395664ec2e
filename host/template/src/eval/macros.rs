//! Macros and the bodies of `call` blocks.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use super::scope::VariableScope;
use super::{Output, Rendering};
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::parse::Macro;
use crate::text::Str;
use crate::value::{Args, Dict, Object, Val};

/// A macro with the variables around it.
pub(super) struct MacroValue {
    parsed: Arc<Macro>,
    scope: Rc<VariableScope>,
}

impl MacroValue {
    /// The value of a macro that is defined in this scope.
    pub(super) fn make(cx: &Context, parsed: &Arc<Macro>, scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        cx.hold(2 * size_of::<Val>())?;
        scope.capture(cx);
        Ok(Val::Object(Rc::new(Self { parsed: Arc::clone(parsed), scope: Rc::clone(scope) })))
    }
}

impl Object for MacroValue {
    fn type_name(&self) -> &'static str {
        "Macro"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attribute(&self, cx: &Context, name: &str) -> Result<Option<Val>, Fault> {
        Ok(match name {
            "name" => Some(Val::own(&self.parsed.name)),
            "arguments" => {
                let names = self.parsed.parameters.iter().map(|parameter| Val::own(&parameter.name));
                Some(Val::tuple(cx, names.collect())?)
            }
            "caller" => Some(Val::Bool(self.parsed.extra.caller)),
            "catch_varargs" => Some(Val::Bool(self.parsed.extra.varargs)),
            "catch_kwargs" => Some(Val::Bool(self.parsed.extra.kwargs)),
            _ => None,
        })
    }

    fn is_callable(&self) -> bool {
        true
    }
}

impl Rendering<'_> {
    /// The text that a macro writes.
    pub(super) fn call_macro(&self, called: &MacroValue, args: Args) -> Result<Val, Fault> {
        self.cx.enter()?;
        let scope = VariableScope::inside(&called.scope);
        self.bind(&called.parsed, &scope, args)?;
        let mut output = Output::inner();
        self.execute(&called.parsed.body, &scope, &mut output)?;
        self.cx.leave();
        Ok(Val::Str(output.finish(self.cx)?))
    }

    /// Sets the parameters of a macro.
    fn bind(&self, parsed: &Macro, scope: &Rc<VariableScope>, args: Args) -> Result<(), Fault> {
        let Args { positional, mut named } = args;
        let mut positional = positional.into_iter();
        let mut missing = Vec::new();
        for parameter in &parsed.parameters {
            let value = positional.next().or_else(|| take(&mut named, &parameter.name));
            match value {
                Some(value) => scope.set(parameter.symbol, value),
                None => missing.push(parameter),
            }
        }
        for parameter in missing {
            let value = match &parameter.default {
                Some(default) => self.evaluate(default, scope)?,
                None => Val::Undefined(Some(Arc::clone(&parameter.name))),
            };
            scope.set(parameter.symbol, value);
        }
        let has_parameter = |name: &str| parsed.parameters.iter().any(|parameter| *parameter.name == *name);
        if parsed.extra.caller && !has_parameter("caller") {
            let caller = take(&mut named, "caller").unwrap_or_else(|| Val::Undefined(Some(Arc::from("caller"))));
            self.set_special("caller", caller, scope);
        }
        if parsed.extra.kwargs && !has_parameter("kwargs") {
            let entries = std::mem::take(&mut named).into_iter().map(|(name, value)| (Val::Str(name), value));
            self.set_special("kwargs", Dict::make(self.cx, entries.collect())?, scope);
        }
        if let Some((name, _)) = named.first() {
            return fail(format!("macro `{}` has no argument `{}`", parsed.name, name.as_str()));
        }
        let rest: Vec<Val> = positional.collect();
        if parsed.extra.varargs && !has_parameter("varargs") {
            self.set_special("varargs", Val::tuple(self.cx, rest)?, scope);
        } else if !rest.is_empty() {
            let most = parsed.parameters.len();
            return fail(format!("macro `{}` takes at most {most} arguments", parsed.name));
        }
        Ok(())
    }

    fn set_special(&self, name: &str, value: Val, scope: &Rc<VariableScope>) {
        if let Some(symbol) = self.parsed.symbol(name) {
            scope.set(symbol, value);
        }
    }
}

/// Removes a named argument.
fn take(named: &mut Vec<(Str, Val)>, name: &str) -> Option<Val> {
    let at = named.iter().position(|(known, _)| known.as_str() == name)?;
    Some(named.remove(at).1)
}
