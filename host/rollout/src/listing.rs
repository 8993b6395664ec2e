//! Lists of names in messages.

/// Names in backquotes, separated by commas, or `none`.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}
