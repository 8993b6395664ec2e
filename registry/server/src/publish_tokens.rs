//! Tokens of publishers, each valid for some namespaces. Their digests are stored in a file with mode 0600.
//!
//! A token has 32 random bytes, so its unsalted SHA-256 can be neither guessed nor inverted. The file is read for every
//! request with a token, so a revocation takes effect immediately.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gymkhana_http::is_same;
use gymkhana_registry::{Digest, Namespace, write_atomically};
use serde::{Deserialize, Serialize};

/// Prefix of a token, which lets people and secret scanners recognize it.
const PREFIX: &str = "gymkhana_";
/// Length of a token: prefix and 64 hexadecimal digits.
const TOKEN_LENGTH: usize = PREFIX.len() + 64;
/// Folder of the token file within the registry folder.
const FOLDER: &str = ".private";

/// Publishing tokens of a registry.
#[derive(Debug, Clone)]
pub struct PublishTokens {
    path: PathBuf,
}

/// The token file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file permissions let other users read the tokens.
    #[error("other users can read `{0}`\nhint: run `chmod 600 {0}`")]
    Readable(PathBuf),
    /// Malformed JSON.
    #[error("cannot parse `{path}`\nhint: restore it from a backup, or remove it and create new tokens")]
    Damaged {
        /// File.
        path: PathBuf,
        /// JSON error.
        source: serde_json::Error,
    },
    /// I/O error.
    #[error("cannot {operation} `{path}`\nhint: check its permissions")]
    File {
        /// Attempted operation.
        operation: &'static str,
        /// File.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// Unknown token number.
    #[error("unknown token {0}\nhint: list the tokens with `host registry token`")]
    Unknown(String),
    /// The operating system's random number generator failed.
    #[error("cannot generate a token: the system's random number generator failed")]
    Random(#[from] getrandom::Error),
}

/// Stored record of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRecord {
    /// Public number: the first 8 digits of the digest.
    number: String,
    digest: Digest,
    namespaces: BTreeSet<Namespace>,
}

/// Holder of a valid token.
#[derive(Debug, Clone)]
pub(crate) struct Publisher {
    pub number: String,
    pub namespaces: BTreeSet<Namespace>,
}

impl PublishTokens {
    /// Tokens of the registry in a folder.
    #[must_use]
    pub fn of_registry(folder: &Path) -> Self {
        Self { path: folder.join(FOLDER).join("tokens.json") }
    }

    /// Checks that the file is usable if it exists.
    ///
    /// # Errors
    /// If the file cannot be read or parsed, or other users can read it.
    pub fn check(&self) -> Result<(), TokenFileError> {
        self.read().map(|_| ())
    }

    /// Creates a token for namespaces. The token itself is returned once and never stored.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, namespaces: BTreeSet<Namespace>) -> Result<String, TokenFileError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("{PREFIX}{digits}");
        let digest = Digest::of(token.as_bytes());
        let number = digest.to_string()[..8].to_owned();
        self.change(|records| {
            records.push(TokenRecord { number, digest, namespaces });
            Ok(())
        })?;
        Ok(token)
    }

    /// Deletes a token.
    ///
    /// # Errors
    /// If the number is unknown or the file cannot be written.
    pub fn revoke(&self, number: &str) -> Result<(), TokenFileError> {
        self.change(|records| {
            let before = records.len();
            records.retain(|record| record.number != number);
            if records.len() < before { Ok(()) } else { Err(TokenFileError::Unknown(number.to_owned())) }
        })
    }

    /// Number and namespaces of each token.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self) -> Result<Vec<(String, BTreeSet<Namespace>)>, TokenFileError> {
        Ok(self.read()?.into_iter().map(|record| (record.number, record.namespaces)).collect())
    }

    /// Finds the holder of a token. All digests are compared in constant time, so that timing reveals nothing about stored
    /// tokens. Malformed tokens are rejected without reading the file.
    pub(crate) fn find(&self, token: &str) -> Result<Option<Publisher>, TokenFileError> {
        if token.len() != TOKEN_LENGTH || !token.starts_with(PREFIX) {
            return Ok(None);
        }
        let digest_of_token = Digest::of(token.as_bytes()).to_string();
        let mut publisher = None;
        for TokenRecord { number, digest, namespaces } in self.read()? {
            if is_same(&digest.to_string(), &digest_of_token) {
                publisher = Some(Publisher { number, namespaces });
            }
        }
        Ok(publisher)
    }

    fn read(&self) -> Result<Vec<TokenRecord>, TokenFileError> {
        let path = || self.path.clone();
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|source| TokenFileError::File { operation: "read", path: path(), source })?,
        };
        let metadata = fs::metadata(&self.path);
        let mode =
            metadata.map_err(|source| TokenFileError::File { operation: "read", path: path(), source })?.permissions();
        if mode.mode() & 0o077 != 0 {
            return Err(TokenFileError::Readable(path()));
        }
        serde_json::from_slice(&bytes).map_err(|source| TokenFileError::Damaged { path: path(), source })
    }

    /// Changes the file under a lock.
    fn change(
        &self,
        edit: impl FnOnce(&mut Vec<TokenRecord>) -> Result<(), TokenFileError>,
    ) -> Result<(), TokenFileError> {
        let failed = |operation, path: &Path| {
            let path = path.to_owned();
            move |source| TokenFileError::File { operation, path, source }
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.map_err(failed("create", folder))?,
        }
        let path = folder.join("lock");
        let lock =
            File::options().write(true).create(true).truncate(false).open(&path).map_err(failed("write", &path))?;
        lock.lock().map_err(failed("lock", &path))?;
        let mut records = self.read()?;
        edit(&mut records)?;
        let damaged = |source| TokenFileError::Damaged { path: self.path.clone(), source };
        let bytes = serde_json::to_vec_pretty(&records).map_err(damaged)?;
        // The folder's mode 0700 protects the file until its permissions are set.
        write_atomically(&self.path, &bytes).map_err(failed("write", &self.path))?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600)).map_err(failed("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces(text: &str) -> BTreeSet<Namespace> {
        [text.parse().expect("a namespace")].into()
    }

    #[test]
    fn token_is_valid_until_revoked_and_not_stored() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = PublishTokens::of_registry(folder.path());
        let token = tokens.add(namespaces("acme")).expect("a token");
        let other = tokens.add(namespaces("others")).expect("a token");
        let publisher = tokens.find(&token).expect("read").expect("a valid token");
        assert_eq!(publisher.namespaces, namespaces("acme"));
        let mut wrong = token.clone();
        wrong.replace_range(token.len() - 1.., if token.ends_with('0') { "1" } else { "0" });
        for invalid in [&wrong, "gymkhana_", "", &token[1..], &format!("{token}0")] {
            assert!(tokens.find(invalid).expect("read").is_none(), "{invalid}");
        }
        let text = fs::read_to_string(&tokens.path).expect("a file");
        assert!(!text.contains(&token[PREFIX.len()..]) && !text.contains(&other[PREFIX.len()..]));
        assert_eq!(fs::metadata(&tokens.path).expect("a file").permissions().mode() & 0o777, 0o600);
        tokens.revoke(&publisher.number).expect("revoked");
        assert!(tokens.find(&token).expect("read").is_none() && tokens.find(&other).expect("read").is_some());
        assert!(matches!(tokens.revoke(&publisher.number), Err(TokenFileError::Unknown(_))));
        fs::set_permissions(&tokens.path, fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(matches!(tokens.find(&other), Err(TokenFileError::Readable(_))));
    }
}
