//! An environment episode or a tool session behind one interface: act, copy, restore and read.

use gymkhana_record::{Call, Cost, Function, NamedValue, Part, Seed, TaskRef, text_of};
use gymkhana_sandbox::{
    Action, Advice, CallError, EnvironmentEpisode, OptionalInterface, Plugin, Snapshot, Started, StepResult,
    ToolSession,
};

use crate::action::ScriptedAction;

/// With what a driver begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Start {
    /// An episode of this task.
    Episode(TaskRef),
    /// A session, with what an environment prepared for it.
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
    Episode(Box<EnvironmentEpisode>),
    Session(Box<ToolSession>),
}

/// What is acted on.
pub(crate) struct Driver {
    live: Live,
    /// What each seat may call; a session has one.
    functions: Vec<(u32, Vec<Function>)>,
    /// Whose turn it is.
    pub(crate) seat: u32,
    /// The episode has ended.
    pub(crate) over: bool,
    /// What was shown last, as text.
    pub(crate) shown: String,
    /// The last call of a session was answered as failed.
    pub(crate) failed: bool,
    /// What the last call used.
    pub(crate) cost: Cost,
}

/// A driver to go back to.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    pub(crate) snapshot: Snapshot,
    functions: Vec<(u32, Vec<Function>)>,
    seat: u32,
    over: bool,
    shown: String,
}

impl Driver {
    /// Begins, and tells everything that the plugin said at that.
    pub(crate) async fn begin(
        plugin: &Plugin,
        start: &Start,
        options: &[NamedValue],
        seed: Seed,
    ) -> Result<(Self, String), CallError> {
        let (live, functions, seat, shown, said) = match start {
            Start::Episode(task) => {
                let (episode, started) = EnvironmentEpisode::start(plugin, task, options, seed).await?;
                let said = format!("{started:?}");
                let Started { opening, seat } = started;
                let shown = opening.observations.iter().map(|(_, content)| text_of(content)).collect::<Vec<_>>();
                let functions = opening.functions.into_iter().map(|offer| (offer.seat, offer.functions)).collect();
                (Live::Episode(Box::new(episode)), functions, seat, shown.join("\n"), said)
            }
            Start::Session(setup) => {
                let functions = plugin.functions(options).await?;
                let session = ToolSession::open(plugin, setup.as_deref(), options, seed).await?;
                let said = format!("{functions:?}");
                (Live::Session(Box::new(session)), vec![(0, functions)], 0, String::new(), said)
            }
        };
        let mut driver = Self { live, functions, seat, over: false, shown, failed: false, cost: Cost::default() };
        driver.count();
        Ok((driver, said))
    }

