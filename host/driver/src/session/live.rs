//! An episode of a session, until the next one begins.

use std::time::Instant;

use gymkhana_record::{CallSite, Ending, EpisodeId, EpisodeRecord, NamedValue, Seed, TaskRef, Timing};
use gymkhana_sandbox::{Advice, EnvironmentEpisode, Image, OptionalInterface};

use super::{DescribedEnvironment, SessionError};
use crate::data::Extent;
use crate::episode::{Episode, EpisodeSeeds, StartFailure};
use crate::finish::FinalViews;
use crate::hooks::NoHooks;
use crate::saved::SavedEpisode;
use crate::turn::Reply;

/// An episode with its task, its seed and its start.
pub struct LiveEpisode {
    /// The episode.
    pub episode: Episode,
    /// Its seed.
    pub seed: Seed,
    begun: Instant,
    /// The final views with the time until they were read, in milliseconds; absent until then.
    end: Option<(FinalViews, f64)>,
}

/// Result of a turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnResult {
    /// Seat that moved.
    pub seat: u32,
    /// What the episode held before it.
    pub before: Extent,
    /// How the episode ended; `None` while it continues.
    pub ending: Option<Ending>,
}

impl LiveEpisode {
    /// Opens an episode, with seeds of the plugins as in a run.
    ///
    /// # Errors
    /// If the environment does not start.
    pub async fn open(
        environment: &DescribedEnvironment,
        task: TaskRef,
        seed: Seed,
        max_bytes: u64,
    ) -> Result<Self, StartFailure> {
        let begun = Instant::now();
        let episode = environment.open(task, EpisodeSeeds::of(seed), max_bytes).await?;
        Ok(Self { episode, seed, begun, end: None })
    }

    /// Continues an episode that was saved with the same plugins.
    ///
    /// # Errors
    /// If other tools were there, or a plugin cannot read its state.
    pub async fn restore(
        environment: &DescribedEnvironment,
        saved: SavedEpisode,
        seed: Seed,
    ) -> Result<Self, SessionError> {
        let (snapshot, data) = saved.open(environment.bound(), environment.tools())?;
        let episode = Episode::restore(&snapshot, data, EpisodeSeeds::of(seed)).await?;
        Ok(Self { episode, seed, begun: Instant::now(), end: None })
    }

    /// The task.
    #[must_use]
    pub fn task(&self) -> &TaskRef {
        &self.episode.data.task
    }

    /// Takes a turn of the seat to move. A failure of the environment ends the episode.
    pub async fn step(&mut self, reply: Reply) -> TurnResult {
        let (seat, before) = (self.episode.data.seat, self.episode.data.extent());
        let ending = self.episode.take_turn(&mut NoHooks, reply, u32::MAX).await;
        // A limit of the host ends an episode without the environment.
        self.episode.data.ending = ending;
        TurnResult { seat, before, ending }
    }

    /// A copy that continues apart.
    ///
    /// # Errors
    /// If a plugin with a state offers no snapshots, or fails.
    pub async fn fork(&mut self) -> Result<Self, SessionError> {
        self.check_can_be_copied()?;
        let snapshot = self.episode.snapshot().await?;
        let episode = Episode::restore(&snapshot, self.episode.data.clone(), EpisodeSeeds::of(self.seed)).await?;
        Ok(Self { episode, seed: self.seed, begun: self.begun, end: self.end.clone() })
    }

    /// The whole episode as data.
    ///
    /// # Errors
    /// If a plugin with a state offers no snapshots, or fails.
    pub async fn save(&mut self) -> Result<SavedEpisode, SessionError> {
        self.check_can_be_copied()?;
        let snapshot = self.episode.snapshot().await?;
        Ok(SavedEpisode::new(&snapshot, self.episode.data.clone()))
    }

    fn check_can_be_copied(&self) -> Result<(), SessionError> {
        if self.episode.can_be_copied() { Ok(()) } else { Err(SessionError::NotCopied) }
    }

    fn check_offers(&self, interface: OptionalInterface, what: &'static str) -> Result<(), SessionError> {
        if self.episode.offers(interface) { Ok(()) } else { Err(self.episode.unsupported(what)) }
    }

    /// What the environment's oracle would do.
    ///
    /// # Errors
    /// If the environment has no oracle, or fails.
    pub async fn advise(&mut self) -> Result<Advice, SessionError> {
        self.check_offers(OptionalInterface::Oracle, "oracle")?;
        Ok(self.episode.advise(&NoHooks).await?)
    }

    /// The canonical form of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub async fn state_key(&mut self) -> Result<Vec<u8>, SessionError> {
        self.check_offers(OptionalInterface::StateKey, "state key")?;
        let taken = self.episode.data.steps;
        Ok(self.episode.state_key(taken).await?)
    }

    /// The record as a run would write it, without tokens. An episode that continues is `dropped`.
    pub async fn record(&mut self, environment: &DescribedEnvironment, id: EpisodeId) -> EpisodeRecord {
        let ending = self.episode.data.ending;
        let (FinalViews { privileged, hint, views }, total_ms) = match ending {
            None => (FinalViews::default(), self.age_ms()),
            Some(ending) => self.end(ending).await,
        };
        let ending = ending.unwrap_or(Ending::Dropped);
        let record = EpisodeRecord::new(id, self.task().clone(), self.seed, ending);
        let unsandboxed = environment.unsandboxed();
        let record = EpisodeRecord { privileged, hint, views, unsandboxed, selected: false, ..record };
        let record = self.episode.data.clone().into_record(ending, self.begun, record);
        let rewards = record.environment_rewards.iter().map(|own| own.rewards.iter().fold(0.0, |sum, one| sum + one));
        let (rewards, timing) = (rewards.collect(), Timing { total_ms, ..record.timing });
        EpisodeRecord { rewards, timing, ..record }
    }

    /// The final views of an ended episode, which are read once.
    async fn end(&mut self, ending: Ending) -> (FinalViews, f64) {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let age_ms = self.age_ms();
        let end = (self.episode.read_final_views(&NoHooks, ending).await, age_ms);
        self.end.insert(end).clone()
    }

    fn age_ms(&self) -> f64 {
        self.begun.elapsed().as_secs_f64() * 1e3
    }
}

impl Episode {
    /// What rewards and teachers see.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub async fn privileged(&mut self) -> Result<Vec<NamedValue>, SessionError> {
        let (interface, site) = (OptionalInterface::Privileged, CallSite::Privileged);
        match self.read(&NoHooks, interface, site, EnvironmentEpisode::privileged).await {
            Some(view) => Ok(view?),
            None => Err(self.unsupported("privileged view")),
        }
    }

    /// A picture of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub async fn render(&mut self) -> Result<Image, SessionError> {
        if !self.offers(OptionalInterface::Render) {
            return Err(self.unsupported("rendering"));
        }
        let plugin = self.bound.plugin.name().to_owned();
        self.environment.render().await.map_err(|error| SessionError::Call { plugin, error })
    }

    /// The error of an interface that the environment does not offer.
    fn unsupported(&self, what: &'static str) -> SessionError {
        SessionError::Unsupported { at: self.boundary(), what }
    }
}
