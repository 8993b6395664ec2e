//! The environments of a run: each with the run file as it applies to it, its plugins, its rewards and its rollout.

mod recorded;

use std::collections::BTreeSet;
use std::sync::Arc;

use gymkhana_chat::ChatFormat;
use gymkhana_config::{EnvironmentSettings, RunFile};
use gymkhana_nearest::did_you_mean;
use gymkhana_record::{EpisodeRecord, Seed};
use gymkhana_rollout::{PluginSet, RewardSum, Rollout, StartAgent};
use gymkhana_sandbox::Plugin;

use crate::error::{RunError, RunResult};
use crate::plugins::{ByKind, bind_set, only_environment};
use crate::{rewards, rollout};

pub use recorded::recorded_environments;

/// An environment whose plugins are bound.
pub struct BoundEnvironment {
    /// The environment as the run file sets it.
    pub settings: EnvironmentSettings,
    /// Its plugins.
    pub set: PluginSet,
    /// Sum of its rewards.
    pub rewards: RewardSum,
}

/// An environment that can play episodes.
#[derive(Clone)]
pub struct RunEnvironment {
    /// The environment as the run file sets it.
    pub settings: EnvironmentSettings,
    /// Rules and plugins of its episodes.
    pub rollout: Arc<Rollout>,
}

/// The environments of a run, in the order of the run file; at least one.
#[derive(Clone)]
pub struct Environments(Vec<RunEnvironment>);

impl BoundEnvironment {
    /// An error about this environment, which names it in a run with several.
    #[must_use]
    pub fn blame(&self, error: RunError) -> RunError {
        blame(self.settings.name.as_deref(), error)
    }
}

impl RunEnvironment {
    /// Seed of the environment's tasks; `seed` is that of the run.
    #[must_use]
    pub fn task_seed(&self, seed: Seed) -> Seed {
        self.settings.name.as_ref().map_or(seed, |name| seed.child(name.as_str()))
    }

    /// An error about this environment, which names it in a run with several.
    #[must_use]
    pub fn blame(&self, error: RunError) -> RunError {
        blame(self.settings.name.as_deref(), error)
    }
}

fn blame(name: Option<&str>, error: RunError) -> RunError {
    match name {
        Some(name) => error.prefixed(format!("environment `{name}`")),
        None => error,
    }
}

/// Binds loaded plugins, sorted by name, to the environments of the run file.
///
/// # Errors
/// If an environment has no plugin, a section or an option has no plugin, a plugin is used by no environment, a rule
/// names no metric, or the environments have different seats.
pub async fn bind(file: &RunFile, loaded: Vec<Plugin>) -> RunResult<Vec<BoundEnvironment>> {
    let mut bound = Vec::new();
    let (kinds, mut used) = (ByKind::of(loaded.clone()), BTreeSet::new());
    for settings in file.environment_settings() {
        let name = settings.name.clone();
        let found = bind_one(settings, &kinds).await.map_err(|error| blame(name.as_deref(), error))?;
        used.extend(found.set.environment().plugin.chain().map(|plugin| plugin.name().to_owned()));
        used.extend(found.set.tool_names().chain(found.set.reward_names()).map(str::to_owned));
        bound.push(found);
    }
    if let Some(unused) = loaded.iter().find(|plugin| !used.contains(plugin.name())) {
        return Err(RunError::user(format!("plugin `{}` is used by no environment of the run", unused.name()))
            .with_hint("name it in one of [[environments]], or remove it from --plugins"));
    }
    same_seats(&bound)?;
    Ok(bound)
}

/// The plugins of the first environment, whose seats are those of all.
///
/// # Errors
/// Never for the result of [`bind`].
pub fn first_set(bound: &[BoundEnvironment]) -> RunResult<&PluginSet> {
    bound.first().map(|first| &first.set).ok_or_else(|| RunError::internal("a run without environments"))
}

/// The environments with the settings of a run file that was completed after they were bound.
#[must_use]
pub fn with_file(mut bound: Vec<BoundEnvironment>, file: &RunFile) -> Vec<BoundEnvironment> {
    for (environment, settings) in bound.iter_mut().zip(file.environment_settings()) {
        environment.settings = settings;
    }
    bound
}

async fn bind_one(settings: EnvironmentSettings, kinds: &ByKind) -> RunResult<BoundEnvironment> {
    let environment = match &settings.plugin {
        None => only_environment(kinds.environments.clone())?,
        Some(name) => called(name, &kinds.environments)?,
    };
    let (mut tools, mut rewards) = (kinds.tools.clone(), kinds.rewards.clone());
    if let Some(names) = &settings.plugins {
        tools.retain(|tool| names.contains(tool.name()));
        rewards.retain(|reward| names.contains(reward.name()));
        names_have_plugins(names, tools.iter().chain(&rewards), kinds)?;
    }
    let set = bind_set(&settings.rules, environment, &kinds.wrappers, tools, rewards).await?;
    let rewards = rewards::reward_sum(&settings.rules, &set)?;
    Ok(BoundEnvironment { settings, set, rewards })
}

/// The environment plugin of this name.
fn called(name: &str, environments: &[Plugin]) -> RunResult<Plugin> {
    let found = environments.iter().find(|plugin| plugin.name() == name);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = environments.iter().map(Plugin::name).collect();
        let hint = match &known[..] {
            [] => "add its file to --plugins".to_owned(),
            known => format!(
                "add its file to --plugins, or use one of `{}`{}",
                known.join("`, `"),
                did_you_mean(name, known.iter().copied())
            ),
        };
        RunError::user(format!("--plugins gives no environment `{name}`")).with_hint(hint)
    })
}

