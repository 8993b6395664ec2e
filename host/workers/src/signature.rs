//! Signatures of messages on the bus.
//!
//! Keys are NKeys of users, as `nsc` and `nk` write them: Ed25519 in base 32. A worker signs its results, policy calls,
//! heartbeats and answers with its own key, or with one that it makes when it starts; the signature covers the subject, which
//! names the run and the life of its trainer, the header and the body. A trainer or server signs its jobs, replies and requests
//! with the key that its description names; a reply covers the digest of its request, so that it answers no other message.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_registry::Digest;
use nkeys::{KeyPair, KeyPairType};

/// First line of what a worker signs.
const MESSAGE: &[u8] = b"gymkhana message 2\n";
/// First line of what a trainer or server signs.
const STATEMENT: &[u8] = b"gymkhana statement 1\n";
/// Most workers whose keys are remembered.
const MAX_SENDERS: usize = 1 << 16;

/// Signature of a message, with the public key that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageSignature {
    pub key: String,
    pub bytes: [u8; 64],
}

/// Reason why a signature is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureRefusal {
    #[error("it is not signed, but the run takes results of known workers only\nhint: start the worker with --key")]
    Missing,
    #[error("key {0} is not one of the trainer's --worker-keys\nhint: add the key there, if the worker is yours")]
    Unknown(String),
    /// It was damaged, or another program sent it in the name of a worker.
    #[error("its signature does not belong to it")]
    Wrong,
}

/// The key of a worker.
#[derive(Clone)]
pub struct Signer {
    pair: Arc<KeyPair>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.public_key()).finish()
    }
}

impl Signer {
    /// A new key, which is written nowhere.
    #[must_use]
    pub fn temporary() -> Self {
        Self { pair: Arc::new(KeyPair::new_user()) }
    }

    /// Reads the seed of a key.
    ///
    /// # Errors
    /// If the file cannot be read, or is not the seed of a user's key.
    pub fn read(path: &Path) -> RunResult<Self> {
        let missing =
            format!("--key: `{}` cannot be read\nhint: make a key with `host worker --new-key FILE`", path.display());
        let seed = std::fs::read_to_string(path).user_context(missing)?;
        let pair = KeyPair::from_seed(seed.trim()).ok().filter(|pair| pair.key_pair_type() == KeyPairType::User);
        let pair = pair.ok_or_else(|| {
            RunError::user(format!("--key: `{}` holds no seed of a user's NKey", path.display()))
                .with_hint("make a key with `host worker --new-key FILE`")
        })?;
        Ok(Self { pair: Arc::new(pair) })
    }

    /// Makes a key and writes its seed to a new file that only its owner can read.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path) -> RunResult<Self> {
        let full =
            format!("--new-key: `{}` cannot be written\nhint: choose a file that does not exist", path.display());
        let pair = KeyPair::new_user();
        let seed = pair.seed().internal()?;
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| writeln!(file, "{seed}")).user_context(full)?;
        Ok(Self { pair: Arc::new(pair) })
    }

    /// The public key.
    #[must_use]
    pub fn public_key(&self) -> String {
        self.pair.public_key()
    }

    /// Signs a header and a body that are sent to this subject; `None` if the key cannot sign.
    pub(crate) fn sign(&self, subject: &str, header: &[u8], body: &[u8]) -> Option<MessageSignature> {
        let bytes = self.pair.sign(&signed(subject, header, body)).ok()?.try_into().ok()?;
        Some(MessageSignature { key: self.public_key(), bytes })
    }

    /// A message of a trainer or server about `about`: the signature, then the body. `None` if the key cannot sign.
    pub(crate) fn state(&self, about: &Digest, body: &[u8]) -> Option<Bytes> {
        let signature = self.pair.sign(&stated(about, body)).ok()?;
        Some([&signature, body].concat().into())
    }
}

/// Public key of a trainer or server.
#[derive(Clone)]
pub(crate) struct OwnerKey {
    text: String,
    pair: Arc<KeyPair>,
}

impl OwnerKey {
    /// The key of this text; `None` if it is not the public key of a user.
    pub fn parse(text: &str) -> Option<Self> {
        let pair = KeyPair::from_public_key(text).ok().filter(|pair| pair.key_pair_type() == KeyPairType::User)?;
        Some(Self { text: text.to_owned(), pair: Arc::new(pair) })
    }

