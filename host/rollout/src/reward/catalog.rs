//! Names that rules of the run file can refer to: rewards and their components.

/// Rewards of a run with the names of their components.
pub(crate) struct RewardCatalog<'a>(pub(crate) Vec<(&'a str, Vec<&'a str>)>);

impl<'a> RewardCatalog<'a> {
    /// Names of the rewards.
    pub(super) fn rewards(&self) -> Vec<&'a str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// Names of a reward's components; `None` if the run does not have the reward.
    pub(super) fn components(&self, reward: &str) -> Option<&[&'a str]> {
        self.0.iter().find(|(name, _)| *name == reward).map(|(_, components)| &components[..])
    }
}
