//! The filters of the language.

mod number;
mod select;
mod sequence;
mod text;
mod web;
mod wrap;

use super::{FilterFunction, tojson};
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::value::{Args, Val, length_of, print};

/// The filter of a name.
pub(crate) fn filter(name: &str) -> Option<FilterFunction> {
    Some(match name {
        "abs" => number::abs,
        "attr" => select::attr,
        "batch" => sequence::batch,
        "capitalize" => text::capitalize,
        "center" => text::center,
        "count" | "length" => length,
        "d" | "default" => default,
        "dictsort" => sequence::dictsort,
        "e" | "escape" => web::escape,
        "forceescape" => web::forceescape,
        "filesizeformat" => number::filesizeformat,
        "first" => sequence::first,
        "float" => number::float,
        "format" => text::format,
        "groupby" => select::groupby,
        "indent" => text::indent,
        "int" => number::int,
        "items" => sequence::items,
        "join" => select::join,
        "last" => sequence::last,
        "list" => sequence::list,
        "lower" => text::lower,
        "map" => select::map,
        "max" => select::max,
        "min" => select::min,
        "pprint" => |_, _, _| fail("`pprint` is not supported"),
        "random" => |_, _, _| fail("`random` is not supported, since prompts must not depend on chance"),
        "reject" => |cx, value, args| select::select(cx, value, args, false, false),
        "rejectattr" => |cx, value, args| select::select(cx, value, args, false, true),
        "replace" => text::replace,
        "reverse" => sequence::reverse,
        "round" => number::round,
        "safe" => web::safe,
        "string" => text::string,
        "select" => |cx, value, args| select::select(cx, value, args, true, false),
        "selectattr" => |cx, value, args| select::select(cx, value, args, true, true),
        "slice" => sequence::slice,
        "sort" => select::sort,
        "striptags" => web::striptags,
        "sum" => select::sum,
        "title" => text::title,
        "tojson" => tojson::tojson,
        "trim" => text::trim,
        "truncate" => wrap::truncate,
        "unique" => select::unique,
        "upper" => text::upper,
        "urlencode" => web::urlencode,
        "urlize" => |_, _, _| fail("`urlize` is not supported"),
        "wordcount" => wrap::wordcount,
        "wordwrap" => wrap::wordwrap,
        "xmlattr" => web::xmlattr,
        _ => return None,
    })
}

fn length(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("length", [], 0)?;
    Ok(Val::int(length_of(cx, value)?))
}

fn default(_cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [default, is_boolean] = args.bind("default", ["default_value", "boolean"], 0)?;
    if value.is_undefined() || (is_boolean.is_true() && !value.is_true()) {
        return Ok(default.given().cloned().unwrap_or_else(|| Val::own("")));
    }
    Ok(value.clone())
}

/// The value as a string.
fn soft(cx: &Context, value: &Val) -> Result<crate::text::Str, Fault> {
    print(cx, value)
}
