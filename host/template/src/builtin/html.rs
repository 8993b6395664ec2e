//! Escapes of HTML.

use crate::context::Context;
use crate::error::Fault;
use crate::text::Str;

fn escape_letter(letter: char, to: &mut String) {
    match letter {
        '&' => to.push_str("&amp;"),
        '<' => to.push_str("&lt;"),
        '>' => to.push_str("&gt;"),
        '\'' => to.push_str("&#39;"),
        '"' => to.push_str("&#34;"),
        _ => to.push(letter),
    }
}

/// The text as HTML, with escapes unless it is HTML already.
pub(crate) fn escaped(cx: &Context, text: &Str) -> Result<Str, Fault> {
    if text.is_markup() {
        return Ok(text.clone());
    }
    cx.inspect(text);
    cx.hold(text.len().saturating_mul(2))?;
    Ok(text.map_letters(escape_letter).with_markup(true))
}
