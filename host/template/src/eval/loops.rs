//! Loops and the variable `loop`.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::scope::VariableScope;
use super::statement::Flow;
use super::{Output, Rendering};
use crate::context::{Clear, Context};
use crate::error::{Fault, fail};
use crate::parse::Loop;
use crate::value::{Args, Object, Seq, Val, equal, items_of};

/// The value of `loop`.
pub(super) struct LoopState {
    items: Rc<Seq>,
    at: Cell<usize>,
    level: usize,
    changed: Rc<Changed>,
    /// The loop and the scope around it, if it may call itself.
    recursion: Option<(Arc<Loop>, Rc<VariableScope>)>,
}

/// The arguments of the last call of `loop.changed`.
#[derive(Default)]
struct Changed {
    last: RefCell<Option<Val>>,
}

impl Clear for Changed {
    fn clear(&self) {
        let last = self.last.take();
        drop(last);
    }
}

impl Object for LoopState {
    fn type_name(&self) -> &'static str {
        "LoopContext"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn depth(&self) -> u16 {
        self.items.depth().saturating_add(1)
    }

    fn len(&self) -> Option<usize> {
        Some(self.items.items.len())
    }

    fn attribute(&self, _cx: &Context, name: &str) -> Result<Option<Val>, Fault> {
        let (at, len) = (self.at.get(), self.items.items.len());
        let neighbour = |at: Option<usize>, name: &str| {
            let found = at.and_then(|at| self.items.items.get(at).cloned());
            found.unwrap_or_else(|| Val::Undefined(Some(Arc::from(name))))
        };
        Ok(Some(match name {
            "index" => Val::int(at + 1),
            "index0" => Val::int(at),
            "revindex" => Val::int(len.saturating_sub(at)),
            "revindex0" => Val::int(len.saturating_sub(at + 1)),
            "first" => Val::Bool(at == 0),
            "last" => Val::Bool(at + 1 == len),
            "length" => Val::int(len),
            "depth" => Val::int(self.level + 1),
            "depth0" => Val::int(self.level),
            "previtem" => neighbour(at.checked_sub(1), name),
            "nextitem" => neighbour(Some(at + 1), name),
            _ => return Ok(None),
        }))
    }

    fn methods(&self) -> &'static [&'static str] {
        &["changed", "cycle"]
    }

    fn call_method(&self, cx: &Context, name: &str, args: Args) -> Result<Val, Fault> {
        if !args.named.is_empty() {
            return fail(format!("`loop.{name}` takes no named arguments"));
        }
        if name == "cycle" {
            let count = args.positional.len();
            let chosen = self.at.get().checked_rem(count).and_then(|at| args.positional.get(at));
            return chosen.map_or_else(|| fail("`loop.cycle` needs values"), |chosen| Ok(chosen.clone()));
        }
        let values = Val::tuple(cx, args.positional)?;
        let last = self.changed.last.take();
        let is_changed = match &last {
            Some(last) => !equal(cx, last, &values)?,
            None => {
                cx.clear_at_end(Rc::<Changed>::clone(&self.changed));
                true
            }
        };
        *self.changed.last.borrow_mut() = Some(values);
        Ok(Val::Bool(is_changed))
    }

    fn is_callable(&self) -> bool {
        true
    }
}

impl Rendering<'_> {
    /// Executes a loop.
    pub(super) fn for_loop(
        &self,
        parsed: &Arc<Loop>,
        scope: &Rc<VariableScope>,
        output: &mut Output,
    ) -> Result<(), Fault> {
        let items = self.evaluate(&parsed.items, scope)?;
        self.run_loop(parsed, &items, 0, scope, output)
    }

    /// The text of a recursive call of a loop.
    pub(super) fn call_loop(&self, called: &LoopState, args: Args) -> Result<Val, Fault> {
        let [items] = args.bind("loop", ["iterable"], 1)?;
        let Some((parsed, scope)) = &called.recursion else { return fail("the loop is not recursive") };
        self.cx.enter()?;
        let mut output = Output::inner();
        self.run_loop(parsed, &items, called.level + 1, scope, &mut output)?;
        self.cx.leave();
        Ok(Val::Str(output.finish(self.cx)?))
    }

    fn run_loop(
        &self,
        parsed: &Arc<Loop>,
        items: &Val,
        level: usize,
        scope: &Rc<VariableScope>,
        output: &mut Output,
    ) -> Result<(), Fault> {
        let mut items = items_of(self.cx, items)?;
        if parsed.condition.is_some() {
            items = self.filtered(parsed, &items, scope)?;
        }
        // As in Jinja, `else` applies unless the body was executed up to its end.
        let mut is_completed = false;
        let recursion = parsed.is_recursive.then(|| {
            scope.capture(self.cx);
            (Arc::clone(parsed), Rc::clone(scope))
        });
        let (at, changed) = (Cell::new(0), Rc::default());
        let state = Rc::new(LoopState { items: Rc::clone(&items), at, level, changed, recursion });
        let mut inner = VariableScope::inside(scope);
        for (at, item) in items.items.iter().enumerate() {
            self.cx.steps(1)?;
            state.at.set(at);
            inner = inner.renewed(scope);
            if let Some(symbol) = self.loop_symbol {
                inner.set(symbol, Val::Object(Rc::<LoopState>::clone(&state)));
            }
            self.assign(&parsed.target, item.clone(), &inner)?;
            let flow = self.execute(&parsed.body, &inner, output)?;
            is_completed |= flow == Flow::Next;
            if flow == Flow::Break {
                break;
            }
        }
        if !is_completed {
            self.execute(&parsed.otherwise, &VariableScope::inside(scope), output)?;
        }
        Ok(())
    }

    /// The items for which the condition of the loop holds.
    fn filtered(&self, parsed: &Loop, items: &Seq, scope: &Rc<VariableScope>) -> Result<Rc<Seq>, Fault> {
        let mut kept = Vec::new();
        let Some(condition) = &parsed.condition else { return Ok(Rc::new(Seq::new(kept))) };
        for item in &items.items {
            let inner = VariableScope::inside(scope);
            self.assign(&parsed.target, item.clone(), &inner)?;
            if self.evaluate(condition, &inner)?.is_true() {
                kept.push(item.clone());
            }
        }
        self.cx.hold(kept.len() * size_of::<Val>())?;
        Ok(Rc::new(Seq::new(kept)))
    }
}
