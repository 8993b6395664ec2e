//! `[[environments]]`: one of several environments of a run, with sections of its own.

use std::collections::BTreeMap;
use std::iter;

use gymkhana_algorithm::EnvironmentAdvantage;
use gymkhana_algorithm::WeightSchedule;
use gymkhana_rules::ContextStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::check_schedule;
use super::environment::check_wrappers;
use super::{EnvironmentSection, LimitsSection, Options, PluginSection, SamplerSection, Stage, WrapperEntry};
use crate::checks::is_default;
use crate::error::RunFileError;

/// One of several environments of a run. A section of the environment replaces the run's section of the same name as a
/// whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentEntry {
    /// Name of the environment in metrics, records and `--set environments.NAME.KEY=VALUE`.
    #[serde(default)]
    #[schemars(extend("x-range" = "unique in the run, without `/` and `:`", "x-default" = "the plugin's name"))]
    pub name: String,
    /// Name of the environment's plugin among `--plugins`.
    #[schemars(extend("x-range" = "an environment of `--plugins`"))]
    pub plugin: String,
    /// Share of the groups of each step, relative to the shares of the others; 0 for an environment that is only
    /// evaluated.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1e6))]
    pub share: f64,
    /// Split of training tasks.
    #[serde(default = "train")]
    #[schemars(extend("x-range" = "a split"))]
    pub train: String,
    /// Split of held-out tasks.
    #[serde(default = "eval")]
    #[schemars(extend("x-range" = "a split"))]
    pub eval: String,
    /// Number of held-out tasks, instead of `evaluation.tasks`; 0 leaves the environment out of evaluations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000), extend("x-default" = "`evaluation.tasks`"))]
    pub eval_tasks: Option<u64>,
    /// Factor of the sum of the environment's rewards.
    #[serde(default = "one")]
    #[schemars(range(min = -1e6, max = 1e6))]
    pub weight: f64,
    /// Change of the weight over training steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "constant"))]
    pub schedule: Option<WeightSchedule>,
    /// Condition under which the rewards count, such as `answer-match.correct >= 0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a [condition](#gates)"))]
    pub gate: Option<String>,
    /// Options of the plugin.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("x-range" = "the plugin's options"))]
    pub options: Options,
    /// Wrappers around the environment, the outermost first: a plugin's name, or a table with `plugin` and its options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-range" = "[wrappers](../how-to/wrap-environments.md) of `--plugins`, each once"))]
    pub wrap: Vec<WrapperEntry>,
    /// Success criterion, instead of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "x-range" = "`environment.FACT`, `REWARD.COMPONENT` or `REWARD.total`",
        "x-default" = "`success` of the run"
    ))]
    pub success: Option<String>,
    /// Tools and rewards of the environment, by plugin name. Without it the environment has all those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "all tools and rewards"))]
    pub plugins: Option<BTreeMap<String, EnvironmentPlugin>>,
    /// Limits of an episode. `live_mib` is that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`[limits]`"))]
    pub limits: Option<LimitsSection>,
    /// Context strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`[context]`"))]
    pub context: Option<ContextStrategy>,
    /// Sampler of the environment's training tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`[sampler]`"))]
    pub sampler: Option<SamplerSection>,
    /// Advantages of the environment's episodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub advantage: EnvironmentAdvantage,
    /// Reaction to more failed episodes than `failures.limit`, counted for this environment alone.
    #[serde(default)]
    pub when_failing: WhenFailing,
}

/// Tool or reward of one environment. A key that is absent has the value of the run's `[plugins.NAME]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentPlugin {
    /// Options of the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "BTreeMap<String, serde_json::Value>",
        extend("x-range" = "the plugin's options", "x-default" = "`plugins.NAME.options`")
    )]
    pub options: Option<Options>,
    /// Factor of the reward's total in the sum of rewards.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1e6, max = 1e6), extend("x-default" = "`plugins.NAME.weight`"))]
    pub weight: Option<f64>,
    /// Change of the reward's weight over training steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`plugins.NAME.schedule`"))]
    pub schedule: Option<WeightSchedule>,
    /// Condition under which the reward counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = "a [condition](#gates)", "x-default" = "`plugins.NAME.gate`"))]
    pub gate: Option<String>,
    /// Seat whose total and components all seats get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`plugins.NAME.seat`"))]
    pub seat: Option<String>,
}

impl EnvironmentPlugin {
    /// Puts the keys that are set into the run's section.
    pub(crate) fn lay_over(&self, section: &mut PluginSection) {
        let Self { options, weight, schedule, gate, seat } = self;
        options.iter().for_each(|options| section.options.clone_from(options));
        section.weight = weight.unwrap_or(section.weight);
        section.schedule = schedule.or(section.schedule);
        gate.iter().for_each(|gate| section.gate = Some(gate.clone()));
        seat.iter().for_each(|seat| section.seat = Some(seat.clone()));
    }
}

/// Reaction to an environment whose episodes fail too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFailing {
    /// The run stops with an error.
    #[default]
    Stop,
    /// The run continues without the environment; the others share its groups. The last environment is never dropped.
    Drop,
}

fn one() -> f64 {
    1.0
}

fn train() -> String {
    EnvironmentSection::default().train
}

fn eval() -> String {
    EnvironmentSection::default().eval
}

impl EnvironmentEntry {
    /// The keys that a run with this environment alone has in `[environment]`.
    pub(crate) fn section(&self) -> EnvironmentSection {
        EnvironmentSection {
            train: self.train.clone(),
            eval: self.eval.clone(),
            weight: self.weight,
            schedule: self.schedule,
            gate: self.gate.clone(),
            options: self.options.clone(),
            wrap: self.wrap.clone(),
        }
    }

    /// Rejects values out of range, and sections that contradict themselves or a stage.
    pub(crate) fn check(&self, stages: &[Stage]) -> Result<(), RunFileError> {
        let own = format!("environments.{}", self.name);
        if self.name.contains(['/', ':']) {
            return Err(RunFileError::Contradiction(format!(
                "the environment name `{}` holds a `/` or a `:`\nhint: set another `name`: metrics are called \
                 NAME/METRIC, and tasks NAME:SPLIT/INDEX",
                self.name
            )));
        }
        check_schedule(&own, self.schedule)?;
        check_wrappers(&own, Some(&self.plugin), &self.wrap)?;
        for (name, plugin) in self.plugins.iter().flatten() {
            check_schedule(&format!("{own}.plugins.{name}"), plugin.schedule)?;
        }
        if let Some(limits) = &self.limits {
            limits.check().map_err(|error| error.below(&own))?;
        }
        for stage in stages.iter().filter_map(Stage::as_rl) {
            let of_seats = stage.seats.keys().map(|seat| stage.settings_of_seat(seat));
            for settings in iter::once(stage.settings()).chain(of_seats) {
                let checked = self.advantage.check(&settings?.algorithm);
                checked.map_err(|error| {
                    RunFileError::Contradiction(format!("{own}.advantage, stage `{}`: {error}", stage.name))
                })?;
            }
        }
        Ok(())
    }
}