    /// The body of a message that this trainer or server sent about `about`; `None` for every other message.
    pub fn read<'m>(&self, about: &Digest, message: &'m [u8]) -> Option<&'m [u8]> {
        let (signature, body) = message.split_at_checked(64)?;
        self.pair.verify(&stated(about, body), signature).ok().map(|()| body)
    }

    /// The set with this key alone.
    pub fn alone(&self) -> WorkerKeys {
        WorkerKeys::only(&self.text)
    }
}

/// Public keys of the workers whose messages a trainer or server takes; without any, those of all workers that sign them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerKeys {
    known: Option<BTreeSet<String>>,
}

impl WorkerKeys {
    /// Reads a file with a public key on each line. Words after a key, empty lines and lines that begin with `#` are
    /// comments.
    ///
    /// # Errors
    /// If the file cannot be read, has a line without a key, or no key.
    pub fn read(path: &Path) -> RunResult<Self> {
        let missing = format!("--worker-keys: `{}` cannot be read\nhint: check the path", path.display());
        let text = std::fs::read_to_string(path).user_context(missing)?;
        let mut known = BTreeSet::new();
        for (index, line) in text.lines().enumerate() {
            let Some(key) = line.split_whitespace().next().filter(|word| !word.starts_with('#')) else { continue };
            if !KeyPair::from_public_key(key).is_ok_and(|pair| pair.key_pair_type() == KeyPairType::User) {
                let refused = format!("--worker-keys: line {} of `{}` is not a public key", index + 1, path.display());
                return Err(RunError::user(refused).with_hint("write the key that `host worker --new-key FILE` prints"));
            }
            known.insert(key.to_owned());
        }
        if known.is_empty() {
            let refused = format!("--worker-keys: `{}` holds no key, so that no worker could play", path.display());
            return Err(RunError::user(refused).with_hint("write the key that `host worker --new-key FILE` prints"));
        }
        Ok(Self { known: Some(known) })
    }

    /// This key alone.
    pub(crate) fn only(key: &str) -> Self {
        Self { known: Some(BTreeSet::from([key.to_owned()])) }
    }

    /// Checks the signature of a header and a body that came to this subject; returns the key.
    ///
    /// # Errors
    /// If the message was altered. With known keys, also if it has no signature, or one of another key.
    pub(crate) fn check<'s>(
        &self,
        subject: &str,
        (header, body): (&[u8], &[u8]),
        signature: Option<&'s MessageSignature>,
    ) -> Result<&'s str, SignatureRefusal> {
        let unsigned = if self.known.is_some() { SignatureRefusal::Missing } else { SignatureRefusal::Wrong };
        let MessageSignature { key, bytes } = signature.ok_or(unsigned)?;
        let pair = KeyPair::from_public_key(key).map_err(|_| SignatureRefusal::Wrong)?;
        pair.verify(&signed(subject, header, body), bytes).map_err(|_| SignatureRefusal::Wrong)?;
        match &self.known {
            Some(known) if !known.contains(key) => Err(SignatureRefusal::Unknown(key.chars().take(64).collect())),
            _ => Ok(key),
        }
    }
}

/// The key of each worker that sent one: that of its first message.
#[derive(Debug, Default)]
pub(crate) struct Senders(HashMap<String, String>);

impl Senders {
    /// Whether a message of this key may be one of the worker, whose first message decides.
    pub fn is_own(&mut self, worker: &str, key: &str) -> bool {
        if let Some(own) = self.0.get(worker) {
            return own == key;
        }
        if self.0.len() >= MAX_SENDERS {
            self.0.clear();
        }
        self.0.insert(worker.to_owned(), key.to_owned());
        true
    }
}

fn signed(subject: &str, header: &[u8], body: &[u8]) -> Vec<u8> {
    [MESSAGE, subject.as_bytes(), b"\n", header, b"\n", Digest::of(body).to_string().as_bytes()].concat()
}

