//! Calls of functions, methods, macros and filters.

use std::rc::Rc;
use std::sync::Arc;

use super::Rendering;
use super::loops::LoopState;
use super::macros::MacroValue;
use super::scope::VariableScope;
use crate::builtin::{attribute, call_method};
use crate::error::{Fault, fail};
use crate::parse::{Arguments, Expr, ExprKind, FilterCall};
use crate::text::Str;
use crate::value::{Args, Val, items_of};

impl Rendering<'_> {
    /// The value of a call in the source.
    pub(super) fn call(
        &self,
        line: u32,
        function: &Expr,
        arguments: &Arguments,
        scope: &Rc<VariableScope>,
    ) -> Result<Val, Fault> {
        self.call_with(line, function, arguments, None, scope)
    }

    /// As [`Rendering::call`], with the body of a `call` block.
    pub(super) fn call_with(
        &self,
        line: u32,
        function: &Expr,
        arguments: &Arguments,
        caller: Option<Val>,
        scope: &Rc<VariableScope>,
    ) -> Result<Val, Fault> {
        let function = self.evaluate_function(function, scope)?;
        let mut args = self.arguments(arguments, scope)?;
        args.named.extend(caller.map(|caller| (Str::own("caller"), caller)));
        match function {
            // A macro notes the lines of its own statements.
            Callee::Value(function) => {
                self.cx.set_line(line);
                self.call_value(&function, args)
            }
            Callee::Method(value, name) => {
                call_method(self.cx, &value, name, args).map_err(|fault| self.at(line, fault))
            }
        }
    }

    /// The called function. Methods need no value of their own.
    fn evaluate_function<'e>(&self, function: &'e Expr, scope: &Rc<VariableScope>) -> Result<Callee<'e>, Fault> {
        let ExprKind::Attribute(value, name) = &function.kind else {
            return Ok(Callee::Value(self.evaluate(function, scope)?));
        };
        let value = self.evaluate(value, scope)?;
        match attribute(self.cx, &value, name).map_err(|fault| self.at(function.line, fault))? {
            Val::Method(_) => Ok(Callee::Method(value, name)),
            other => Ok(Callee::Value(other)),
        }
    }

    /// Calls a value.
    pub(super) fn call_value(&self, function: &Val, args: Args) -> Result<Val, Fault> {
        match function {
            Val::Function(_, function) => function(self.cx, args),
            Val::Method(method) => call_method(self.cx, &method.0, &method.1, args),
            Val::Object(object) => {
                if let Some(found) = object.as_any().downcast_ref::<MacroValue>() {
                    return self.call_macro(found, args);
                }
                if let Some(found) = object.as_any().downcast_ref::<LoopState>() {
                    return self.call_loop(found, args);
                }
                object.call(self.cx, args)
            }
            other => {
                other.check_defined()?;
                fail(format!("a value of type `{}` cannot be called", other.type_name()))
            }
        }
    }

    /// The values of arguments in the source.
    pub(super) fn arguments(&self, arguments: &Arguments, scope: &Rc<VariableScope>) -> Result<Args, Fault> {
        let mut args = Args::of(self.all(&arguments.positional, scope)?);
        for (name, value) in &arguments.named {
            args.named.push((Str::shared(Arc::clone(name)), self.evaluate(value, scope)?));
        }
        if let Some(sequence) = &arguments.sequence {
            let sequence = self.evaluate(sequence, scope)?;
            args.positional.extend(items_of(self.cx, &sequence)?.items.iter().cloned());
        }
        if let Some(mapping) = &arguments.mapping {
            let Val::Dict(dict) = self.evaluate(mapping, scope)? else {
                return fail("`**` in a call needs a dictionary");
            };
            for (key, value) in dict.entries() {
                let key = key.need_str("the name of an argument")?;
                self.cx.inspect(key);
                args.named.push((key.clone(), value.clone()));
            }
        }
        Ok(args)
    }

    /// The result of a filter in the source.
    pub(super) fn filter(&self, value: &Val, call: &FilterCall, scope: &Rc<VariableScope>) -> Result<Val, Fault> {
        let Some(filter) = call.filter else {
            return Err(self.at(call.line, Fault::Failed(format!("the filter `{}` does not exist", call.name))));
        };
        let args = self.arguments(&call.arguments, scope)?;
        filter(self.cx, value, args).map_err(|fault| self.at(call.line, fault))
    }
}

/// A function that is called.
enum Callee<'e> {
    Value(Val),
    Method(Val, &'e str),
}
