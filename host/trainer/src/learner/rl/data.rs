//! Data of one reinforcement-learning step.

use gymkhana_record::{EpisodeRecord, Segment};

/// Whether a limit of tokens cut a reply, given its tokens.
type IsCut<'a> = &'a (dyn Fn(&[u32]) -> bool + Sync);

/// Data of one reinforcement-learning step.
#[derive(Clone, Copy)]
pub struct RlData<'a> {
    /// Groups of episodes. Dropped episodes are excluded.
    pub groups: &'a [Vec<EpisodeRecord>],
    /// Demonstrations of the supervised loss, if the settings have one.
    pub demonstrations: &'a [Segment],
    /// Whether a limit of tokens cut a reply, for the masks `cut-reply` and `cut-episode`.
    pub is_cut: IsCut<'a>,
}

impl std::fmt::Debug for RlData<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (groups, demonstrations) = (self.groups.len(), self.demonstrations.len());
        f.debug_struct("RlData")
            .field("groups", &groups)
            .field("demonstrations", &demonstrations)
            .finish_non_exhaustive()
    }
}

impl<'a> From<&'a [Vec<EpisodeRecord>]> for RlData<'a> {
    /// Groups without demonstrations, whose replies all ended by themselves.
    fn from(groups: &'a [Vec<EpisodeRecord>]) -> Self {
        Self { groups, demonstrations: &[], is_cut: &|_| false }
    }
}
