//! An environment episode or a tool session behind one interface: act, copy, restore and read.

use std::sync::Arc;

use gymkhana_driver::{
    BoundPlugin, DEFAULT_EPISODE_BYTES, Episode, EpisodeData, EpisodeSeeds, EpisodeSetup, EpisodeSnapshot, Hooks,
    TimedCall,
};
use gymkhana_record::{Call, Cost, Function, NamedValue, Part, Seed, TaskRef, text_of};
use gymkhana_sandbox::{Action, Advice, CallError, OptionalInterface, Plugin, Snapshot, StepResult, ToolSession};

use crate::action::ScriptedAction;
use crate::tree::Tree;

/// Start of a driver.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Start {
    /// An episode of this task.
    Episode(TaskRef),
    /// A session, with the data that an environment prepared for it.
    Session(Option<Vec<u8>>),
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Episode(task) => write!(f, "task {task}"),
            Self::Session(None) => f.write_str("a session"),
            Self::Session(Some(setup)) => write!(f, "a session with a setup of {} bytes", setup.len()),
        }
    }
}

enum Live {
    Episode(Box<Episode>),
    Session { session: Box<ToolSession>, plugin: Plugin, functions: Vec<Function> },
}

/// A live episode or session.
pub(crate) struct Driver {
    live: Live,
    /// Whether the episode has ended.
    pub(crate) over: bool,
    /// Text of the last observations or of the last answer.
    pub(crate) shown: String,
    /// Whether the last call of a session was answered as failed.
    pub(crate) failed: bool,
    /// Cost of the last call.
    pub(crate) cost: Cost,
}

/// A state of a driver.
#[derive(Clone)]
pub(crate) struct Saved {
    state: SavedState,
    over: bool,
    shown: String,
}

#[derive(Clone)]
enum SavedState {
    Episode { snapshot: Box<EpisodeSnapshot>, data: Box<EpisodeData> },
    Session { snapshot: Snapshot, plugin: Plugin, functions: Vec<Function> },
}

impl Saved {
    fn snapshot(&self) -> &Snapshot {
        match &self.state {
            SavedState::Episode { snapshot, .. } => &snapshot.environment,
            SavedState::Session { snapshot, .. } => snapshot,
        }
    }

    /// Bytes that the plugin wrote.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.snapshot().bytes
    }

    /// The same state with other bytes.
    pub(crate) fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        let mut saved = self.clone();
        match &mut saved.state {
            SavedState::Episode { snapshot, .. } => snapshot.environment.bytes = bytes,
            SavedState::Session { snapshot, .. } => snapshot.bytes = bytes,
        }
        saved
    }
}