/// Rejects a name in an environment's `plugins` that is none of its tools and rewards.
fn names_have_plugins<'a>(
    names: &BTreeSet<String>,
    found: impl Iterator<Item = &'a Plugin>,
    kinds: &ByKind,
) -> RunResult<()> {
    let found: BTreeSet<&str> = found.map(Plugin::name).collect();
    let Some(name) = names.iter().find(|name| !found.contains(name.as_str())) else { return Ok(()) };
    let near = did_you_mean(name, kinds.tools.iter().chain(&kinds.rewards).map(Plugin::name));
    let message = format!("its `plugins` names `{name}`, and no such tool or reward is given");
    Err(RunError::user(message).with_hint(format!("add it to [plugins] or --plugins, or remove it{near}")))
}

/// Rejects environments with different seats, because the policies of a run belong to seats; an only seat may have any
/// name. Also rejects an environment that is called like a seat, because metrics have both names as a prefix.
fn same_seats(bound: &[BoundEnvironment]) -> RunResult<()> {
    let Some((first, others)) = bound.split_first() else { return Ok(()) };
    let mut names = bound.iter().filter_map(|environment| environment.settings.name.as_ref());
    let seats = first.set.seat_names();
    if let Some(name) = names.find(|name| seats.len() > 1 && seats.contains(name)) {
        return Err(RunError::user(format!(
            "the environment `{name}` has the name of a seat\nhint: set another `name`"
        )));
    }
    let is_only = |of: &BoundEnvironment| of.set.seats() == 1;
    let fits = |other: &&BoundEnvironment| other.set.seat_names() == seats || (is_only(first) && is_only(other));
    let Some(other) = others.iter().find(|other| !fits(other)) else {
        return Ok(());
    };
    let listed = |of: &BoundEnvironment| {
        format!("`{}` has `{}`", of.settings.name.as_deref().unwrap_or_default(), of.set.seat_names().join("`, `"))
    };
    Err(RunError::user(format!(
        "the environments of a run have the same seats, but {}, and {}\nhint: train them in separate runs",
        listed(first),
        listed(other)
    )))
}

impl Environments {
    /// Opens bound environments, with the agent program of the run if it has one. `chat` makes the chat format of the
    /// run's policy; `places` orders episodes for deterministic generation, see [`Rollout::with_deterministic_places`];
    /// `start` starts the agent program.
    ///
    /// # Errors
    /// If the chat format cannot be made, a tool or the probe collides with a context strategy, or the agent program
    /// cannot be used.
    pub fn open(
        file: &RunFile,
        bound: Vec<BoundEnvironment>,
        chat: impl Fn() -> RunResult<ChatFormat>,
        places: Option<usize>,
        start: Option<StartAgent>,
    ) -> RunResult<Self> {
        Self::build(bound, |settings, set, rewards| {
            let rollout = rollout::of_run(file, &settings.rules, set, chat()?, rewards, places)?;
            rollout::with_agent(rollout, file, &settings.rules, start)
        })
    }

    /// Environments whose rollouts share what exists once in a run.
    fn build(
        bound: Vec<BoundEnvironment>,
        rollout: impl Fn(&EnvironmentSettings, PluginSet, RewardSum) -> RunResult<Rollout>,
    ) -> RunResult<Self> {
        let mut opened: Vec<RunEnvironment> = Vec::new();
        for BoundEnvironment { settings, set, rewards } in bound {
            let own = rollout(&settings, set, rewards).map_err(|error| blame(settings.name.as_deref(), error))?;
            let own = own.named(settings.name.clone());
            let own = match opened.first() {
                Some(first) => own.beside(&first.rollout),
                None => own,
            };
            opened.push(RunEnvironment { settings, rollout: Arc::new(own) });
        }
        if opened.is_empty() {
            return Err(RunError::internal("a run without environments"));
        }
        Ok(Self(opened))
    }

    /// The first environment, which has what is common to all: metrics, seats, chat format.
    #[must_use]
    pub fn first(&self) -> &RunEnvironment {
        &self.0[0]
    }

    /// All environments.
    pub fn iter(&self) -> std::slice::Iter<'_, RunEnvironment> {
        self.0.iter()
    }

    /// The environment of a recorded episode.
    ///
    /// # Errors
    /// If the run has no environment of the record's name.
    pub fn of(&self, record: &EpisodeRecord) -> RunResult<&RunEnvironment> {
        self.0.iter().find(|environment| environment.settings.name == record.environment).ok_or_else(|| {
            let name = record.environment.as_deref().unwrap_or_default();
            RunError::user(format!(
                "episode {} is one of environment `{name}`, which the run file does not have\nhint: restore the run's \
                 run.toml",
                record.id
            ))
        })
    }

    /// The rollout of each environment.
    #[must_use]
    pub fn rollouts(&self) -> Vec<Arc<Rollout>> {
        self.0.iter().map(|environment| Arc::clone(&environment.rollout)).collect()
    }

    /// Largest number of plugin instances that an episode needs.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.iter().map(|environment| environment.rollout.plugins().places()).max().unwrap_or(1)
    }

    /// Whether the run has several environments, so that figures are also reported for each.
    #[must_use]
    pub fn are_named(&self) -> bool {
        self.first().settings.name.is_some()
    }
}
