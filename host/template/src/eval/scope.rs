//! Variables of a template, a loop or a macro.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::context::{Clear, Context};
use crate::parse::Symbol;
use crate::value::Val;

/// Variables, with those around them.
#[derive(Default)]
pub(super) struct VariableScope {
    variables: RefCell<Vec<(Symbol, Val)>>,
    parent: Option<Rc<Self>>,
    is_captured: Cell<bool>,
}

impl VariableScope {
    /// A scope inside of another one.
    pub(super) fn inside(parent: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self { parent: Some(Rc::clone(parent)), ..Self::default() })
    }

    pub(super) fn get(&self, symbol: Symbol) -> Option<Val> {
        let mut scope = self;
        loop {
            let variables = scope.variables.borrow();
            if let Some((_, value)) = variables.iter().find(|(known, _)| *known == symbol) {
                return Some(value.clone());
            }
            scope = scope.parent.as_deref()?;
        }
    }

    pub(super) fn set(&self, symbol: Symbol, value: Val) {
        let mut variables = self.variables.borrow_mut();
        let old = match variables.iter_mut().find(|(known, _)| *known == symbol) {
            Some(entry) => Some(std::mem::replace(&mut entry.1, value)),
            None => {
                variables.push((symbol, value));
                None
            }
        };
        drop(variables);
        drop(old);
    }

    /// The scope without variables, for the next pass of a loop; another one if a macro holds this one.
    pub(super) fn renewed(self: &Rc<Self>, parent: &Rc<Self>) -> Rc<Self> {
        if Rc::strong_count(self) > 1 {
            return Self::inside(parent);
        }
        self.clear();
        Rc::clone(self)
    }

    /// A macro holds the scope. Since variables may hold the macro, the scopes are emptied at the end.
    pub(super) fn capture(self: &Rc<Self>, cx: &Context) {
        let mut scope = Some(self);
        while let Some(captured) = scope.filter(|scope| !scope.is_captured.replace(true)) {
            cx.clear_at_end(Rc::<Self>::clone(captured));
            scope = captured.parent.as_ref();
        }
    }
}

impl Clear for VariableScope {
    fn clear(&self) {
        let mut variables = self.variables.borrow_mut();
        if variables.len() == 1 {
            let last = variables.pop();
            drop(variables);
            drop(last);
            return;
        }
        let all = std::mem::take(&mut *variables);
        drop(variables);
        drop(all);
    }
}