fn stated(about: &Digest, body: &[u8]) -> Vec<u8> {
    [STATEMENT, about.to_string().as_bytes(), b"\n", Digest::of(body).to_string().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: &str = "gymkhana.run.results.1";

    fn keys(folder: &Path, lines: &str) -> RunResult<WorkerKeys> {
        let path = folder.join("keys");
        std::fs::write(&path, lines).unwrap();
        WorkerKeys::read(&path)
    }

    #[test]
    fn messages_of_known_keys_count_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = Signer::create(&folder.path().join("own")).unwrap();
        let other = Signer::temporary();
        let known = keys(folder.path(), &format!("# workers\n\n{} the first machine\n", own.public_key())).unwrap();
        let check = |keys: &WorkerKeys, subject: &str, message, signature: Option<&MessageSignature>| {
            keys.check(subject, message, signature).map(str::to_owned)
        };
        let (header, body) = (&b"header"[..], &b"body"[..]);
        let signature = own.sign(SUBJECT, header, body).unwrap();
        assert_eq!(check(&known, SUBJECT, (header, body), Some(&signature)), Ok(own.public_key()));
        // Another header, another body, another run, another key in the same signature.
        let wrong = Err(SignatureRefusal::Wrong);
        assert_eq!(check(&known, SUBJECT, (b"Header", body), Some(&signature)), wrong);
        assert_eq!(check(&known, SUBJECT, (header, b"Body"), Some(&signature)), wrong);
        assert_eq!(check(&known, "gymkhana.run.results.2", (header, body), Some(&signature)), wrong);
        let foreign = other.sign(SUBJECT, header, body).unwrap();
        let unknown = Err(SignatureRefusal::Unknown(other.public_key()));
        assert_eq!(check(&known, SUBJECT, (header, body), Some(&foreign)), unknown);
        let forged = MessageSignature { key: own.public_key(), ..foreign.clone() };
        assert_eq!(check(&known, SUBJECT, (header, body), Some(&forged)), wrong);
        assert_eq!(check(&known, SUBJECT, (header, body), None), Err(SignatureRefusal::Missing));
        // A run without keys takes what any worker signed, as it was signed.
        let all = WorkerKeys::default();
        assert_eq!(check(&all, SUBJECT, (header, body), Some(&foreign)), Ok(other.public_key()));
        assert_eq!(check(&all, SUBJECT, (header, b"Body"), Some(&foreign)), wrong);
        assert_eq!(check(&all, SUBJECT, (header, body), None), wrong);
    }

    #[test]
    fn a_worker_keeps_the_key_of_its_first_message() {
        let mut senders = Senders::default();
        for (worker, key, is_own) in [("a", "A", true), ("b", "B", true), ("a", "B", false), ("a", "A", true)] {
            assert_eq!(senders.is_own(worker, key), is_own, "{worker} {key}");
        }
        for number in 0..MAX_SENDERS {
            senders.is_own(&number.to_string(), "A");
        }
        assert!(senders.0.len() <= MAX_SENDERS);
    }

    #[test]
    fn a_reply_answers_its_own_request_and_no_other() {
        let trainer = Signer::temporary();
        let (own, other) = (trainer.public_key(), Signer::temporary().public_key());
        let (own, other) = (OwnerKey::parse(&own).unwrap(), OwnerKey::parse(&other).unwrap());
        let (request, altered) = (Digest::of(b"request"), Digest::of(b"requesT"));
        let reply = trainer.state(&request, b"body").unwrap();
        assert_eq!(own.read(&request, &reply), Some(&b"body"[..]));
        assert_eq!(own.read(&altered, &reply), None, "a reply to a copy of the request with another bit");
        assert_eq!(other.read(&request, &reply), None, "another trainer");
        for place in 0..reply.len() {
            let mut flipped = reply.to_vec();
            flipped[place] ^= 1;
            assert_eq!(own.read(&request, &flipped), None, "byte {place}");
        }
        assert_eq!(own.read(&request, b"short"), None);
        assert!(OwnerKey::parse("UABC").is_none());
    }

    #[test]
    fn seeds_are_read_again_and_hidden_from_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let made = Signer::create(&path).unwrap();
        assert_eq!(Signer::read(&path).unwrap().public_key(), made.public_key());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Signer::create(&path).unwrap_err().to_string().contains("cannot be written"));
        // A public key in place of a seed.
        std::fs::write(&path, made.public_key()).unwrap();
        assert!(Signer::read(&path).unwrap_err().to_string().contains("holds no seed"));
    }

    #[test]
    fn lists_without_keys_are_refused_by_line() {
        let folder = tempfile::tempdir().unwrap();
        for (text, said) in [("# none\n", "holds no key"), ("\nUABC\n", "line 2 of"), ("SUAABC\n", "line 1 of")] {
            let refused = keys(folder.path(), text).unwrap_err().to_string();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
