//! The plugin instances of an agent's episode in this process.

use std::time::Instant;

use futures::future::BoxFuture;
use gymkhana_driver::{BackendError, Episode, EpisodeData, Hooks, PlacedEpisode, Reply, TimedCall};
use gymkhana_record::{Call, Ending, EpisodeRecord};

use crate::metrics::{RolloutMetrics, Timer};

/// Instances in this process.
pub(super) struct LocalInstances<'r> {
    pub(super) episode: Episode,
    pub(super) hooks: TimedCalls<'r>,
}

/// Measures the time of calls. The conversation belongs to the program.
pub(super) struct TimedCalls<'r>(pub(super) &'r RolloutMetrics);

impl<'r> Hooks for TimedCalls<'r> {
    type Timer = Timer<'r>;

    fn time(&self, call: TimedCall) -> Timer<'r> {
        self.0.time(call.into())
    }
}

impl PlacedEpisode for LocalInstances<'_> {
    fn data(&self) -> &EpisodeData {
        &self.episode.data
    }

    fn data_mut(&mut self) -> &mut EpisodeData {
        &mut self.episode.data
    }

    fn call(&mut self, call: Call, listed: bool, most: u32) -> BoxFuture<'_, Result<Option<Ending>, BackendError>> {
        Box::pin(async move { Ok(self.episode.answer_call(&mut self.hooks, call, listed, most).await?) })
    }

    fn act(&mut self, reply: Reply) -> BoxFuture<'_, Result<Option<Ending>, BackendError>> {
        Box::pin(async move { Ok(self.episode.take_turn(&mut self.hooks, reply, u32::MAX).await) })
    }

    fn finish<'i>(
        self: Box<Self>,
        ending: Ending,
        begun: Instant,
        record: EpisodeRecord,
    ) -> BoxFuture<'i, EpisodeRecord>
    where
        Self: 'i,
    {
        let Self { episode, hooks } = *self;
        Box::pin(async move { episode.finish(&hooks, ending, begun, record).await })
    }
}
