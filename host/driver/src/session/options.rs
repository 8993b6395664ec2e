//! Options that a client gives, checked against those that a plugin declares.

use gymkhana_nearest::did_you_mean;
use gymkhana_record::{NamedValue, Value};
use gymkhana_sandbox::OptionInfo;

/// An option that a plugin does not declare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}` has no option `{option}`\nhint: {}", hint(option, known))]
pub struct UnknownOption {
    /// Short name of the plugin.
    pub plugin: String,
    /// The option.
    pub option: String,
    /// Names of the plugin's options.
    pub known: Vec<String>,
}

impl UnknownOption {
    /// The error of an option that is not among these.
    #[must_use]
    pub fn new(plugin: &str, option: &str, declared: &[OptionInfo]) -> Self {
        let known = declared.iter().map(|option| option.name.clone()).collect();
        Self { plugin: plugin.to_owned(), option: option.to_owned(), known }
    }
}

fn hint(option: &str, known: &[String]) -> String {
    if known.is_empty() {
        return "it has none".to_owned();
    }
    let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("its options are {}{}", listed.join(", "), did_you_mean(option, known.iter().map(String::as_str)))
}

/// Checks names, and turns integers into numbers where the plugin declares a number.
///
/// # Errors
/// If the plugin declares no option of a name.
pub fn check_options(
    plugin: &str,
    options: Vec<NamedValue>,
    declared: &[OptionInfo],
) -> Result<Vec<NamedValue>, UnknownOption> {
    let checked = |NamedValue { name, value }: NamedValue| {
        let info = declared.iter().find(|info| info.name == name);
        let info = info.ok_or_else(|| UnknownOption::new(plugin, &name, declared))?;
        let value = match (value, &info.default) {
            (Value::Integer(integer), Value::Number(_)) => Value::Number(integer as f64),
            (value, _) => value,
        };
        Ok(NamedValue { name, value })
    };
    options.into_iter().map(checked).collect()
}
