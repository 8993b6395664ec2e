//! The environment inside a wrapper, as its store holds it.

use std::sync::Arc;

use gymkhana_record::{Content, Cost, NamedValue, Seed, TaskRef};

use super::HostState;
use super::pool::Permit;
use crate::calls::environment::results::{Action, Advice, Image, ResetResult, StepResult};
use crate::{CallError, CallFuture, EnvironmentInfo, SplitInfo};

/// The environment inside a wrapper, with the name of its plugin.
pub(crate) struct InnerLink {
    pub plugin: Arc<str>,
    pub environment: Box<dyn Inner>,
}

/// Failure of the environment inside a wrapper. It ends the wrapper's call.
#[derive(Debug, thiserror::Error)]
#[error("the environment inside failed: {0}")]
pub(crate) struct InnerFailure(pub CallError);

/// Calls of the environment inside a wrapper, and its part of the host-side state.
pub(crate) trait Inner: Send {
    fn describe(&mut self) -> CallFuture<'_, Arc<EnvironmentInfo>>;
    fn splits(&mut self) -> CallFuture<'_, Vec<SplitInfo>>;
    fn reset<'a>(&'a mut self, task: &'a TaskRef, seed: Seed) -> CallFuture<'a, (u32, ResetResult)>;
    fn step<'a>(&'a mut self, episode: u32, seat: u32, action: Action<'a>) -> CallFuture<'a, StepResult>;
    fn close(&mut self, episode: u32) -> CallFuture<'_, ()>;
    fn snapshot(&mut self, episode: u32) -> CallFuture<'_, Vec<u8>>;
    fn restore<'a>(&'a mut self, snapshot: &'a [u8]) -> CallFuture<'a, u32>;
    fn state_key(&mut self, episode: u32) -> CallFuture<'_, Vec<u8>>;
    fn privileged(&mut self, episode: u32) -> CallFuture<'_, Vec<NamedValue>>;
    fn advise<'a>(&'a mut self, episode: u32, tools: &'a [String], results: &'a [String]) -> CallFuture<'a, Advice>;
    fn guidance(&mut self, episode: u32) -> CallFuture<'_, Content>;
    fn render(&mut self, episode: u32) -> CallFuture<'_, Image>;

    /// Keeps the permit of its instance.
    fn reserve(&mut self, permit: Permit);
    /// Takes the costs since the last call of this method.
    fn take_costs(&mut self, costs: &mut PluginCosts);
    /// Host-side state; `None` before the instance opened.
    fn host_state(&self) -> Option<HostState>;
    /// Sets the clock and the position of the random streams to those of a snapshot.
    fn rewind(&mut self, host: &HostState);
    /// Sets the host-side state of a snapshot, then a new seed.
    fn resume(&mut self, host: &HostState, seed: Seed);
    /// Sets the seed of the random streams from the next call on.
    fn reseed(&mut self, seed: Seed);
}

/// Costs of the plugins inside a wrapper, by name.
#[derive(Debug, Default)]
pub(crate) struct PluginCosts(Vec<(Arc<str>, Cost)>);

impl PluginCosts {
    /// Adds the cost of calls of a plugin.
    pub fn add(&mut self, plugin: &Arc<str>, cost: Cost) {
        match self.0.iter_mut().find(|(known, _)| known == plugin) {
            Some((_, sum)) => *sum = *sum + cost,
            None => self.0.push((Arc::clone(plugin), cost)),
        }
    }

    /// Moves all costs of another list into this one.
    pub fn append(&mut self, other: &mut Self) {
        other.0.drain(..).for_each(|(plugin, cost)| self.add(&plugin, cost));
    }

    /// Takes all costs.
    pub fn take(&mut self) -> Vec<(Arc<str>, Cost)> {
        std::mem::take(&mut self.0)
    }
}
