//! Privileged fields that a wrapper renames or leaves out, so that a reward which reads them can score no episode.

use gymkhana_record::{Ending, NamedValue, Part, Seed, TaskRef, Turn};
use gymkhana_sandbox::{CallError, EnvironmentEpisode, Plugin, Trajectory, score};

use crate::Rollout;
use crate::episode::trial::calls_out;
use crate::listed;
use crate::plugins::RewardPlugin;

/// A reward that needs a field of the environment which the wrappers around it hide.
#[derive(Debug, thiserror::Error)]
#[error(
    "reward `{reward}` cannot score environment `{environment}` inside of `{wrapper}`, whose privileged fields are {}: \
     {why}\nhint: leave the reward or the wrapper out, or use an environment that pays rewards itself",
    listed(fields)
)]
pub struct HiddenFields {
    /// The reward.
    pub reward: String,
    /// The environment.
    pub environment: String,
    /// The outermost wrapper.
    pub wrapper: String,
    /// Names of the wrapper's fields.
    pub fields: Vec<String>,
    /// The reward's reason.
    pub why: String,
}

impl Rollout {
    /// Checks that rewards which can score the environment can score it inside of its wrappers too: each is asked about an
    /// episode of one message, with the privileged fields of the environment and with those of the wrappers. Nothing is
    /// checked without wrappers, or if a plugin fails or can make outbound calls.
    ///
    /// # Errors
    /// Names the first reward that refuses only the wrappers' fields.
    pub async fn check_fields(&self, task: &TaskRef, seed: Seed) -> Result<(), HiddenFields> {
        let outer = &self.plugins.environment;
        if outer.plugin.inner().is_none() || outer.plugin.chain().any(calls_out) {
            return Ok(());
        }
        let Some(options) = outer.plugin.chain().filter_map(Plugin::inner).last().map(|(_, options)| options) else {
            return Ok(());
        };
        let first = TaskRef { index: 0, ..task.clone() };
        let Some(wrapped) = fields(&outer.plugin, task, &outer.options, seed).await else { return Ok(()) };
        let Some(bare) = fields(outer.plugin.innermost(), &first, options, seed).await else { return Ok(()) };
        for reward in self.plugins.rewards.iter().filter(|reward| !calls_out(&reward.bound.plugin)) {
            if let Err(error) = scored(reward, task, &wrapped, seed).await
                && error.is_invalid()
                && scored(reward, task, &bare, seed).await.is_ok()
            {
                return Err(HiddenFields {
                    reward: reward.bound.plugin.name().to_owned(),
                    environment: outer.plugin.innermost().name().to_owned(),
                    wrapper: outer.plugin.name().to_owned(),
                    fields: wrapped.into_iter().map(|field| field.name).collect(),
                    why: error.plugin_words().to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// The privileged view at the start of a task; `None` if the environment has none or fails.
async fn fields(plugin: &Plugin, task: &TaskRef, options: &[NamedValue], seed: Seed) -> Option<Vec<NamedValue>> {
    let (mut episode, _) = EnvironmentEpisode::start(plugin, task, options, seed).await.ok()?;
    episode.privileged().await.ok()
}

/// Asks a reward about an episode of one message.
async fn scored(reward: &RewardPlugin, task: &TaskRef, privileged: &[NamedValue], seed: Seed) -> Result<(), CallError> {
    let turns = [Turn::Message { seat: 0, content: vec![Part::Text("0".to_owned())] }];
    let ending = Ending::Terminated;
    let episode =
        Trajectory { task, turns: &turns, ending, environment_rewards: &[], extras: &[], privileged, views: &[] };
    score(&reward.bound.plugin, &[episode], &reward.bound.options, 0, seed).await.map(drop)
}
