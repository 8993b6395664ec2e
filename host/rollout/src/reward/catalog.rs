//! The names that rules of the run file may refer to: rewards and their components.

/// The rewards of a run with the names of their components.
pub(crate) struct Catalog<'a>(pub(crate) Vec<(&'a str, Vec<&'a str>)>);

impl<'a> Catalog<'a> {
    /// The names of the rewards.
    pub(super) fn rewards(&self) -> Vec<&'a str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    /// The names of a reward's components; none if the run has no reward of this name.
    pub(super) fn components(&self, reward: &str) -> Option<&[&'a str]> {
        self.0.iter().find(|(name, _)| *name == reward).map(|(_, components)| &components[..])
    }
}
