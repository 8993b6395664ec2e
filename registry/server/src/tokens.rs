//! Tokens of publishers: each for some namespaces, kept as digests in a file that this user alone can read.
//!
//! A token is 32 random bytes, so that its plain sha256 can neither be guessed nor turned around. The file is read for
//! every change: a token that is revoked counts no more at once.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gymkhana_registry::{Digest, Namespace, write_atomically};
use serde::{Deserialize, Serialize};

/// How a token begins, so that people and scanners recognise one.
const PREFIX: &str = "gymkhana_";
/// A token's length: 32 bytes are 64 digits.
const TOKEN_LENGTH: usize = PREFIX.len() + 64;
/// The folder of the file, below the registry's.
const FOLDER: &str = ".private";

/// The tokens of a registry.
#[derive(Debug, Clone)]
pub struct PublishTokens {
    path: PathBuf,
}

/// Tokens cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Others could read them.
    #[error("`{0}` can be read by others; run `chmod 600 {0}`")]
    Open(PathBuf),
    /// The file is damaged.
    #[error("`{path}` is damaged; restore it from a copy, or remove it and make new tokens")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The system refused.
    #[error("`{path}` cannot be {what}; check that this user may use it")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is none of that number.
    #[error("there is no token {0}; `host registry token` lists them")]
    Unknown(String),
    /// The system has no random numbers.
    #[error("the system gives no random numbers to make a token from; try again on a machine that does")]
    Random(#[from] getrandom::Error),
}

/// One token, without the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRecord {
    /// What it is called: the beginning of its digest.
    number: String,
    digest: Digest,
    namespaces: BTreeSet<Namespace>,
}

/// A token that is known.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub number: String,
    pub namespaces: BTreeSet<Namespace>,
}

impl PublishTokens {
    /// Those of the registry in this folder.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self { path: folder.join(FOLDER).join("tokens.json") }
    }

    /// Sees that the file can be used, if there is one.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check(&self) -> Result<(), TokenError> {
        self.read().map(|_| ())
    }

    /// Makes a token for these namespaces. It is shown this once and kept nowhere.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn add(&self, namespaces: BTreeSet<Namespace>) -> Result<String, TokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("{PREFIX}{digits}");
        let digest = Digest::of(token.as_bytes());
        let number = digest.to_string()[..8].to_owned();
        self.change(|entries| {
            entries.push(TokenRecord { number, digest, namespaces });
            Ok(())
        })?;
        Ok(token)
    }

    /// Forgets a token.
    ///
    /// # Errors
    /// If there is none of that number.
    pub fn revoke(&self, number: &str) -> Result<(), TokenError> {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| entry.number != number);
            if entries.len() < before { Ok(()) } else { Err(TokenError::Unknown(number.to_owned())) }
        })
    }

    /// The number and the namespaces of each token.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn list(&self) -> Result<Vec<(String, BTreeSet<Namespace>)>, TokenError> {
        Ok(self.read()?.into_iter().map(|entry| (entry.number, entry.namespaces)).collect())
    }

    /// Who shows this token, if it is one. Digests are compared, all of them and whole, so that the time that it takes
    /// tells nothing of tokens. What cannot be one costs no look.
    pub(crate) fn find(&self, token: &str) -> Result<Option<Known>, TokenError> {
        if token.len() != TOKEN_LENGTH || !token.starts_with(PREFIX) {
            return Ok(None);
        }
        let shown = Digest::of(token.as_bytes());
        let mut known = None;
        for TokenRecord { number, digest, namespaces } in self.read()? {
            if alike(&digest, &shown) {
                known = Some(Known { number, namespaces });
            }
        }
        Ok(known)
    }

    fn read(&self) -> Result<Vec<TokenRecord>, TokenError> {
        let path = || self.path.clone();
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| TokenError::File { what: "read", path: path(), source })?,
        };
        let metadata = fs::metadata(&self.path);
        let mode = metadata.map_err(|source| TokenError::File { what: "read", path: path(), source })?.permissions();
        if mode.mode() & 0o077 != 0 {
            return Err(TokenError::Open(path()));
        }
        serde_json::from_slice(&bytes).map_err(|source| TokenError::Damaged { path: path(), source })
    }

    /// One change at a time.
    fn change(&self, act: impl FnOnce(&mut Vec<TokenRecord>) -> Result<(), TokenError>) -> Result<(), TokenError> {
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| TokenError::File { what, path, source }
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(failed("created", folder))?,
        }
        let path = folder.join("lock");
        let lock =
            File::options().write(true).create(true).truncate(false).open(&path).map_err(failed("written", &path))?;
        lock.lock().map_err(failed("locked", &path))?;
        let mut entries = self.read()?;
        act(&mut entries)?;
        let damaged = |source| TokenError::Damaged { path: self.path.clone(), source };
        let bytes = serde_json::to_vec_pretty(&entries).map_err(damaged)?;
        // The folder lets nobody else in between the two.
        write_atomically(&self.path, &bytes).map_err(failed("written", &self.path))?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600)).map_err(failed("written", &self.path))
    }
}

/// Whether two digests are the same, in a time that does not depend on where they part.
fn alike(one: &Digest, other: &Digest) -> bool {
    one.as_bytes().iter().zip(other.as_bytes()).fold(0, |parted, (one, other)| parted | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(text: &str) -> BTreeSet<Namespace> {
        [text.parse().expect("a namespace")].into()
    }

    #[test]
    fn a_token_is_known_until_it_is_revoked_and_stands_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = PublishTokens::below(folder.path());
        let token = tokens.add(namespaces("acme")).expect("a token");
        let other = tokens.add(namespaces("others")).expect("a token");
        let known = tokens.find(&token).expect("read").expect("known");
        assert_eq!(known.namespaces, namespaces("acme"));
        let mut wrong = token.clone();
        wrong.replace_range(token.len() - 1.., if token.ends_with('0') { "1" } else { "0" });
        for strange in [&wrong, "gymkhana_", "", &token[1..], &format!("{token}0")] {
            assert!(tokens.find(strange).expect("read").is_none(), "{strange}");
        }
        let text = fs::read_to_string(&tokens.path).expect("a file");
        assert!(!text.contains(&token[PREFIX.len()..]) && !text.contains(&other[PREFIX.len()..]));
        assert_eq!(fs::metadata(&tokens.path).expect("a file").permissions().mode() & 0o777, 0o600);
        tokens.revoke(&known.number).expect("revoked");
        assert!(tokens.find(&token).expect("read").is_none() && tokens.find(&other).expect("read").is_some());
        assert!(matches!(tokens.revoke(&known.number), Err(TokenError::Unknown(_))));
        fs::set_permissions(&tokens.path, fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(tokens.find(&other), Err(TokenError::Open(_))));
    }
}
