//! One environment with its live episode, without Python: starts, steps, copies and closes.

use std::sync::Arc;
use std::time::Instant;

use gymkhana_driver::{DEFAULT_EPISODE_BYTES, Episode, EpisodeSeeds, EpisodeSetup, NoHooks, Reply};
use gymkhana_record::{CallSite, Content, Ending, Failure, FailureKind, NamedValue, Seed, TaskRef};
use gymkhana_sandbox::{Advice, EnvironmentEpisode, Image, OptionalInterface};

use crate::environment::spec::Spec;
use crate::environment::task::{Sequence, drawn};
use crate::errors::{Fault, PluginFailure};

/// Error of a step before the first episode.
const NOT_BEGUN: &str = "the episode cannot go on: it has not begun\nhint: call reset()";

/// Error of a step after the end.
const OVER: &str = "the episode cannot go on: it has ended\nhint: call reset() for the next one";

/// What an episode begins with. Each part that is missing is as before, or drawn.
#[derive(Debug, Clone, Default)]
pub struct Begin {
    /// Seed of this episode and of those after it.
    pub seed: Option<Seed>,
    /// Split.
    pub split: Option<String>,
    /// Place of the task in its split.
    pub task: Option<u64>,
    /// Options of the environment.
    pub options: Option<Vec<NamedValue>>,
}

/// An environment with at most one live episode.
pub struct Play {
    pub spec: Arc<Spec>,
    pub sequence: Sequence,
    /// Split of the next task.
    pub split: Option<String>,
    /// Task of every episode; drawn if there is none.
    pub task: Option<u64>,
    /// Apart, since batches move environments from thread to thread.
    pub live: Option<Box<Live>>,
}

/// A live episode.
pub struct Live {
    pub episode: Episode,
    pub seed: Seed,
    pub task: TaskRef,
    pub begun: Instant,
    /// What plugins say at the end, once it was read.
    pub closing: Option<Closing>,
}

/// Views of a finished episode, and the time until they were read.
#[derive(Debug, Clone)]
pub struct Closing {
    pub total_ms: f64,
    pub privileged: Vec<NamedValue>,
    pub hint: Option<Content>,
    pub views: Vec<NamedValue>,
}

impl Closing {
    /// No views, now.
    pub fn none(begun: Instant) -> Self {
        Self { total_ms: begun.elapsed().as_secs_f64() * 1e3, privileged: vec![], hint: None, views: vec![] }
    }
}

/// The part of the episode that one step added.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Seat that moved.
    pub seat: u32,
    /// First turn of the transcript.
    pub turns: usize,
    /// Number of each seat's earlier rewards.
    pub rewards: usize,
    /// First failure.
    pub failures: usize,
    /// How the episode ended.
    pub ending: Option<Ending>,
}

/// Seeds of the plugins of an episode, as in a run.
pub fn seeds(seed: Seed) -> EpisodeSeeds {
    EpisodeSeeds { environment: seed.child("environment"), tools: seed.child("tool") }
}

impl Play {
    /// An environment without an episode.
    ///
    /// # Errors
    /// If the split or the task does not exist.
    pub fn new(spec: Arc<Spec>, split: Option<String>, task: Option<u64>, seed: Seed) -> Result<Self, Fault> {
        let found = spec.split(split.as_deref())?;
        task.map(|index| Spec::task(found, index)).transpose()?;
        Ok(Self { spec, sequence: Sequence::new(seed), split, task, live: None })
    }

    /// Begins an episode and ends the one before.
    ///
    /// # Errors
    /// If the split, the task or an option does not exist, or the environment fails.
    pub async fn reset(&mut self, begin: Begin) -> Result<(), Fault> {
        let Begin { seed, split, task, options } = begin;
        self.live = None;
        if let Some(options) = options {
            let bound = self.spec.environment.plugin.clone();
            let tools = self.spec.tools.tools().iter().map(|tool| tool.bound.clone()).collect();
            self.spec = Arc::new(Spec::new(bound, options, tools).await?);
        }
        if let Some(seed) = seed {
            self.sequence = Sequence::new(seed);
        }
        let split = self.spec.split(split.as_deref().or(self.split.as_deref()))?;
        let seed = self.sequence.next();
        let task = match task.or(self.task) {
            Some(index) => Spec::task(split, index)?,
            None => drawn(split, seed),
        };
        let setup = EpisodeSetup {
            environment: &self.spec.environment,
            tools: &self.spec.tools,
            task: task.clone(),
            seeds: seeds(seed),
            overrides: Arc::default(),
            max_bytes: DEFAULT_EPISODE_BYTES,
        };
        let begun = Instant::now();
        let opened = Episode::open(setup, self.spec.info.seats.len(), &[], &mut NoHooks).await;
        let episode = opened.map_err(|failed| failed.failure)?;
        self.live = Some(Box::new(Live { episode, seed, task, begun, closing: None }));
        Ok(())
    }

    /// The episode, ended or not.
    ///
    /// # Errors
    /// If none has begun.
    pub fn live(&mut self) -> Result<&mut Live, Fault> {
        self.live.as_deref_mut().ok_or(Fault::Ended(NOT_BEGUN))
    }

    /// The episode, which continues.
    ///
    /// # Errors
    /// If none has begun, or it has ended.
    pub fn check_running(&mut self) -> Result<&mut Live, Fault> {
        let live = self.live()?;
        if live.episode.data.ending.is_none() { Ok(live) } else { Err(Fault::Ended(OVER)) }
    }

