//! Filters that look at attributes of items or apply filters and tests to them.

use std::cmp::Ordering;
use std::sync::Arc;

use super::sequence::{folded, ordered};
use crate::builtin::access::{item, own_attribute};
use crate::builtin::{filter, methods, test};
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Dict, Val, arithmetic, compare, equal, items_of, print};

/// An attribute of items, such as `function.name` or `0`.
struct Getter {
    path: Vec<Val>,
    default: Val,
}

impl Getter {
    fn new(cx: &Context, attribute: &Val, default: Val) -> Result<Self, Fault> {
        let path = match attribute {
            Val::Str(text) => {
                cx.inspect(text);
                let part = |part: &str| part.parse().map_or_else(|_| Val::own(part), Val::Int);
                text.as_str().split('.').map(part).collect()
            }
            other => vec![Val::Int(other.need_int("an attribute")?)],
        };
        Ok(Self { path, default })
    }

    fn get(&self, cx: &Context, value: &Val) -> Result<Val, Fault> {
        let mut found = value.clone();
        for part in &self.path {
            found = item(cx, &found, part)?;
            if found.is_undefined() && !self.default.is_undefined() {
                found = self.default.clone();
            }
        }
        Ok(found)
    }
}

/// A getter for an optional attribute.
fn getter(cx: &Context, attribute: &Val) -> Result<Option<Getter>, Fault> {
    attribute.present().map(|attribute| Getter::new(cx, attribute, Val::Undefined(None))).transpose()
}

fn rank(cx: &Context, value: &Val, getter: Option<&Getter>, is_folded: bool) -> Result<Val, Fault> {
    match getter {
        Some(getter) => folded(cx, &getter.get(cx, value)?, is_folded),
        None => folded(cx, value, is_folded),
    }
}

/// An attribute or method, never an item.
pub(super) fn attr(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [name] = args.bind("attr", ["name"], 1)?;
    let name: Arc<str> = print(cx, &name)?.to_arc();
    Ok(own_attribute(cx, value, &name)?.unwrap_or(Val::Undefined(Some(name))))
}

pub(super) fn join(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [separator, attribute] = args.bind("join", ["d", "attribute"], 0)?;
    let separator = print(cx, &separator)?;
    let items = items_of(cx, value)?;
    let Some(getter) = getter(cx, &attribute)? else { return methods::join(cx, &separator, &items.items, true) };
    let items: Vec<Val> = items.items.iter().map(|item| getter.get(cx, item)).collect::<Result<_, _>>()?;
    methods::join(cx, &separator, &items, true)
}

/// An attribute of each item, or the result of a filter.
pub(super) fn map(cx: &Context, value: &Val, mut args: Args) -> Result<Val, Fault> {
    let is_attribute = args.positional.is_empty() && args.named.iter().any(|(name, _)| name.as_str() == "attribute");
    if !value.is_true() {
        return Val::iter(cx, Vec::new());
    }
    let mut mapped = Vec::new();
    if is_attribute {
        let [attribute, default] = args.bind("map", ["attribute", "default"], 1)?;
        let getter = Getter::new(cx, &attribute, default)?;
        for item in &items_of(cx, value)?.items {
            mapped.push(getter.get(cx, item)?);
        }
        return Val::iter(cx, mapped);
    }
    if args.positional.is_empty() {
        return fail("`map` needs the name of a filter");
    }
    let name = args.positional.remove(0);
    let name = name.need_str("the name of a filter")?;
    cx.inspect(name);
    let Some(filter) = filter(name.as_str()) else {
        return fail(format!("the filter `{}` does not exist", name.as_str()));
    };
    for item in &items_of(cx, value)?.items {
        cx.enter()?;
        let args = Args { positional: args.positional.clone(), named: args.named.clone() };
        mapped.push(filter(cx, item, args)?);
        cx.leave();
    }
    Val::iter(cx, mapped)
}

/// Items for which a test gives `wanted`; the test looks at an attribute if `by_attribute`.
pub(super) fn select(
    cx: &Context,
    value: &Val,
    mut args: Args,
    wanted: bool,
    by_attribute: bool,
) -> Result<Val, Fault> {
    if !value.is_true() {
        return Val::iter(cx, Vec::new());
    }
    let mut getter = None;
    if by_attribute {
        if args.positional.is_empty() {
            return fail("`selectattr` and `rejectattr` need the name of an attribute");
        }
        getter = Some(Getter::new(cx, &args.positional.remove(0), Val::Undefined(None))?);
    }
    let mut condition = None;
    if !args.positional.is_empty() {
        let name = args.positional.remove(0);
        let name = name.need_str("the name of a test")?;
        cx.inspect(name);
        condition = Some(
            test(name.as_str()).ok_or_else(|| Fault::Failed(format!("the test `{}` does not exist", name.as_str())))?,
        );
    }
    let mut selected = Vec::new();
    for item in &items_of(cx, value)?.items {
        cx.steps(1)?;
        let looked_at = match &getter {
            Some(getter) => getter.get(cx, item)?,
            None => item.clone(),
        };
        let holds = match condition {
            Some(condition) => {
                let args = Args { positional: args.positional.clone(), named: args.named.clone() };
                condition(cx, &looked_at, args)?
            }
            None => looked_at.is_true(),
        };
        if holds == wanted {
            selected.push(item.clone());
        }
    }
    Val::iter(cx, selected)
}

