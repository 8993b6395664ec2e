//! Global functions.

use super::strftime::strftime;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Cycler, Dict, Joiner, NamespaceObject, Native, RangeObject, Val, items_of, print};

/// Most items of a range, as in Jinja's sandbox.
const MAX_RANGE: i128 = 100_000;

/// The global function of a name.
pub(crate) fn global(name: &str) -> Option<Val> {
    let (name, function): (&'static str, Native) = match name {
        "range" => ("range", range),
        "dict" => ("dict", dict),
        "namespace" => ("namespace", NamespaceObject::make),
        "cycler" => ("cycler", Cycler::make),
        "joiner" => ("joiner", Joiner::make),
        "lipsum" => ("lipsum", |_, _| fail("`lipsum` is not supported")),
        "raise_exception" => ("raise_exception", raise_exception),
        "strftime_now" => ("strftime_now", strftime),
        _ => return None,
    };
    Some(Val::Function(name, function))
}

fn raise_exception(cx: &Context, args: Args) -> Result<Val, Fault> {
    let [message] = args.bind("raise_exception", ["message"], 1)?;
    Err(Fault::Raised(print(cx, &message)?.as_str().to_owned()))
}

fn range(_cx: &Context, args: Args) -> Result<Val, Fault> {
    let Args { positional, named } = args;
    if !named.is_empty() {
        return fail("`range` takes no named arguments");
    }
    let mut numbers = Vec::new();
    for value in positional {
        numbers.push(value.need_int("an argument of `range`")?);
    }
    let (start, stop, step) = match *numbers {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] => (start, stop, step),
        _ => return fail(format!("`range` takes 1 to 3 arguments, got {}", numbers.len())),
    };
    if step == 0 {
        return fail("the step of `range` is 0");
    }
    let (Ok(start), Ok(stop), Ok(step)) = (i64::try_from(start), i64::try_from(stop), i64::try_from(step)) else {
        return fail("a bound of `range` is too large");
    };
    let distance = i128::from(stop) - i128::from(start);
    let (distance, size) = if step > 0 { (distance, i128::from(step)) } else { (-distance, -i128::from(step)) };
    let count = if distance > 0 { (distance - 1) / size + 1 } else { 0 };
    if count > MAX_RANGE {
        return fail(format!("a range has {count} items, more than {MAX_RANGE}"));
    }
    Ok(Val::Range(RangeObject { start, step, len: usize::try_from(count).unwrap_or(0) }))
}

fn dict(cx: &Context, args: Args) -> Result<Val, Fault> {
    let mut entries = Vec::new();
    match args.positional.as_slice() {
        [] => {}
        [Val::Dict(dict)] => entries.extend(dict.entries().iter().cloned()),
        [pairs] => {
            for pair in &items_of(cx, pairs)?.items {
                match items_of(cx, pair)?.items.as_slice() {
                    [key, value] => entries.push((key.clone(), value.clone())),
                    items => return fail(format!("`dict` takes pairs, got {} items", items.len())),
                }
            }
        }
        _ => return fail("`dict` takes at most one argument without a name"),
    }
    entries.extend(args.named.into_iter().map(|(name, value)| (Val::Str(name), value)));
    Dict::make(cx, entries)
}
