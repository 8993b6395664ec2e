//! Names of methods of Python's types that change nothing.

use crate::value::Val;

/// Names of the methods of strings.
const OF_TEXT: [&str; 44] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];

/// Whether the value has a method of this name.
pub(super) fn has_method(value: &Val, name: &str) -> bool {
    let names: &[&str] = match value {
        Val::Str(_) => &OF_TEXT,
        Val::List(_) | Val::Tuple(_) => &["count", "index"],
        Val::Dict(_) => &["copy", "fromkeys", "get", "items", "keys", "values"],
        Val::Range(_) => &["count", "index"],
        Val::Float(_) => &["is_integer"],
        Val::Object(object) => object.methods(),
        _ => &[],
    };
    names.contains(&name)
}