/// What reads of a state returned, by interface.
pub(crate) type Views = Vec<(&'static str, Tree)>;

/// Keeps everything that a step returned.
#[derive(Default)]
struct Transcriber(Option<Tree>);

impl Hooks for Transcriber {
    type Timer = ();

    fn time(&self, _call: TimedCall) {}

    fn stepped(&mut self, result: &StepResult) {
        self.0 = Some(Tree::step(result));
    }
}

impl Driver {
    /// Begins. Returns also everything that the plugin returned.
    pub(crate) async fn begin(
        plugin: &Plugin,
        start: &Start,
        options: &[NamedValue],
        seed: Seed,
    ) -> Result<(Self, Tree), CallError> {
        let (live, shown, said) = match start {
            Start::Episode(task) => {
                let seats = plugin.environment_info().await?.seats.len() as u32;
                let setup = EpisodeSetup {
                    environment: &BoundPlugin { plugin: plugin.clone(), options: options.to_vec() },
                    tools: &Arc::default(),
                    task: task.clone(),
                    seeds: EpisodeSeeds::same(seed),
                    overrides: Arc::default(),
                    max_bytes: DEFAULT_EPISODE_BYTES,
                };
                let hooks = &mut Transcriber::default();
                let mut episode = Episode::start(setup, hooks).await.map_err(|failed| failed.failure)?;
                let said = Tree::opening(&episode.data.opening, episode.data.seat);
                episode.offer(seats, &[])?;
                episode.observe_opening(hooks);
                let shown = shown(&episode.data);
                (Live::Episode(Box::new(episode)), shown, said)
            }
            Start::Session(setup) => {
                let functions = plugin.functions(options).await?;
                let session = Box::new(ToolSession::open(plugin, setup.as_deref(), options, seed).await?);
                let said = Tree::functions(&functions);
                (Live::Session { session, plugin: plugin.clone(), functions }, String::new(), said)
            }
        };
        let mut driver = Self { live, over: false, shown, failed: false, cost: Cost::default() };
        driver.count();
        Ok((driver, said))
    }

    /// Functions that the seat to move may call.
    pub(crate) fn functions(&self) -> &[Function] {
        match &self.live {
            Live::Episode(episode) => episode.data.functions(episode.data.seat),
            Live::Session { functions, .. } => functions,
        }
    }

    /// Whether it is a session, which can only be called.
    pub(crate) fn is_session(&self) -> bool {
        matches!(self.live, Live::Session { .. })
    }

    /// Acts for the seat to move. Returns everything that the plugin returned.
    pub(crate) async fn act(&mut self, action: &ScriptedAction) -> Result<Tree, CallError> {
        let said = match (&mut self.live, action) {
            (Live::Episode(episode), action) => {
                let hooks = &mut Transcriber::default();
                // Only the observations of this action are shown, and the oracle sees only its answers.
                episode.data.turns.clear();
                episode.data.results.iter_mut().for_each(Vec::clear);
                let action = match action {
                    ScriptedAction::Say(content) => Action::Message(content),
                    ScriptedAction::Call(call) => Action::Call(call),
                    ScriptedAction::Other(content) => Action::Other(content),
                };
                self.over = episode.step(hooks, action).await.is_err();
                if let Some(failure) = episode.data.failures.pop() {
                    return Err(failure.into());
                }
                episode.check_totals()?;
                self.shown = shown(&episode.data);
                hooks.0.take().unwrap_or_else(Tree::nothing)
            }
            (Live::Session { session, .. }, ScriptedAction::Call(call)) => {
                let answer = session.call(call).await?;
                (self.shown, self.failed) = (text_of(&answer.content), answer.failed);
                Tree::answer(&answer)
            }
            (Live::Session { .. }, ScriptedAction::Say(_) | ScriptedAction::Other(_)) => Tree::nothing(),
        };
        self.count();
        Ok(said)
    }

    fn count(&mut self) {
        self.cost = match &mut self.live {
            Live::Episode(episode) => episode.environment().cost(),
            Live::Session { session, .. } => session.cost(),
        };
    }

    /// The oracle's advice as an action, if the environment can perform it without tools.
    pub(crate) async fn advice(&mut self) -> Result<Option<ScriptedAction>, CallError> {
        let Live::Episode(episode) = &mut self.live else { return Ok(None) };
        Ok(match episode.advise(&Transcriber::default()).await? {
            Advice::Message(text) => Some(ScriptedAction::Say(vec![Part::Text(text)])),
            Advice::Calls(calls) => {
                let offered = |call: &Call| self.functions().iter().any(|function| function.name == call.name);
                calls.into_iter().find(|call| offered(call)).map(ScriptedAction::Call)
            }
        })
    }

    /// Whether the plugin can copy it.
    pub(crate) fn can_be_saved(plugin: &Plugin, start: &Start) -> bool {
        plugin.offers(match start {
            Start::Episode(_) => OptionalInterface::Snapshot,
            Start::Session(_) => OptionalInterface::ToolSnapshot,
        })
    }

    /// Saves the state.
    pub(crate) async fn save(&mut self) -> Result<Saved, CallError> {
        let state = match &mut self.live {
            Live::Episode(episode) => {
                let snapshot = Box::new(episode.snapshot().await?);
                SavedState::Episode { snapshot, data: Box::new(episode.data.clone()) }
            }
            Live::Session { session, plugin, functions } => SavedState::Session {
                snapshot: session.snapshot().await?,
                plugin: plugin.clone(),
                functions: functions.clone(),
            },
        };
        Ok(Saved { state, over: self.over, shown: self.shown.clone() })
    }

    /// Opens a driver in the saved state.
    pub(crate) async fn restore(saved: &Saved, seed: Seed) -> Result<Self, CallError> {
        let live = match &saved.state {
            SavedState::Episode { snapshot, data } => {
                Live::Episode(Box::new(Episode::restore(snapshot, (**data).clone(), EpisodeSeeds::same(seed)).await?))
            }
            SavedState::Session { snapshot, plugin, functions } => {
                let session = Box::new(ToolSession::restore(plugin, snapshot, seed).await?);
                Live::Session { session, plugin: plugin.clone(), functions: functions.clone() }
            }
        };
        let Saved { over, shown, .. } = saved.clone();
        let mut driver = Self { live, over, shown, failed: false, cost: Cost::default() };
        driver.count();
        Ok(driver)
    }

    /// The canonical form of the state; `None` for a session.
    pub(crate) async fn state_key(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        match &mut self.live {
            Live::Episode(episode) => episode.environment().state_key().await.map(Some),
            Live::Session { .. } => Ok(None),
        }
    }

    /// Reads the state through every interface that the plugin offers.
    pub(crate) async fn read_state(&mut self, plugin: &Plugin) -> Result<Views, CallError> {
        let mut seen = Vec::new();
        match &mut self.live {
            Live::Episode(episode) => {
                let environment = episode.environment();
                if plugin.offers(OptionalInterface::Snapshot) {
                    seen.push(("snapshot", Tree::bytes(&environment.snapshot().await?.bytes)));
                }
                if plugin.offers(OptionalInterface::StateKey) {
                    seen.push(("state-key", Tree::bytes(&environment.state_key().await?)));
                }
            }
            Live::Session { session, .. } => {
                if plugin.offers(OptionalInterface::ToolSnapshot) {
                    seen.push(("snapshot", Tree::bytes(&session.snapshot().await?.bytes)));
                }
            }
        }
        seen.extend(self.views(plugin).await?);
        Ok(seen)
    }

    /// What the state shows besides the answers to actions, by interface. Snapshots and state keys are not views: they are
    /// compared by their own checks.
    pub(crate) async fn views(&mut self, plugin: &Plugin) -> Result<Views, CallError> {
        let mut seen = Vec::new();
        match &mut self.live {
            Live::Episode(episode) => {
                let environment = episode.environment();
                if plugin.offers(OptionalInterface::Privileged) {
                    seen.push(("privileged", Tree::named(&environment.privileged().await?)));
                }
                if plugin.offers(OptionalInterface::Guidance) {
                    seen.push(("guidance", Tree::content(&environment.guidance().await?)));
                }
                if plugin.offers(OptionalInterface::Render) {
                    seen.push(("render", Tree::image(&environment.render().await?)));
                }
            }
            Live::Session { session, .. } => {
                if plugin.offers(OptionalInterface::FinalView) {
                    seen.push(("final-view", Tree::named(&session.final_view().await?)));
                }
            }
        }
        Ok(seen)
    }

    /// Closes it.
    pub(crate) async fn close(self) -> Result<(), CallError> {
        match self.live {
            Live::Episode(episode) => episode.close().await,
            Live::Session { session, .. } => session.close().await,
        }
    }
}

/// Text of the last observations.
fn shown(data: &EpisodeData) -> String {
    data.last_observations().into_iter().map(|(_, content)| text_of(content)).collect::<Vec<_>>().join("\n")
}
