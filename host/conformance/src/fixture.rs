//! The plugin under test: its options, splits and setups, and the cost of its calls.

use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::{Cost, FailureKind, NamedValue, Seed, TaskRef};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{EnvironmentEpisode, Plugin, Scorer, SplitInfo, ToolSession};

use crate::SuiteSettings;
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

/// Instructions of a start from which on a suite may be thinned, about four milliseconds' worth. Quick builds in languages
/// with a runtime need more, because each of their instances loads the author's files.
const COSTLY: u64 = 5_000_000;

/// Part of the starts and copies that a thinned suite makes: one in this number.
const THINNED: usize = 3;

/// Maximum number of option settings if starts are costly: all options at their least, and at their greatest values.
const COSTLY_SETTINGS: usize = 2;

/// Data shared by the checks.
pub(crate) struct Fixture {
    pub(crate) plugin: Plugin,
    pub(crate) settings: SuiteSettings,
    pub(crate) options: Vec<NamedValue>,
    /// The environment's splits.
    pub(crate) splits: Vec<SplitInfo>,
    /// Setups of a tool's session, one entry for each known one.
    pub(crate) setups: Vec<Option<Vec<u8>>>,
    /// Reason why a session could not be opened, if none could.
    pub(crate) closed: Option<String>,
    extent: Extent,
    /// Whether a start is so costly that the suite is thinned.
    costly: bool,
    used: Mutex<Vec<Used>>,
}

/// The plugin with synthetic answers to its outbound calls, in episodes and outside of them.
pub(crate) fn with_synthetic_answers(plugin: &Plugin) -> Plugin {
    plugin.with_granted_outbound(Arc::new(SyntheticOutbound)).with_outbound(Arc::new(SyntheticOutbound))
}

impl Fixture {
    /// Queries the plugin's description.
    pub(crate) async fn new(plugin: Plugin, settings: SuiteSettings) -> Result<Self, Stop> {
        let mut fixture = Self::open(plugin, settings, Extent::Full).await?;
        fixture.costly = fixture.settings.thin_costly && fixture.start_cost().await > COSTLY;
        Ok(fixture)
    }

    /// The fixture of a shorter suite with other options.
    pub(crate) async fn at(&self, options: Vec<NamedValue>) -> Result<Self, Stop> {
        let steps = self.settings.steps.min(BRIEF_STEPS);
        let settings = SuiteSettings { options, steps, recorded: vec![], ..self.settings.clone() };
        let brief = Self::open(self.plugin.clone(), settings, Extent::Brief).await?;
        Ok(Self { costly: self.costly, ..brief })
    }

    async fn open(plugin: Plugin, settings: SuiteSettings, extent: Extent) -> Result<Self, Stop> {
        let plugin = with_synthetic_answers(&plugin.with_assets(settings.assets.clone()));
        let plugin = match &settings.log {
            Some(log) => plugin.with_log_sink(Arc::clone(log)),
            None => plugin,
        };
        let asking = |(plugin, options): (Plugin, _)| (with_synthetic_answers(&plugin), options);
        let settings = SuiteSettings { beside: settings.beside.into_iter().map(asking).collect(), ..settings };
        let options = settings.options.clone();
        let mut fixture = Self {
            plugin,
            settings,
            options,
            splits: vec![],
            setups: vec![],
            closed: None,
            extent,
            costly: false,
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

    /// Instructions of the first start, or of the scoring of an empty group; 0 if it fails, which the checks report.
    async fn start_cost(&self) -> u64 {
        let (plugin, options, seed) = (&self.plugin, &self.options, self.seed("cost"));
        let cost = if let Some(task) = self.some_tasks(&self.splits).first() {
            let started = EnvironmentEpisode::start(plugin, task, options, seed).await;
            started.ok().map(|(episode, _)| episode.cost())
        } else if self.is(Kind::Tool) {
            let setup = self.setups.first().and_then(Option::as_deref);
            ToolSession::open(plugin, setup, options, seed).await.ok().map(|session| session.cost())
        } else {
            match Scorer::open(plugin, seed).await {
                Ok(mut scorer) => {
                    // A refusal of the group costs what a score does.
                    let _ = scorer.score(&[], options, 0).await;
                    Some(scorer.cost())
                }
                Err(_) => None,
            }
        };
        cost.and_then(|cost| cost.fuel).unwrap_or(0)
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

    /// Whether a suite makes the start or copy of this number: all of them, or one in three if starts are costly.
    pub(crate) fn makes(&self, number: usize) -> bool {
        number.is_multiple_of(self.one_in())
    }

    /// Maximum number of option settings of the shorter suites.
    pub(crate) fn most_settings(&self) -> usize {
        if self.costly { self.settings.most_settings.min(COSTLY_SETTINGS) } else { self.settings.most_settings }
    }

    /// One start or copy in this number is made.
    pub(crate) fn one_in(&self) -> usize {
        if self.costly { THINNED } else { 1 }
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

    /// The first, second, last and some random tasks of each split; in the shorter suite the first and the last. If starts
    /// are costly, the first and the last, and in the shorter suite the first.
    pub(crate) fn some_tasks(&self, splits: &[SplitInfo]) -> Vec<TaskRef> {
        let mut tasks = Vec::new();
        for split in splits {
            let count = split.tasks.unwrap_or(u64::MAX);
            let mut stream = self.seed("tasks").child(&split.name).stream();
            let near = count.min(1 << 20);
            let last = count.saturating_sub(1);
            let whole = !self.is_brief() && !self.costly;
            let random = (0..4).filter(|_| whole && near > 0).map(|_| stream.below(near));
            let random: Vec<u64> = random.collect();
            let fixed: &[u64] = match (self.is_brief(), self.costly) {
                (false, false) => &[0, 1, last],
                (true, true) => &[0],
                (false, true) | (true, false) => &[0, last],
            };
            let mut indices: Vec<u64> = fixed.iter().copied().chain(random).filter(|index| *index < count).collect();
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
