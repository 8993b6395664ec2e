//! Lines at the start of a run: model, plugins, stages and folder.

use std::fmt::{Display, Formatter, Result};
use std::path::Path;

use gymkhana_config::{Checkpoint, EnvironmentEntry, PolicySection, Stage};
use gymkhana_registry::Lock;

/// Settings and plugins that a run starts with.
pub(crate) struct Banner<'a> {
    pub policy: &'a PolicySection,
    /// Number of the policy's parameters.
    pub parameters: u64,
    /// Checkpoint from which a resumed run continues.
    pub resumed: Option<&'a Path>,
    pub lock: &'a Lock,
    /// Environments of a run with several.
    pub environments: &'a [EnvironmentEntry],
    pub stages: &'a [Stage],
    pub out: &'a Path,
}

impl Display for Banner<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let model = match (self.resumed, &self.policy.checkpoint) {
            (Some(folder), _) => folder.display().to_string(),
            (None, Some(Checkpoint::Folder(folder))) => folder.display().to_string(),
            (None, Some(Checkpoint::Hub(model))) => model.hub.clone(),
            (None, None) => "tiny".to_owned(),
        };
        let parameters = in_words(self.parameters);
        writeln!(f, "model: {model}, {parameters} parameters, on {}", self.policy.device)?;
        let plugins = self.lock.entries().iter().map(|entry| format!("{} {}", entry.name, entry.version));
        writeln!(f, "plugins: {}", plugins.collect::<Vec<_>>().join(", "))?;
        if !self.environments.is_empty() {
            let total: f64 = self.environments.iter().map(|entry| entry.share).sum();
            let shares =
                self.environments.iter().map(|entry| format!("{} {:.1} %", entry.name, 100.0 * entry.share / total));
            writeln!(f, "environments: {}", shares.collect::<Vec<_>>().join(", "))?;
        }
        let stages = self.stages.iter().map(|stage| {
            let steps = if stage.steps() == 1 { "step" } else { "steps" };
            let rate = stage.optimizer().learning_rate;
            format!("{} ({} {steps}, learning rate {rate:e})", stage.name(), stage.steps())
        });
        writeln!(f, "stages: {}", stages.collect::<Vec<_>>().join(", "))?;
        write!(f, "folder: {}", self.out.display())
    }
}

/// A count with about three digits.
fn in_words(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{} thousand", (count + 500) / 1000),
        1_000_000..1_000_000_000 => format!("{:.2} million", count as f64 / 1e6),
        _ => format!("{:.2} billion", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_about_three_digits() {
        assert_eq!(in_words(6608), "6608");
        assert_eq!(in_words(99_500), "100 thousand");
        assert_eq!(in_words(1_350_000), "1.35 million");
        assert_eq!(in_words(7_615_616_512), "7.62 billion");
    }
}
