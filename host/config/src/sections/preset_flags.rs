//! A stage's own flags, laid over those of its preset.

/// Value of a flag that removes it from the preset.
pub(super) const OFF: &str = "off";

/// Overlays the preset with the stage's flags. A table overrides single keys unless its `kind` differs; `"off"` removes
/// a key.
pub(super) fn lay_over(flags: &mut toml::Table, settings: &toml::Table) {
    for (key, value) in settings {
        match (flags.get_mut(key), value) {
            (_, toml::Value::String(off)) if off == OFF => drop(flags.remove(key)),
            (Some(toml::Value::Table(preset)), toml::Value::Table(own))
                if own.get("kind").is_none_or(|kind| preset.get("kind") == Some(kind)) =>
            {
                preset.extend(own.clone());
            }
            _ => drop(flags.insert(key.clone(), value.clone())),
        }
    }
}
