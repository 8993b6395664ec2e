//! Values of a run file that figures are compared with.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// A run file that is not TOML.
#[derive(Debug, thiserror::Error)]
#[error("the run file cannot be read: {0}")]
pub struct RunFileSyntaxError(#[from] toml::de::Error);

/// Values of a stage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StageBounds {
    /// Name for people and for `--set`.
    pub name: String,
    /// `step_divergence` in nats per token; `None` without a bound.
    pub step_divergence: Option<f64>,
    /// Whether the loss corrects for stale tokens.
    pub off_policy: bool,
}

impl StageBounds {
    /// A key of the stage in backquotes, as `--set` accepts it.
    pub fn key(&self, key: &str) -> String {
        format!("`stages.{}.{key}`", self.name)
    }
}

/// Values of a resolved run file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HealthSettings {
    pub(crate) stages: Vec<StageBounds>,
    /// Context length in tokens.
    context: Option<u64>,
    /// Context lengths of environments with their own.
    contexts: BTreeMap<String, u64>,
}

impl HealthSettings {
    /// Reads the resolved run file of a run's folder.
    ///
    /// # Errors
    /// If the text is not TOML. Keys may be absent.
    pub fn parse(text: &str) -> Result<Self, RunFileSyntaxError> {
        let file: Table = toml::from_str(text)?;
        let tables = |key: &str| file.get(key).and_then(Value::as_array).into_iter().flatten();
        let contexts = tables("environments").filter_map(|own| {
            let name = own.get("name").or_else(|| own.get("plugin"))?.as_str()?;
            Some((name.to_owned(), context(own.as_table()?)?))
        });
        Ok(Self {
            context: context(&file),
            contexts: contexts.collect(),
            stages: tables("stages").map(stage).collect(),
        })
    }

    /// Context length of an environment in tokens, if the run file has it.
    pub(crate) fn context(&self, environment: Option<&str>) -> Option<u64> {
        environment.and_then(|name| self.contexts.get(name)).copied().or(self.context)
    }

    /// Values of a stage; a folder that no run wrote has none, and the defaults.
    pub(crate) fn stage(&self, index: u32) -> StageBounds {
        let unnamed = || StageBounds { name: index.to_string(), step_divergence: None, off_policy: false };
        self.stages.get(index as usize).cloned().unwrap_or_else(unnamed)
    }
}

fn context(table: &Table) -> Option<u64> {
    u64::try_from(table.get("limits")?.get("context_tokens")?.as_integer()?).ok()
}

fn stage(stage: &Value) -> StageBounds {
    let text = |key: &str| stage.get(key).and_then(Value::as_str);
    StageBounds {
        name: text("name").or_else(|| text("kind")).unwrap_or("stage").to_owned(),
        step_divergence: stage.get("step_divergence").and_then(Value::as_float).filter(|bound| *bound > 0.0),
        off_policy: stage.get("settings").is_some_and(|settings| settings.get("off_policy").is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_contexts_are_read() {
        let text = "[limits]\ncontext_tokens = 512\n[[environments]]\nplugin = \"lake\"\n[environments.limits]\n\
                    context_tokens = 64\n[[stages]]\nkind = \"sft\"\n[[stages]]\nkind = \"rl\"\nname = \"main\"\n\
                    step_divergence = 1e-3\n[stages.settings.off_policy]\nkind = \"truncate\"\n";
        let settings = HealthSettings::parse(text).unwrap();
        assert_eq!((settings.context(None), settings.context(Some("lake"))), (Some(512), Some(64)));
        let [sft, rl] = [0, 1].map(|index| settings.stage(index));
        assert_eq!((sft.name.as_str(), sft.step_divergence, sft.off_policy), ("sft", None, false));
        assert_eq!(
            (rl.key("steps").as_str(), rl.step_divergence, rl.off_policy),
            ("`stages.main.steps`", Some(1e-3), true)
        );
        assert_eq!(settings.stage(7).name, "7");
    }

    #[test]
    fn a_file_that_is_not_toml_is_refused() {
        let error = HealthSettings::parse("stages = [").unwrap_err().to_string();
        assert!(error.starts_with("the run file cannot be read: "), "{error}");
    }
}