    /// What the seat to move may call.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|(seat, _)| *seat == self.seat).flat_map(|(_, functions)| functions)
    }

    /// Whether it is a session, which is called and never spoken to.
    pub(crate) fn is_session(&self) -> bool {
        matches!(self.live, Live::Session(_))
    }

    /// Acts for the seat to move, and tells everything that the plugin said.
    pub(crate) async fn act(&mut self, act: &ScriptedAction) -> Result<String, CallError> {
        let said = match (&mut self.live, act) {
            (Live::Episode(episode), act) => {
                let action = match act {
                    ScriptedAction::Say(content) => Action::Message(content),
                    ScriptedAction::Call(call) => Action::Call(call),
                    ScriptedAction::Other(content) => Action::Other(content),
                };
                let stepped = episode.step(self.seat, action).await;
                if stepped.is_ok() {
                    episode.check_totals()?;
                }
                self.take_in(stepped?)
            }
            (Live::Session(session), ScriptedAction::Call(call)) => {
                let answer = session.call(call).await?;
                (self.shown, self.failed) = (text_of(&answer.content), answer.failed);
                format!("{answer:?}")
            }
            (Live::Session(_), ScriptedAction::Say(_) | ScriptedAction::Other(_)) => String::new(),
        };
        self.count();
        Ok(said)
    }

    fn take_in(&mut self, stepped: StepResult) -> String {
        let StepResult { observations, rewards, terminated, truncated, extras, seat } = stepped;
        self.over = terminated || truncated;
        let shown: Vec<String> = observations.iter().map(|(_, content)| text_of(content)).collect();
        self.shown = shown.join("\n");
        // Whose turn it is means nothing once the episode is over.
        self.seat = if self.over { self.seat } else { seat };
        let seat = (!self.over).then_some(seat);
        format!(
            "{observations:?}, rewards {rewards:?}, terminated {terminated}, truncated {truncated}, extras {extras:?}, \
             next {seat:?}"
        )
    }

    fn count(&mut self) {
        self.cost = match &self.live {
            Live::Episode(episode) => episode.cost(),
            Live::Session(session) => session.cost(),
        };
    }

    /// The expert's advice as an act, if there is an expert and the environment can do what it says by itself.
    pub(crate) async fn advice(&mut self) -> Result<Option<ScriptedAction>, CallError> {
        let Live::Episode(episode) = &mut self.live else { return Ok(None) };
        Ok(match episode.advise(&[], &[]).await? {
            Advice::Message(text) => Some(ScriptedAction::Say(vec![Part::Text(text)])),
            Advice::Calls(calls) => {
                let offered = |call: &Call| self.functions().any(|function| function.name == call.name);
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

    /// What to go back to.
    pub(crate) async fn save(&mut self) -> Result<Saved, CallError> {
        let snapshot = match &mut self.live {
            Live::Episode(episode) => episode.snapshot().await?,
            Live::Session(session) => session.snapshot().await?,
        };
        let Self { functions, seat, over, shown, .. } = self;
        Ok(Saved { snapshot, functions: functions.clone(), seat: *seat, over: *over, shown: shown.clone() })
    }

    /// A new driver in the saved state.
    pub(crate) async fn restore(plugin: &Plugin, saved: &Saved, of: &Start, seed: Seed) -> Result<Self, CallError> {
        let live = match of {
            Start::Episode(_) => {
                Live::Episode(Box::new(EnvironmentEpisode::restore(plugin, &saved.snapshot, seed).await?))
            }
            Start::Session(_) => Live::Session(Box::new(ToolSession::restore(plugin, &saved.snapshot, seed).await?)),
        };
        let Saved { functions, seat, over, shown, .. } = saved.clone();
        let mut driver = Self { live, functions, seat, over, shown, failed: false, cost: Cost::default() };
        driver.count();
        Ok(driver)
    }

    /// The canonical form of its state; none for a session.
    pub(crate) async fn state_key(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        match &mut self.live {
            Live::Episode(episode) => episode.state_key().await.map(Some),
            Live::Session(_) => Ok(None),
        }
    }

    /// Looks in every way that the plugin offers, and tells what was seen.
    pub(crate) async fn look(&mut self, plugin: &Plugin) -> Result<Vec<(&'static str, String)>, CallError> {
        let mut seen = Vec::new();
        match &mut self.live {
            Live::Episode(episode) => {
                if plugin.offers(OptionalInterface::Snapshot) {
                    seen.push(("snapshot", format!("{:?}", episode.snapshot().await?.bytes)));
                }
                if plugin.offers(OptionalInterface::StateKey) {
                    seen.push(("state-key", format!("{:?}", episode.state_key().await?)));
                }
                if plugin.offers(OptionalInterface::Privileged) {
                    seen.push(("privileged", format!("{:?}", episode.privileged().await?)));
                }
                if plugin.offers(OptionalInterface::Guidance) {
                    seen.push(("guidance", format!("{:?}", episode.guidance().await?)));
                }
                if plugin.offers(OptionalInterface::Render) {
                    seen.push(("render", format!("{:?}", episode.render().await?)));
                }
            }
            Live::Session(session) => {
                if plugin.offers(OptionalInterface::ToolSnapshot) {
                    seen.push(("snapshot", format!("{:?}", session.snapshot().await?.bytes)));
                }
                if plugin.offers(OptionalInterface::FinalView) {
                    seen.push(("final-view", format!("{:?}", session.final_view().await?)));
                }
            }
        }
        Ok(seen)
    }

    /// Ends it.
    pub(crate) async fn close(self) -> Result<(), CallError> {
        match self.live {
            Live::Episode(episode) => episode.close().await,
            Live::Session(session) => session.close().await,
        }
    }
}
