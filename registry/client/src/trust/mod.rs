//! Local records of trust: the last checkpoint seen of each registry, and the provenance of cached components.
//!
//! A seen checkpoint, with the index files that it references, is not a cache entry: deleting it removes the protection
//! against rollbacks. Several processes may write concurrently; the highest sequence number wins.

mod provenance;
mod utc;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gymkhana_registry::{AcceptedCheckpoint, ContentStore, Digest, PublicKey, write_atomically};

use reqwest::header::HeaderValue;

use crate::error::RegistryClientError;

pub(crate) use provenance::{ProvenanceStore, SourceId};
pub(crate) use utc::{date, utc};

/// Record of one registry in a folder of its own.
#[derive(Debug, Clone)]
pub(crate) struct SeenCheckpoints {
    folder: PathBuf,
    root: PublicKey,
}

/// The last accepted checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct SeenCheckpoint {
    pub text: String,
    pub accepted: AcceptedCheckpoint,
    /// ETag of the server.
    pub etag: Option<String>,
}

impl SeenCheckpoints {
    /// Record of the registry at a location with a pinned root key. Each root key has its own record.
    pub fn new(folder: &Path, location: &str, root: PublicKey) -> Self {
        let id = Digest::of(format!("{location}\n{root}").as_bytes()).to_string();
        Self { folder: folder.join(&id[..32]), root }
    }

    /// Index files and catalogues of the registry.
    pub fn content_store(&self) -> ContentStore {
        ContentStore::new(self.folder.clone())
    }

    fn checkpoint_path(&self) -> PathBuf {
        self.folder.join("checkpoint.json")
    }

    fn etag_path(&self) -> PathBuf {
        self.folder.join("etag")
    }

    /// Returns the last accepted checkpoint.
    ///
    /// # Errors
    /// If the record cannot be read or was modified: ignoring it would allow a rollback.
    pub fn last(&self) -> Result<Option<SeenCheckpoint>, RegistryClientError> {
        let path = self.checkpoint_path();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("read", &path))?,
        };
        let accepted = AcceptedCheckpoint::verify_signature(&text, &self.root)
            .map_err(|source| RegistryClientError::SeenDamaged { path, source: Box::new(source) })?;
        // The file holds the checkpoint's digest and the ETag; an ETag of another checkpoint or an invalid one is ignored.
        let tag = fs::read_to_string(self.etag_path()).ok();
        let etag = tag.and_then(|tag| Some(tag.strip_prefix(&format!("{} ", accepted.digest))?.to_owned()));
        let etag = etag.filter(|etag| HeaderValue::from_str(etag).is_ok());
        Ok(Some(SeenCheckpoint { text, accepted, etag }))
    }

    /// Records a checkpoint unless a later one was recorded meanwhile.
    pub fn record(
        &self,
        text: &str,
        accepted: &AcceptedCheckpoint,
        etag: Option<&str>,
    ) -> Result<(), RegistryClientError> {
        fs::create_dir_all(&self.folder).map_err(failed("create", &self.folder))?;
        let path = self.folder.join("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(failed("write", &path))?;
        lock.lock().map_err(failed("lock", &path))?;
        if let Some(last) = self.last()?
            && last.accepted.checkpoint.sequence > accepted.checkpoint.sequence
        {
            return Ok(());
        }
        let path = self.checkpoint_path();
        write_atomically(&path, text.as_bytes()).map_err(failed("write", &path))?;
        if let Some(etag) = etag {
            let path = self.etag_path();
            write_atomically(&path, format!("{} {etag}", accepted.digest).as_bytes())
                .map_err(failed("write", &path))?;
        }
        Ok(())
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RegistryClientError {
    let path = path.to_owned();
    move |source| RegistryClientError::Seen { operation, path, source }
}
