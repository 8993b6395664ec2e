//! The environment's state keys: read once before every turn, for the early-stop rule and for credit by equal states.

use gymkhana_record::Failure;
use gymkhana_registry::Digest;
use gymkhana_sandbox::OptionalInterface;

use crate::episode::state::EpisodeState;

/// The digest of the last state key that was read. A key may have megabytes, and the next turn brings another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StateDigest(Option<(u32, Digest)>);

impl StateDigest {
    /// The digest of the state after this many turns of all seats, if it was read.
    pub(crate) fn known(self, taken: u32) -> Option<Digest> {
        self.0.filter(|(after, _)| *after == taken).map(|(_, digest)| digest)
    }
}

impl EpisodeState<'_> {
    /// Digest of the environment's present state key; `None` if the environment offers no state keys.
    pub(crate) async fn state_digest(&mut self) -> Result<Option<Digest>, Failure> {
        let taken = self.taken();
        if !self.episode.offers(OptionalInterface::StateKey) {
            return Ok(None);
        }
        if let known @ Some(_) = self.policy.state.known(taken) {
            return Ok(known);
        }
        let digest = Digest::of(&self.episode.state_key(taken).await?);
        self.policy.state = StateDigest(Some((taken, digest)));
        Ok(Some(digest))
    }
}

/// The first 8 bytes of a digest in hex: enough to tell the states of a group of episodes apart.
pub(crate) fn short_digest(digest: Digest) -> String {
    let mut text = digest.to_string();
    text.truncate(16);
    text
}
