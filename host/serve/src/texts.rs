//! Texts that clients write in their sessions: the host keeps them until the next episode, some of them more than once.

use std::sync::Arc;

use gymkhana_driver::Reply;
use gymkhana_http::{Client, CountedBytes, KeptBytes};
use gymkhana_record::stored_bytes;

use crate::error::{ErrorKind, ServeError};

/// Texts of a session's episode.
pub(crate) struct Texts {
    limits: Arc<KeptBytes<Client>>,
    client: Client,
    kept: Option<CountedBytes<Client>>,
}

impl Texts {
    /// No texts of a client.
    pub(crate) fn of(client: &Client, limits: &Arc<KeptBytes<Client>>) -> Self {
        Self { limits: Arc::clone(limits), client: client.clone(), kept: None }
    }

    /// Counts a turn.
    ///
    /// # Errors
    /// If a limit would be exceeded.
    pub(crate) fn add(&mut self, reply: &Reply) -> Result<(), ServeError> {
        let bytes = usize::try_from(stored_bytes(reply)).unwrap_or(usize::MAX);
        let is_kept = match &mut self.kept {
            Some(kept) => kept.grow(bytes),
            None => {
                self.kept = self.limits.try_keep(self.client.clone(), bytes);
                self.kept.is_some()
            }
        };
        if is_kept {
            return Ok(());
        }
        let message = format!(
            "the turn cannot be taken: the open sessions of client `{}`, or of all clients, hold too much text\nhint: close \
             or reset sessions, or raise sessions.text_mib",
            self.client.name()
        );
        Err(ServeError::host(ErrorKind::Full, message))
    }

    /// Forgets the texts of an episode that is over.
    pub(crate) fn release(&mut self) {
        self.kept = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_limited_and_released() {
        let limits = KeptBytes::new(5000, 3000);
        let reply = |length: usize| Reply { thoughts: None, message: "a".repeat(length), calls: vec![] };
        let [mut one, mut two] = [1, 2].map(|_| Texts::of(&Client::new("a"), &limits));
        one.add(&reply(1000)).unwrap();
        two.add(&reply(1000)).unwrap();
        let full = one.add(&reply(1000)).unwrap_err();
        assert!(full.kind == ErrorKind::Full && full.message.contains("of client `a`"), "{full}");
        one.add(&reply(100)).unwrap();
        two.release();
        one.add(&reply(1500)).unwrap();
        let mut other = Texts::of(&Client::new("b"), &limits);
        assert!(other.add(&reply(2500)).is_err(), "the limit of all");
        drop(one);
        other.add(&reply(2500)).unwrap();
        two.add(&reply(2000)).unwrap();
    }
}