    /// Whether there is an episode that continues.
    pub fn is_running(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.episode.data.ending.is_none())
    }

    /// Takes a turn of the seat to move. A failure of the environment ends the episode and is the step's ending.
    ///
    /// # Errors
    /// If the episode is over.
    pub async fn step(&mut self, reply: Reply) -> Result<Step, Fault> {
        let live = self.check_running()?;
        let data = &live.episode.data;
        let (seat, turns, rewards, failures) = (data.seat, data.turns.len(), data.steps as usize, data.failures.len());
        let ending = live.episode.take_turn(&mut NoHooks, reply, u32::MAX).await;
        // A limit of the host ends an episode without the environment.
        live.episode.data.ending = ending;
        Ok(Step { seat, turns, rewards, failures, ending })
    }

    /// A copy of the environment and its episode, which then continue apart.
    ///
    /// # Errors
    /// If a plugin with state offers no snapshots, or fails.
    pub async fn fork(&mut self) -> Result<Self, Fault> {
        let live = match self.live.as_deref_mut() {
            None => None,
            Some(Live { episode, seed, task, begun, closing }) => {
                check_copies(episode)?;
                let snapshot = episode.snapshot().await?;
                let episode = Episode::restore(&snapshot, episode.data.clone(), seeds(*seed)).await?;
                Some(Box::new(Live {
                    episode,
                    seed: *seed,
                    task: task.clone(),
                    begun: *begun,
                    closing: closing.clone(),
                }))
            }
        };
        let (spec, split) = (Arc::clone(&self.spec), self.split.clone());
        Ok(Self { spec, sequence: self.sequence, split, task: self.task, live })
    }

    /// What the environment's expert would do.
    ///
    /// # Errors
    /// If the environment has no oracle or fails, or the episode is over.
    pub async fn advise(&mut self) -> Result<Advice, Fault> {
        self.live()?.check_offers(OptionalInterface::Oracle, "oracle")?;
        let live = self.check_running()?;
        Ok(live.episode.advise(&NoHooks).await?)
    }

    /// What rewards and teachers see.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub async fn privileged(&mut self) -> Result<Vec<NamedValue>, Fault> {
        let live = self.live()?;
        let (interface, site) = (OptionalInterface::Privileged, CallSite::Privileged);
        match live.episode.read(&NoHooks, interface, site, EnvironmentEpisode::privileged).await {
            Some(view) => Ok(view?),
            None => Err(live.lacks("privileged view")),
        }
    }

    /// A picture of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub async fn render(&mut self) -> Result<String, Fault> {
        let live = self.live()?;
        live.check_offers(OptionalInterface::Render, "rendering")?;
        let drawn = live.episode.environment().render().await;
        let plugin = self.spec.environment.plugin.name();
        match drawn.map_err(|error| PluginFailure::of(plugin, error))? {
            Image::Text(text) | Image::Svg(text) | Image::Other(text) => Ok(text),
        }
    }

    /// The canonical form of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub async fn state_key(&mut self) -> Result<Vec<u8>, Fault> {
        let live = self.live()?;
        live.check_offers(OptionalInterface::StateKey, "state key")?;
        let taken = live.episode.data.steps;
        Ok(live.episode.state_key(taken).await?)
    }
}

/// Checks that an episode can be copied.
pub fn check_copies(episode: &Episode) -> Result<(), Fault> {
    if episode.can_be_copied() {
        return Ok(());
    }
    let why = "the episode cannot be copied: its environment, or a tool that was called, offers no snapshots";
    Err(Fault::Option(why.to_owned()))
}

impl Live {
    fn check_offers(&self, interface: OptionalInterface, name: &str) -> Result<(), Fault> {
        if self.episode.offers(interface) { Ok(()) } else { Err(self.lacks(name)) }
    }

    /// The error of an interface that the environment does not offer.
    fn lacks(&self, name: &str) -> Fault {
        let at = self.episode.boundary();
        let plugin = at.plugin().unwrap_or_default().to_owned();
        PluginFailure { plugin, kind: FailureKind::Refused, message: format!("{at} offers no {name}") }.into()
    }

    /// Reads the views of a finished episode, once. A failure is added to the episode's.
    pub async fn close(&mut self) -> Closing {
        if let Some(closing) = &self.closing {
            return closing.clone();
        }
        let mut closing = Closing::none(self.begun);
        if self.episode.data.ending != Some(Ending::EnvironmentFailed) {
            let (interface, site) = (OptionalInterface::Privileged, CallSite::Privileged);
            let seen = self.episode.read(&NoHooks, interface, site, EnvironmentEpisode::privileged).await;
            closing.privileged = self.kept(CallSite::Privileged, seen).unwrap_or_default();
            let (interface, site) = (OptionalInterface::Guidance, CallSite::Guidance);
            let seen = self.episode.read(&NoHooks, interface, site, EnvironmentEpisode::guidance).await;
            closing.hint = self.kept(CallSite::Guidance, seen);
        }
        closing.views = self.episode.final_views().await;
        self.closing = Some(closing.clone());
        closing
    }

    fn kept<T: serde::Serialize>(&mut self, site: CallSite, seen: Option<Result<T, Failure>>) -> Option<T> {
        let seen = seen?.and_then(|value| self.episode.keep(site, value));
        seen.map_err(|failure| self.episode.data.failures.push(failure)).ok()
    }
}
