//! Names of functions and parameters in their tags.

use super::{NameForm, Tags};

/// A name in a tag.
pub(super) struct TagName<'t> {
    /// The name.
    pub name: &'t str,
    /// The attribute `string`, if the tag has it.
    pub string: Option<bool>,
    /// The text behind the tag.
    pub behind: &'t str,
}

/// Most bytes of a name.
const LONGEST: usize = 512;

/// Reads a function's name behind its mark, or gives the reason why it is none.
pub(super) fn function<'t>(text: &'t str, tags: &Tags) -> Result<TagName<'t>, String> {
    let named = match tags.name {
        NameForm::Element { .. } => {
            let text = text.trim_start();
            let end = text.find(['<', '\n']).unwrap_or(text.len());
            let (name, behind) = text.split_at(end);
            TagName { name: name.trim(), string: None, behind }
        }
        NameForm::Plain | NameForm::Attribute => in_tag(text, tags).ok_or("the function's name is not closed by >")?,
    };
    if named.name.is_empty() || named.name.contains(|c: char| c.is_whitespace() || "<>{}\"'".contains(c)) {
        return Err("the call has no function name".to_owned());
    }
    Ok(named)
}

/// Reads a parameter's name behind its mark, or gives the reason why it is none.
pub(super) fn parameter<'t>(text: &'t str, tags: &Tags) -> Result<TagName<'t>, String> {
    let NameForm::Element { value, end } = tags.name else {
        let named = in_tag(text, tags).ok_or("a parameter's name is not closed by >")?;
        return if named.name.is_empty() { Err("a parameter has no name".to_owned()) } else { Ok(named) };
    };
    let stop = text.find('<').unwrap_or(text.len());
    let (name, behind) = text.split_at(stop);
    let behind = behind.strip_prefix(end).ok_or_else(|| format!("a parameter's name is not closed by {end}"))?;
    let name = name.trim();
    let behind = behind.trim_start().strip_prefix(value).ok_or_else(|| format!("{value} does not follow `{name}`"))?;
    Ok(TagName { name, string: None, behind })
}

/// A name in front of `>`.
fn in_tag<'t>(text: &'t str, tags: &Tags) -> Option<TagName<'t>> {
    let quote = text.chars().next().filter(|c| tags.name == NameForm::Attribute && matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let end = text.find(['<', '>', '\n'])?;
        let behind = text.get(end..)?.strip_prefix('>')?;
        return Some(TagName { name: text.get(..end)?.trim(), string: None, behind });
    };
    let inside = text.get(1..)?;
    let end = inside.bytes().take(LONGEST).position(|byte| byte == quote as u8)?;
    let (name, behind) = (inside.get(..end)?, inside.get(end + 1..)?);
    let close = behind.find(['<', '>', '\n'])?;
    let string = match behind.get(..close)?.trim() {
        "" => None,
        "string=\"true\"" => Some(true),
        "string=\"false\"" => Some(false),
        _ => return None,
    };
    Some(TagName { name, string, behind: behind.get(close..)?.strip_prefix('>')? })
}
