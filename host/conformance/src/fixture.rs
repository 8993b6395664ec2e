//! The plugin under test: its options, splits and setups, and the cost of its calls.

use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::{Cost, FailureKind, NamedValue, Seed, TaskRef};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{EnvironmentEpisode, Plugin, SplitInfo, ToolSession};

use crate::Settings;
use crate::driver::{Driver, Start};
use crate::finding::{CheckPhase, Stop};
use crate::synthetic_outbound::SyntheticOutbound;

/// Resource usage of one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Used {
    pub(crate) call: &'static str,
    pub(crate) cost: Cost,
}

/// Extent of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// The whole suite.
    Full,
    /// The shorter suite at the limits of options.
    Brief,
}

/// Number of random and fuzzed actions of the shorter suite.
const BRIEF_STEPS: u64 = 80;

/// Data shared by the checks.
pub(crate) struct Fixture {
    pub(crate) plugin: Plugin,
    pub(crate) settings: Settings,
    pub(crate) options: Vec<NamedValue>,
    /// The environment's splits.
    pub(crate) splits: Vec<SplitInfo>,
    /// Setups of a tool's session, one entry for each known one.
    pub(crate) setups: Vec<Option<Vec<u8>>>,
    /// Reason why a session could not be opened, if none could.
    pub(crate) closed: Option<String>,
    extent: Extent,
    used: Mutex<Vec<Used>>,
}

/// The plugin with synthetic answers to its outbound calls, in episodes and outside of them.
pub(crate) fn with_synthetic_answers(plugin: &Plugin) -> Plugin {
    plugin.granting(Arc::new(SyntheticOutbound)).asking(Arc::new(SyntheticOutbound))
}

impl Fixture {
    /// Queries the plugin's description.
    pub(crate) async fn new(plugin: Plugin, settings: Settings) -> Result<Self, Stop> {
        Self::open(plugin, settings, Extent::Full).await
    }

    /// The fixture of a shorter suite with other options.
    pub(crate) async fn at(&self, options: Vec<NamedValue>) -> Result<Self, Stop> {
        let steps = self.settings.steps.min(BRIEF_STEPS);
        let settings = Settings { options, steps, recorded: vec![], ..self.settings.clone() };
        Self::open(self.plugin.clone(), settings, Extent::Brief).await
    }

    async fn open(plugin: Plugin, settings: Settings, extent: Extent) -> Result<Self, Stop> {
        let plugin = with_synthetic_answers(&plugin.with_assets(settings.assets.clone()));
        let plugin = match &settings.log {
            Some(log) => plugin.logging(Arc::clone(log)),
            None => plugin,
        };
        let asking = |(plugin, options): (Plugin, _)| (with_synthetic_answers(&plugin), options);
        let settings = Settings { beside: settings.beside.into_iter().map(asking).collect(), ..settings };
        let options = settings.options.clone();
        let mut fixture = Self {
            plugin,
            settings,
            options,
            splits: vec![],
            setups: vec![],
            closed: None,
            extent,
            used: Mutex::default(),
        };
        if fixture.is(Kind::Environment) {
            fixture.splits = fixture.plugin.splits(&fixture.options).await.during("`splits` failed")?;
        }
        if fixture.is(Kind::Tool) {
            fixture.setups = fixture.known_setups().await?;
            let first = fixture.setups.first().and_then(Option::as_deref);
            match ToolSession::open(&fixture.plugin, first, &fixture.options, fixture.seed("setup")).await {
                Err(error) if error.kind == FailureKind::Refused => fixture.closed = Some(error.message),
                other => drop(other.during("a session could not be opened")?),
            }
        }
        Ok(fixture)
    }

