//! What was seen of a registry: its last accepted checkpoint, and the index files that came with it.
//!
//! It is no cache: whoever deletes it forgets how far the registry was, and may be shown an older state. Several
//! processes may remember at once; the highest sequence number stays.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gymkhana_registry::{AcceptedCheckpoint, ContentStore, Digest, PublicKey, write_atomically};

use crate::error::RegistryClientError;

/// What was seen of one registry, below a folder of its own.
#[derive(Debug, Clone)]
pub(crate) struct SeenCheckpoints {
    folder: PathBuf,
    root: PublicKey,
}

/// The last checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct SeenCheckpoint {
    pub text: String,
    pub accepted: AcceptedCheckpoint,
    /// What the server called it.
    pub etag: Option<String>,
}

impl SeenCheckpoints {
    /// That of the registry at a place with this pinned root key: another root is another registry.
    pub fn new(folder: &Path, place: &str, root: PublicKey) -> Self {
        let id = Digest::of(format!("{place}\n{root}").as_bytes()).to_string();
        Self { folder: folder.join(&id[..32]), root }
    }

    /// The registry's index files and catalogues, by digest.
    pub fn contents(&self) -> ContentStore {
        ContentStore::new(self.folder.clone())
    }

    fn checkpoint(&self) -> PathBuf {
        self.folder.join("checkpoint.json")
    }

    /// The last checkpoint that was accepted.
    ///
    /// # Errors
    /// If there is one that cannot be read, or that is no longer as it was: to go on without it would forget.
    pub fn last(&self) -> Result<Option<SeenCheckpoint>, RegistryClientError> {
        let path = self.checkpoint();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(broken("read", &path))?,
        };
        let accepted = AcceptedCheckpoint::signed(&text, &self.root)
            .map_err(|error| broken("read: it was changed or damaged", &path)(io::Error::other(error)))?;
        // The tag stands beside it, under the digest that it belongs to.
        let tag = fs::read_to_string(self.tag()).ok();
        let etag = tag.and_then(|tag| Some(tag.strip_prefix(&format!("{} ", accepted.digest))?.to_owned()));
        Ok(Some(SeenCheckpoint { text, accepted, etag }))
    }

    fn tag(&self) -> PathBuf {
        self.folder.join("etag")
    }

    /// Remembers a checkpoint, unless a later one was remembered meanwhile.
    pub fn remember(&self, text: &str, accepted: &AcceptedCheckpoint, etag: Option<&str>) -> Result<(), RegistryClientError> {
        fs::create_dir_all(&self.folder).map_err(broken("created", &self.folder))?;
        let path = self.folder.join("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(broken("written", &path))?;
        lock.lock().map_err(broken("locked", &path))?;
        if let Some(last) = self.last()?
            && last.accepted.checkpoint.sequence > accepted.checkpoint.sequence
        {
            return Ok(());
        }
        let path = self.checkpoint();
        write_atomically(&path, text.as_bytes()).map_err(broken("written", &path))?;
        if let Some(etag) = etag {
            let path = self.tag();
            write_atomically(&path, format!("{} {etag}", accepted.digest).as_bytes())
                .map_err(broken("written", &path))?;
        }
        Ok(())
    }
}

fn broken(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RegistryClientError {
    let path = path.to_owned();
    move |source| RegistryClientError::Memory { what, path, source }
}
