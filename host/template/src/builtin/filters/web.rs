//! Filters for HTML and URLs.

use super::soft;
use crate::builtin::html::escaped;
use crate::context::Context;
use crate::error::{Fault, fail};
use crate::text::{Builder, Str, is_space};
use crate::value::{Args, Val, items_of, print};

pub(super) fn escape(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("escape", [], 0)?;
    Val::text(cx, escaped(cx, &soft(cx, value)?)?)
}

pub(super) fn forceescape(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("forceescape", [], 0)?;
    Val::text(cx, escaped(cx, &soft(cx, value)?.with_markup(false))?)
}

pub(super) fn safe(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("safe", [], 0)?;
    Ok(Val::Str(soft(cx, value)?.with_markup(true)))
}

/// Attributes of an element from a dictionary.
pub(super) fn xmlattr(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [autospace] = args.bind("xmlattr", ["autospace"], 0)?;
    let Val::Dict(dict) = value else { return fail("`xmlattr` needs a dictionary") };
    let mut to = Builder::default();
    for (key, value) in dict.entries() {
        if value.present().is_none() {
            continue;
        }
        let key = print(cx, key)?;
        cx.inspect(&key);
        if key.as_str().contains(|letter: char| is_space(letter) || "/>=".contains(letter)) {
            return fail("the name of an attribute has a character that is not allowed");
        }
        if to.len() > 0 || autospace.given().is_none_or(Val::is_true) {
            to.own(" ");
        }
        to.add_str(&escaped(cx, &key)?);
        to.own("=\"");
        to.add_str(&escaped(cx, &print(cx, value)?)?);
        to.own("\"");
    }
    Val::text(cx, to.finish())
}

/// The text without tags and comments, with single spaces.
pub(super) fn striptags(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("striptags", [], 0)?;
    let text = soft(cx, value)?;
    cx.inspect(&text);
    cx.work(text.len())?;
    let without = without(&without(text.as_str(), "<!--", "-->"), "<", ">");
    let words: Vec<&str> = without.split(is_space).filter(|word| !word.is_empty()).collect();
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&#34;", "\""), ("&quot;", "\""), ("&amp;", "&")];
    let plain = entities.iter().fold(words.join(" "), |text, (entity, letter)| text.replace(entity, letter));
    Val::text(cx, text.remade(&plain))
}

/// The text without parts between two marks.
fn without(text: &str, start: &str, end: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(start) {
        let Some((_, after)) = after.split_once(end) else { break };
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Percent encoding of a text, or of pairs as a query.
pub(super) fn urlencode(cx: &Context, value: &Val, args: Args) -> Result<Val, Fault> {
    let [] = args.bind("urlencode", [], 0)?;
    let pairs: Vec<(Val, Val)> = match value {
        Val::Dict(dict) => dict.entries().to_vec(),
        Val::List(_) | Val::Tuple(_) | Val::Iter(_) => {
            let mut pairs = Vec::new();
            for pair in &items_of(cx, value)?.items {
                match items_of(cx, pair)?.items.as_slice() {
                    [key, value] => pairs.push((key.clone(), value.clone())),
                    _ => return fail("`urlencode` takes pairs"),
                }
            }
            pairs
        }
        single => return Val::text(cx, quoted(cx, &soft(cx, single)?, "/")?),
    };
    let mut to = Builder::default();
    for (place, (key, value)) in pairs.iter().enumerate() {
        to.own(if place > 0 { "&" } else { "" });
        to.add_str(&plus(&quoted(cx, &soft(cx, key)?, " ")?));
        to.own("=");
        to.add_str(&plus(&quoted(cx, &soft(cx, value)?, " ")?));
    }
    Val::text(cx, to.finish())
}

fn plus(text: &Str) -> Str {
    text.map_letters(|letter, to| to.push(if letter == ' ' { '+' } else { letter }))
}

fn quoted(cx: &Context, text: &Str, safe: &str) -> Result<Str, Fault> {
    cx.inspect(text);
    cx.hold(text.len().saturating_mul(3))?;
    Ok(text.map_letters(|letter, to| {
        if letter.is_ascii_alphanumeric() || "_.-~".contains(letter) || safe.contains(letter) {
            to.push(letter);
            return;
        }
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            to.push_str(&format!("%{byte:02X}"));
        }
    }))
}
