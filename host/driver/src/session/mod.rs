//! One environment whose episodes are played one after the other: which task and seed the next one has, and the present
//! one.

mod environment;
mod error;
mod live;
mod options;
mod sequence;

use std::sync::Arc;

use gymkhana_record::Seed;
use gymkhana_rules::DEFAULT_EPISODE_BYTES;

pub use environment::DescribedEnvironment;
pub use error::{SessionError, TaskError};
pub use live::{LiveEpisode, TurnResult};
pub use options::{UnknownOption, check_options};
pub use sequence::{EpisodeSequence, NextEpisode};

use crate::turn::Reply;

/// An environment with at most one episode.
pub struct EpisodeSession {
    environment: Arc<DescribedEnvironment>,
    /// Split and task of an episode that names none.
    defaults: NextEpisode,
    sequence: EpisodeSequence,
    // Apart, since programs move sessions from thread to thread.
    live: Option<Box<LiveEpisode>>,
}

impl EpisodeSession {
    /// A session without an episode. `root` is the seed of the first one, `defaults` have the split and the task of
    /// episodes that name none.
    ///
    /// # Errors
    /// If the split or the task does not exist.
    pub fn new(environment: Arc<DescribedEnvironment>, root: Seed, defaults: NextEpisode) -> Result<Self, TaskError> {
        match defaults.task {
            Some(task) => drop(environment.task(defaults.split.as_deref(), task)?),
            None => drop(environment.split(defaults.split.as_deref())?),
        }
        Ok(Self { environment, defaults, sequence: EpisodeSequence::new(root), live: None })
    }

    /// A session as it was saved.
    #[must_use]
    pub fn resume(
        environment: Arc<DescribedEnvironment>,
        sequence: EpisodeSequence,
        defaults: NextEpisode,
        live: Option<LiveEpisode>,
    ) -> Self {
        Self { environment, defaults, sequence, live: live.map(Box::new) }
    }

    /// The environment.
    #[must_use]
    pub fn environment(&self) -> &Arc<DescribedEnvironment> {
        &self.environment
    }

    /// Replaces the environment, for the next episode. The present one ends.
    pub fn set_environment(&mut self, environment: Arc<DescribedEnvironment>) {
        self.live = None;
        self.environment = environment;
    }

    /// Split and task of an episode that names none.
    #[must_use]
    pub fn defaults(&self) -> &NextEpisode {
        &self.defaults
    }

    /// Where the sequence of episodes is.
    #[must_use]
    pub fn sequence(&self) -> EpisodeSequence {
        self.sequence
    }

    /// Begins an episode and ends the one before.
    ///
    /// # Errors
    /// If the split or the task does not exist, or the environment fails.
    pub async fn reset(&mut self, next: NextEpisode) -> Result<&mut LiveEpisode, SessionError> {
        self.live = None;
        let NextEpisode { split, task, seed } = next;
        if let Some(seed) = seed {
            self.sequence = EpisodeSequence::new(seed);
        }
        let split = split.or_else(|| self.defaults.split.clone());
        let task = task.or(self.defaults.task);
        let (task, seed) = self.sequence.next(&self.environment, split.as_deref(), task)?;
        let live = LiveEpisode::open(&self.environment, task, seed, DEFAULT_EPISODE_BYTES).await?;
        Ok(self.live.insert(Box::new(live)))
    }

    /// The present episode, ended or not.
    #[must_use]
    pub fn present(&self) -> Option<&LiveEpisode> {
        self.live.as_deref()
    }

    /// The present episode, ended or not.
    ///
    /// # Errors
    /// If none has begun.
    pub fn live(&mut self) -> Result<&mut LiveEpisode, SessionError> {
        self.live.as_deref_mut().ok_or(SessionError::NotBegun)
    }

    /// The present episode, which continues.
    ///
    /// # Errors
    /// If none has begun, or it has ended.
    pub fn running(&mut self) -> Result<&mut LiveEpisode, SessionError> {
        let live = self.live()?;
        if live.episode.data.ending.is_none() { Ok(live) } else { Err(SessionError::Over) }
    }

    /// Whether there is an episode that continues.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.episode.data.ending.is_none())
    }

    /// Takes a turn of the seat to move. A failure of the environment ends the episode.
    ///
    /// # Errors
    /// If none has begun, or it has ended.
    pub async fn step(&mut self, reply: Reply) -> Result<TurnResult, SessionError> {
        Ok(self.running()?.step(reply).await)
    }

    /// A copy of the session and its episode, which then continue apart.
    ///
    /// # Errors
    /// If a plugin with a state offers no snapshots, or fails.
    pub async fn fork(&mut self) -> Result<Self, SessionError> {
        let live = match &mut self.live {
            None => None,
            Some(live) => Some(Box::new(live.fork().await?)),
        };
        Ok(Self {
            environment: Arc::clone(&self.environment),
            defaults: self.defaults.clone(),
            live,
            sequence: self.sequence,
        })
    }
}
