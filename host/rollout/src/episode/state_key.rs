//! The environment's state keys: read once before every turn, for the early-stop rule and for credit by equal states.

use gymkhana_record::Failure;
use gymkhana_registry::Digest;
use gymkhana_sandbox::OptionalInterface;

use crate::episode::state::EpisodeState;
use crate::episode::visited::StateDigest;

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
        self.policy.state = StateDigest::new(taken, digest);
        Ok(Some(digest))
    }
}
