//! Warnings at the start of a run: settings that are allowed and seldom meant.

use gymkhana_config::{RunFile, Stage};
use gymkhana_orchestration::environments::BoundEnvironment;
use gymkhana_orchestration::{Classify, Reporter, RunResult, rewards};
use gymkhana_registry::Capability;
use gymkhana_sandbox::Plugin;

/// Learning rate from which on a stage is warned of. Usual ones are a hundredth of it or less.
const HIGH_RATE: f64 = 0.1;

/// Warns of settings of a run file and of its plugins.
///
/// # Errors
/// If a stage's settings are invalid.
pub(crate) fn of_settings(file: &RunFile, bound: &[BoundEnvironment], reporter: &dyn Reporter) -> RunResult<()> {
    let provoked = bound.iter().filter_map(|bound| rewards::provoked_warning(&bound.set, &bound.rewards));
    for warning in high_rates(file)?.into_iter().chain(tools_without_files(file, bound)).chain(provoked) {
        reporter.warn(&warning);
    }
    Ok(())
}

/// Learning rates that are so high that weights diverge within a few steps.
fn high_rates(file: &RunFile) -> RunResult<Vec<String>> {
    let mut rates = Vec::new();
    for stage in &file.stages {
        rates.push((stage.name(), "optimizer.learning_rate".to_owned(), stage.optimizer().learning_rate));
        let Stage::Rl(rl) = stage else { continue };
        let critic = rl.settings().user_error()?.algorithm.critic;
        rates.extend(
            critic.map(|critic| (stage.name(), "settings.critic.learning_rate".to_owned(), critic.learning_rate)),
        );
        for seat in rl.seats.keys() {
            let own = file.settings_of_model(rl, Some(seat)).user_error()?.optimizer.learning_rate;
            rates.push((stage.name(), format!("seats.{seat}.optimizer.learning_rate"), own));
        }
    }
    let high = rates.into_iter().filter(|(.., rate)| *rate >= HIGH_RATE);
    let warning = |(stage, key, rate): (&str, String, f64)| {
        format!(
            "stage `{stage}`: {key} is {rate}, at which weights diverge within a few steps\nhint: use 1e-2 or less; usual \
             rates are 1e-6 to 1e-3"
        )
    };
    Ok(high.map(warning).collect())
}

/// Tools that read mounted files and get none, such as a search without documents.
fn tools_without_files(file: &RunFile, bound: &[BoundEnvironment]) -> Vec<String> {
    let tools = bound.iter().flat_map(|bound| bound.set.tools().tools());
    let has_none = |plugin: &Plugin| {
        let is_mounted = file.rules.plugins.get(plugin.name()).is_some_and(|section| !section.assets.is_empty());
        plugin.manifest().capabilities.contains(&Capability::Assets) && !is_mounted
    };
    let mut names: Vec<&str> =
        tools.map(|tool| &tool.bound.plugin).filter(|plugin| has_none(plugin)).map(Plugin::name).collect();
    names.sort_unstable();
    names.dedup();
    let warning = |name: &str| {
        format!(
            "tool `{name}` reads files that the run mounts, and the run mounts none for it\nhint: add `assets = {{ \
             \"NAME\" = \"FILE\" }}` to [plugins.{name}]"
        )
    };
    names.into_iter().map(warning).collect()
}