pub(super) fn sort(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let names = ["reverse", "case_sensitive", "attribute"];
    let [is_reversed, is_case_sensitive, attribute] = args.bind("sort", names, 0)?;
    let is_folded = !is_case_sensitive.is_true();
    let getters: Vec<Getter> = match attribute.present() {
        None => Vec::new(),
        Some(Val::Str(text)) => {
            cx.inspect(text);
            let getter = |name| Getter::new(cx, &Val::own(name), Val::Undefined(None));
            text.as_str().split(',').map(getter).collect::<Result<_, _>>()?
        }
        Some(index) => vec![Getter::new(cx, index, Val::Undefined(None))?],
    };
    let mut ranked = Vec::new();
    for item in &items_of(cx, value)?.items {
        let ranks: Vec<Val> =
            getters.iter().map(|getter| rank(cx, item, Some(getter), is_folded)).collect::<Result<_, _>>()?;
        let rank = if ranks.is_empty() { folded(cx, item, is_folded)? } else { Val::list(cx, ranks)? };
        ranked.push((rank, item.clone()));
    }
    let sorted = ordered(cx, ranked, is_reversed.is_true())?;
    Val::list(cx, sorted)
}

pub(super) fn max(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    extreme(cx, value, args, Ordering::Greater)
}

pub(super) fn min(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    extreme(cx, value, args, Ordering::Less)
}

fn extreme(cx: &Context, value: &Val, args: Args, better: Ordering) -> Result<Val, Fault> {
    let [is_case_sensitive, attribute] = args.bind("min and max", ["case_sensitive", "attribute"], 0)?;
    let getter = getter(cx, &attribute)?;
    let is_folded = !is_case_sensitive.is_true();
    let mut best: Option<(Val, Val)> = None;
    for item in &items_of(cx, value)?.items {
        let rank = rank(cx, item, getter.as_ref(), is_folded)?;
        let is_better = match &best {
            None => true,
            Some((known, _)) => compare(cx, &rank, known)? == better,
        };
        if is_better {
            best = Some((rank, item.clone()));
        }
    }
    Ok(best.map_or(Val::Undefined(None), |(_, item)| item))
}

/// Items without those that are equal to earlier ones.
pub(super) fn unique(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [is_case_sensitive, attribute] = args.bind("unique", ["case_sensitive", "attribute"], 0)?;
    let getter = getter(cx, &attribute)?;
    let is_folded = !is_case_sensitive.is_true();
    let mut ranked = Vec::new();
    for item in items_of(cx, value)?.items.iter().rev() {
        ranked.push((rank(cx, item, getter.as_ref(), is_folded)?, item.clone()));
    }
    // Of entries with equal keys, a dictionary keeps the last value, which is the first item here.
    let order: Vec<Val> = ranked.iter().rev().map(|(rank, _)| rank.clone()).collect();
    let Val::Dict(first) = Dict::make(cx, ranked)? else { return fail("`unique` failed") };
    let keys = order.into_iter().map(|rank| (rank, Val::None)).collect();
    let Val::Dict(keys) = Dict::make(cx, keys)? else { return fail("`unique` failed") };
    let mut items = Vec::new();
    for (rank, _) in keys.entries() {
        items.extend(first.get(cx, rank)?.cloned());
    }
    Val::iter(cx, items)
}

pub(super) fn sum(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [attribute, start] = args.bind("sum", ["attribute", "start"], 0)?;
    let getter = getter(cx, &attribute)?;
    let mut sum = start.given().cloned().unwrap_or(Val::Int(0));
    if let Val::Str(_) = &sum {
        return fail("`sum` does not add strings");
    }
    for item in &items_of(cx, value)?.items {
        let item = match &getter {
            Some(getter) => getter.get(cx, item)?,
            None => item.clone(),
        };
        item.check_defined()?;
        sum = match (&sum, &item) {
            (Val::List(left), Val::List(right)) => {
                Val::list(cx, left.items.iter().chain(&right.items).cloned().collect())?
            }
            _ => match arithmetic("+", &sum, &item) {
                Some(sum) => sum?,
                None => return fail(format!("`sum` does not add a value of type `{}`", item.type_name())),
            },
        };
    }
    Ok(sum)
}

/// Groups of items with an equal attribute, sorted by it.
pub(super) fn groupby(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [attribute, default, is_case_sensitive] =
        args.bind("groupby", ["attribute", "default", "case_sensitive"], 1)?;
    let getter = Getter::new(cx, &attribute, default)?;
    let is_folded = !is_case_sensitive.is_true();
    let mut ranked = Vec::new();
    for item in &items_of(cx, value)?.items {
        ranked.push((rank(cx, item, Some(&getter), is_folded)?, item.clone()));
    }
    let items = ordered(cx, ranked, false)?;
    let mut groups: Vec<(Val, Val, Vec<Val>)> = Vec::new();
    for item in items {
        let rank = rank(cx, &item, Some(&getter), is_folded)?;
        match groups.last_mut() {
            Some((known, _, members)) if equal(cx, known, &rank)? => members.push(item),
            _ => groups.push((rank, getter.get(cx, &item)?, vec![item])),
        }
    }
    let mut found = Vec::new();
    for (_, grouper, members) in groups {
        let members = Val::list(cx, members)?;
        found.push(Val::group(cx, grouper, members)?);
    }
    Val::list(cx, found)
}
