//! Values with a state of their own.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::{Args, Val, check_depth, items_of};
use crate::context::{Clear, Context};
use crate::error::{Fault, fail};
use crate::text::Str;

/// A value with a state or methods of its own.
pub(crate) trait Object {
    fn type_name(&self) -> &'static str;

    fn as_any(&self) -> &dyn Any;

    /// Levels of nested collections.
    fn depth(&self) -> u16 {
        0
    }

    /// Number of items, of objects that have any.
    fn len(&self) -> Option<usize> {
        None
    }

    /// The value of an attribute.
    fn attribute(&self, _cx: &Context, _name: &str) -> Result<Option<Val>, Fault> {
        Ok(None)
    }

    /// Names of methods.
    fn methods(&self) -> &'static [&'static str] {
        &[]
    }

    /// Calls a method.
    fn call_method(&self, _cx: &Context, name: &str, _args: Args) -> Result<Val, Fault> {
        fail(format!("`{}` has no method `{name}`", self.type_name()))
    }

    /// Calls the object as a function.
    fn call(&self, _cx: &Context, _args: Args) -> Result<Val, Fault> {
        fail(format!("a value of type `{}` cannot be called", self.type_name()))
    }

    /// Whether [`Object::call`] is possible.
    fn is_callable(&self) -> bool {
        false
    }
}

/// The value of `namespace(...)`, whose attributes can be assigned.
#[derive(Default)]
pub(crate) struct NamespaceObject {
    attributes: RefCell<Vec<(Arc<str>, Val)>>,
}

impl NamespaceObject {
    /// A namespace with these attributes.
    pub(crate) fn make(cx: &Context, args: Args) -> Result<Val, Fault> {
        cx.hold(size_of::<Val>() * 4)?;
        let namespace = Rc::new(Self::default());
        cx.clear_at_end(Rc::<Self>::clone(&namespace));
        for given in args.positional {
            let Val::Dict(dict) = &given else { return fail("`namespace` takes dictionaries and named arguments") };
            for (key, value) in dict.entries() {
                let key = key.need_str("a key of `namespace`")?;
                cx.inspect(key);
                namespace.set(cx, &key.to_arc(), value.clone())?;
            }
        }
        for (name, value) in args.named {
            namespace.set(cx, &name.to_arc(), value)?;
        }
        Ok(Val::Object(namespace))
    }

    pub(crate) fn set(&self, cx: &Context, name: &Arc<str>, value: Val) -> Result<(), Fault> {
        let mut attributes = self.attributes.borrow_mut();
        cx.steps(1 + attributes.len() / 8)?;
        let old = match attributes.iter_mut().find(|(known, _)| known == name) {
            Some(entry) => Some(std::mem::replace(&mut entry.1, value)),
            None => {
                cx.hold(size_of::<(Arc<str>, Val)>())?;
                attributes.push((Arc::clone(name), value));
                None
            }
        };
        drop(attributes);
        drop(old);
        Ok(())
    }
}

impl Clear for NamespaceObject {
    fn clear(&self) {
        let attributes = self.attributes.take();
        drop(attributes);
    }
}

impl Object for NamespaceObject {
    fn type_name(&self) -> &'static str {
        "Namespace"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn attribute(&self, _cx: &Context, name: &str) -> Result<Option<Val>, Fault> {
        Ok(self.attributes.borrow().iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone()))
    }
}

/// The value of `cycler(...)`.
pub(crate) struct Cycler {
    items: Val,
    at: Cell<usize>,
}

impl Cycler {
    /// A cycler of these values.
    pub(crate) fn make(cx: &Context, args: Args) -> Result<Val, Fault> {
        if args.positional.is_empty() || !args.named.is_empty() {
            return fail("`cycler` takes at least one value");
        }
        Ok(Val::Object(Rc::new(Self { items: Val::tuple(cx, args.positional)?, at: Cell::new(0) })))
    }

    fn current(&self, cx: &Context) -> Result<Val, Fault> {
        let items = items_of(cx, &self.items)?;
        Ok(items.items.get(self.at.get()).cloned().unwrap_or(Val::None))
    }
}

impl Object for Cycler {
    fn type_name(&self) -> &'static str {
        "Cycler"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn depth(&self) -> u16 {
        self.items.depth().saturating_add(1)
    }

    fn attribute(&self, cx: &Context, name: &str) -> Result<Option<Val>, Fault> {
        Ok(match name {
            "current" => Some(self.current(cx)?),
            "pos" => Some(Val::int(self.at.get())),
            "items" => Some(self.items.clone()),
            _ => None,
        })
    }

    fn methods(&self) -> &'static [&'static str] {
        &["next", "reset"]
    }

    fn call_method(&self, cx: &Context, name: &str, args: Args) -> Result<Val, Fault> {
        let [] = args.bind(name, [], 0)?;
        if name == "reset" {
            self.at.set(0);
            return Ok(Val::None);
        }
        let current = self.current(cx)?;
        let len = items_of(cx, &self.items)?.items.len().max(1);
        self.at.set((self.at.get() + 1) % len);
        Ok(current)
    }
}

/// The value of `joiner(...)`: empty at the first call, then the separator.
pub(crate) struct Joiner {
    separator: Val,
    is_used: Cell<bool>,
}

impl Joiner {
    /// A joiner with this separator.
    pub(crate) fn make(_cx: &Context, args: Args) -> Result<Val, Fault> {
        let [separator] = args.bind("joiner", ["sep"], 0)?;
        let separator = separator.given().cloned().unwrap_or_else(|| Val::own(", "));
        check_depth(separator.depth().saturating_add(1))?;
        Ok(Val::Object(Rc::new(Self { separator, is_used: Cell::new(false) })))
    }
}

impl Object for Joiner {
    fn type_name(&self) -> &'static str {
        "Joiner"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn depth(&self) -> u16 {
        self.separator.depth().saturating_add(1)
    }

    fn call(&self, _cx: &Context, args: Args) -> Result<Val, Fault> {
        let [] = args.bind("joiner", [], 0)?;
        let is_used = self.is_used.replace(true);
        Ok(if is_used { self.separator.clone() } else { Val::Str(Str::own("")) })
    }

    fn is_callable(&self) -> bool {
        true
    }
}