    /// Setups of sessions: the one in the settings, else those that environments given with the tool prepare.
    async fn known_setups(&self) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        if let Some(setup) = &self.settings.setup {
            return Ok(vec![Some(setup.clone())]);
        }
        let mut setups = Vec::new();
        for (environment, options) in self.beside(Kind::Environment) {
            for task in self.some_tasks(&splits_of(environment, options).await?) {
                let started = EnvironmentEpisode::start(environment, &task, options, self.seed(&task)).await;
                let (_, started) = started.during(format!("task {task} of `{}` given with it", environment.name()))?;
                let mine = started.opening.setup.into_iter().filter(|(tool, _)| tool == self.plugin.name());
                setups.extend(mine.map(|(_, bytes)| Some(bytes)));
            }
        }
        Ok(if setups.is_empty() { vec![None] } else { setups })
    }

    /// Whether this is the shorter suite. Its checks must pass with every allowed option, also where options make a task
    /// trivial or unsolvable.
    pub(crate) fn is_brief(&self) -> bool {
        self.extent == Extent::Brief
    }

    /// Whether the plugin is of this kind.
    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.plugin.manifest().kinds.contains(&kind)
    }

    /// Plugins of this kind that are given with the plugin, with their options.
    pub(crate) fn beside(&self, kind: Kind) -> impl Iterator<Item = (&Plugin, &[NamedValue])> {
        let of_kind = move |(plugin, _): &&(Plugin, _)| plugin.manifest().kinds.contains(&kind);
        self.settings.beside.iter().filter(of_kind).map(|(plugin, options)| (plugin, options.as_slice()))
    }

    /// Seed for a labelled purpose.
    pub(crate) fn seed(&self, label: impl std::fmt::Display) -> Seed {
        Seed(self.settings.seed).child(label)
    }

    /// The first, second, last and some random tasks of each split; in the shorter suite the first and the last.
    pub(crate) fn some_tasks(&self, splits: &[SplitInfo]) -> Vec<TaskRef> {
        let mut tasks = Vec::new();
        for split in splits {
            let count = split.tasks.unwrap_or(u64::MAX);
            let mut stream = self.seed("tasks").child(&split.name).stream();
            let near = count.min(1 << 20);
            let random = (0..4).filter(|_| near > 0).map(|_| stream.below(near.max(1)));
            let some: Vec<u64> = if self.is_brief() { vec![] } else { [1].into_iter().chain(random).collect() };
            let mut indices: Vec<u64> =
                [0, count.saturating_sub(1)].into_iter().chain(some).filter(|index| *index < count).collect();
            indices.sort_unstable();
            indices.dedup();
            tasks.extend(indices.into_iter().map(|index| TaskRef { split: split.name.clone(), index }));
        }
        tasks
    }

    /// Starts of sessions, then of episodes.
    pub(crate) fn starts(&self) -> Vec<Start> {
        let sessions = self.setups.iter().filter(|_| self.closed.is_none()).cloned().map(Start::Session);
        let episodes = self.some_tasks(&self.splits).into_iter().map(Start::Episode);
        sessions.chain(episodes).collect()
    }

    /// Reason why the plugin has no start.
    pub(crate) fn nothing_to_play(&self) -> String {
        match &self.closed {
            Some(why) => format!(
                "a session cannot be opened: {why}; give its setup with --setup FILE, or the environment that \
                 prepares it with --with ENVIRONMENT.wasm"
            ),
            None => "a reward has neither episodes nor sessions".to_owned(),
        }
    }

    /// Records the usage of a driver's last call.
    pub(crate) fn count(&self, driver: &Driver, call: &'static str) {
        self.use_up(Used { call, cost: driver.cost });
    }

    /// Instructions of all calls so far.
    pub(crate) fn instructions(&self) -> u64 {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().filter_map(|used| used.cost.fuel).sum()
    }

    /// Records the usage of a call.
    pub(crate) fn use_up(&self, used: Used) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(used);
    }

    /// Usage of all calls so far.
    pub(crate) fn used(&self) -> Vec<Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Splits of an environment that is given with the plugin.
pub(crate) async fn splits_of(environment: &Plugin, options: &[NamedValue]) -> Result<Vec<SplitInfo>, Stop> {
    environment.splits(options).await.during(format!("`splits` of `{}` given with it", environment.name()))
}
