//! Episodes of environments.

mod instance;
pub(crate) mod results;

use std::sync::Arc;

use gymkhana_record::{Content, Cost, NamedValue, Seed, TaskRef};

use crate::calls::Snapshot;
use crate::instance::slot::CallKind;
use crate::unsandboxed::Unsandboxed;
use crate::{CallError, CallFuture, EnvironmentInfo, Plugin, SplitInfo, info};
use instance::{EnvironmentInstance, Guest, open_slot, splits_in};
use results::{Action, Advice, Image, ResetResult, StepResult, check_totals};

/// An episode, in its own store unless the plugin is shared. Dropping it ends the episode.
pub struct EnvironmentEpisode {
    instance: EnvironmentInstance,
    handle: u32,
    /// Reward sum of each seat.
    totals: Vec<f64>,
}

impl Plugin {
    /// Returns the environment's description, requested once and cached.
    ///
    /// # Errors
    /// If the plugin is not an environment, fails, or returns a description that breaks the contract.
    pub fn environment_info(&self) -> CallFuture<'_, Arc<EnvironmentInfo>> {
        Box::pin(async move {
            let describe = async || {
                if let Some((inner, _)) = self.inner() {
                    // Before this plugin takes a place, so that no plugin waits for one inside of another.
                    inner.environment_info().await.map_err(|error| error.inside(inner.name()))?;
                }
                let mut slot = open_slot(self, Seed(0), None).await?;
                let kind = CallKind::Auxiliary("describe");
                let call = async |guest: Guest<'_>| guest.exports.main.call_describe(guest.store).await;
                let outside = |code: &dyn Unsandboxed| code.describe_environment();
                slot.call_infallible(kind, call, outside, info::environment).await.map(Arc::new)
            };
            self.environment_cell().get_or_try_init(describe).await.cloned()
        })
    }

    /// Returns the environment's splits under these options.
    ///
    /// # Errors
    /// If the plugin is not an environment, fails, or does not know an option.
    pub fn splits<'a>(&'a self, options: &'a [NamedValue]) -> CallFuture<'a, Vec<SplitInfo>> {
        Box::pin(async move {
            if let Some((inner, _)) = self.inner() {
                inner.environment_info().await.map_err(|error| error.inside(inner.name()))?;
            }
            self.check_wraps()?;
            splits_in(&mut open_slot(self, Seed(0), None).await?, options).await
        })
    }
}

impl EnvironmentEpisode {
    /// Starts an episode. The environment receives the seed unchanged; its draws from the host come from streams under
    /// that seed.
    ///
    /// # Errors
    /// If the plugin is not an environment, rejects the task or an option, fails, or returns a result that breaks the
    /// contract; or if no place becomes free in time.
    pub fn start<'a>(
        plugin: &'a Plugin,
        task: &'a TaskRef,
        options: &'a [NamedValue],
        seed: Seed,
    ) -> CallFuture<'a, (Self, ResetResult)> {
        Box::pin(async move {
            let mut instance = EnvironmentInstance::open(plugin, seed, None).await?;
            let (handle, result) = instance.reset(task, options, seed).await?;
            let totals = vec![0.0; instance.info.seats.len()];
            Ok((Self { instance, handle, totals }, result))
        })
    }

    /// Performs an action of a seat.
    ///
    /// # Errors
    /// If the environment fails or returns a result that breaks the contract; the episode is then over.
    pub fn step<'a>(&'a mut self, seat: u32, action: Action<'a>) -> CallFuture<'a, StepResult> {
        self.instance.step(self.handle, &mut self.totals, seat, action)
    }

    /// Checks the reward sum of each seat against the range that the environment declared. A step that ends the
    /// episode is checked anyway; this is for an episode that the caller ends.
    ///
    /// # Errors
    /// If the sum of a seat is outside the range.
    pub fn check_totals(&self) -> Result<(), CallError> {
        check_totals(&self.totals, &self.instance.info).map_err(CallError::malformed)
    }

    /// Saves the whole state of the episode, including the host side.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn snapshot(&mut self) -> CallFuture<'_, Snapshot> {
        Box::pin(async move {
            let bytes = self.instance.snapshot(self.handle).await?;
            Ok(Snapshot { bytes, host: self.instance.slot.host_state(), totals: self.totals.clone() })
        })
    }

    /// Starts a new episode in the state of a snapshot. With the seed of the first episode it continues as that one
    /// would; with another seed, its further draws from the host differ.
    ///
    /// # Errors
    /// If the environment does not offer it, fails, or cannot read the bytes.
    pub fn restore<'a>(plugin: &'a Plugin, snapshot: &'a Snapshot, seed: Seed) -> CallFuture<'a, Self> {
        Box::pin(async move {
            let mut instance = EnvironmentInstance::open(plugin, snapshot.host.first_seed, None).await?;
            let handle = instance.restore(&snapshot.bytes).await?;
            instance.slot.resume(&snapshot.host, plugin.name(), seed);
            Ok(Self { instance, handle, totals: snapshot.totals.clone() })
        })
    }

    /// Restores a snapshot of this episode in its own store, for another attempt from that state.
    ///
    /// # Errors
    /// If the environment does not offer it, fails, or cannot read the bytes; the episode then keeps its state.
    pub fn rewind<'a>(&'a mut self, snapshot: &'a Snapshot) -> CallFuture<'a, ()> {
        Box::pin(async move {
            let handle = self.instance.restore(&snapshot.bytes).await?;
            let old_handle = std::mem::replace(&mut self.handle, handle);
            self.instance.slot.rewind(&snapshot.host);
            self.totals.clone_from(&snapshot.totals);
            self.instance.close(old_handle).await
        })
    }

    /// Sets the seed of the environment's draws from the host, from the next call on.
    pub fn reseed(&mut self, seed: Seed) {
        self.instance.slot.reseed(self.instance.plugin.name(), seed);
    }

    /// Returns a canonical form of the state.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn state_key(&mut self) -> CallFuture<'_, Vec<u8>> {
        self.instance.state_key(self.handle)
    }

    /// Returns the values that rewards and teachers may see and policies may not.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn privileged(&mut self) -> CallFuture<'_, Vec<NamedValue>> {
        self.instance.privileged(self.handle)
    }

    /// Returns the expert's next turn for the seat to move. `tools` names the functions of the run's tools, and
    /// `results` holds the answers to the calls of the expert's previous turn, as text.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn advise<'a>(&'a mut self, tools: &'a [String], results: &'a [String]) -> CallFuture<'a, Advice> {
        self.instance.advise(self.handle, tools, results)
    }

    /// Returns a hint after a failed attempt.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn guidance(&mut self) -> CallFuture<'_, Content> {
        self.instance.guidance(self.handle)
    }

    /// Renders the state for people.
    ///
    /// # Errors
    /// If the environment does not offer it, or fails.
    pub fn render(&mut self) -> CallFuture<'_, Image> {
        self.instance.render(self.handle)
    }

    /// Cost of the last call; that of the first includes the start of an instance of its own. The plugins inside a
    /// wrapper have their own costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.instance.slot.cost()
    }

    /// Takes the costs of the plugins inside a wrapper since the last call of this method: name and cost, the outer one
    /// first. Empty for an environment that is not a wrapper.
    pub fn take_inner_costs(&mut self) -> Vec<(Arc<str>, Cost)> {
        self.instance.slot.inner_costs.take()
    }

    /// Closes the episode in the environment.
    ///
    /// # Errors
    /// If the environment fails at that.
    pub fn close(mut self) -> CallFuture<'static, ()> {
        Box::pin(async move { self.instance.close(self.handle).await })
    }
}
