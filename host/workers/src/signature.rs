//! Signatures of results: a trainer that has the keys of its workers takes results of no others.
//!
//! Keys are NKeys of users, as `nsc` and `nk` write them: Ed25519 in base 32. A signature covers the subject of the results,
//! which names the run and the life of its trainer, and the header, which names the job, the delivery and the digest of the
//! records.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use gymkhana_orchestration::{Classify, RunError, RunResult};
use nkeys::{KeyPair, KeyPairType};

/// First line of what is signed.
const PURPOSE: &[u8] = b"gymkhana result 1\n";

/// Signature of a result, with the public key that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
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

    /// Signs a header that is sent to this subject; `None` if the key cannot sign.
    pub(crate) fn sign(&self, subject: &str, header: &[u8]) -> Option<Signature> {
        let bytes = self.pair.sign(&signed(subject, header)).ok()?.try_into().ok()?;
        Some(Signature { key: self.public_key(), bytes })
    }
}

/// Public keys of the workers whose results a trainer takes; results of all workers count without any.
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

    /// Checks the signature of a header that came to this subject.
    pub(crate) fn check(
        &self,
        subject: &str,
        header: &[u8],
        signature: Option<&Signature>,
    ) -> Result<(), SignatureRefusal> {
        let Some(known) = &self.known else { return Ok(()) };
        let signature = signature.ok_or(SignatureRefusal::Missing)?;
        if !known.contains(&signature.key) {
            return Err(SignatureRefusal::Unknown(signature.key.chars().take(64).collect()));
        }
        let pair = KeyPair::from_public_key(&signature.key).map_err(|_| SignatureRefusal::Wrong)?;
        pair.verify(&signed(subject, header), &signature.bytes).map_err(|_| SignatureRefusal::Wrong)
    }
}

fn signed(subject: &str, header: &[u8]) -> Vec<u8> {
    [PURPOSE, subject.as_bytes(), b"\n", header].concat()
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
    fn results_of_known_keys_count_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = Signer::create(&folder.path().join("own")).unwrap();
        let other = Signer::create(&folder.path().join("other")).unwrap();
        let known = keys(folder.path(), &format!("# workers\n\n{} the first machine\n", own.public_key())).unwrap();
        let signature = own.sign(SUBJECT, b"header").unwrap();
        assert_eq!(known.check(SUBJECT, b"header", Some(&signature)), Ok(()));
        // Another header, another run, another key in the same signature.
        assert_eq!(known.check(SUBJECT, b"Header", Some(&signature)), Err(SignatureRefusal::Wrong));
        assert_eq!(known.check("gymkhana.run.results.2", b"header", Some(&signature)), Err(SignatureRefusal::Wrong));
        let foreign = other.sign(SUBJECT, b"header").unwrap();
        assert_eq!(known.check(SUBJECT, b"header", Some(&foreign)), Err(SignatureRefusal::Unknown(other.public_key())));
        let forged = Signature { key: own.public_key(), ..foreign };
        assert_eq!(known.check(SUBJECT, b"header", Some(&forged)), Err(SignatureRefusal::Wrong));
        assert_eq!(known.check(SUBJECT, b"header", None), Err(SignatureRefusal::Missing));
        assert_eq!(
            WorkerKeys::default().check(SUBJECT, b"header", None),
            Ok(()),
            "a run without keys takes all results"
        );
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
