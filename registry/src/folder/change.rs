//! Changes of a registry's folder, one at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use semver::Version;

use super::{CHECKPOINT_FILE, ReadError, RegistryFolder};
use crate::contents::{disk, read_up_to};
use crate::publish::{self, Refusal};
use crate::{
    CatalogueRow, Checkpoint, Contents, ContentsError, Digest, Holder, Incoming, Item, Keys, MAX_CHECKPOINT_BYTES,
    Namespace, PluginName, PublicKey, Release, ReleaseError, Rotation, Row, SecretKey, Signed, check_goes_on,
    write_atomically, write_catalogue, write_index,
};

/// The file that whoever changes the registry holds a lock on.
const LOCK: &str = ".lock";

/// Who signs what a change leaves, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    /// The root key; none for an unsigned folder.
    pub root: Option<&'a SecretKey>,
    /// For how many seconds a checkpoint counts.
    pub lifetime: u64,
    /// The time, in seconds since 1970.
    pub now: u64,
}

/// A registry's folder is not changed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be written.
    #[error("the registry in `{path}` cannot be changed")]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: ContentsError,
    },
    /// There is something else.
    #[error("`{0}` is not empty; make a registry in a new folder")]
    Taken(PathBuf),
    /// The release breaks a rule.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// It is no release at all.
    #[error("what should be published is no release")]
    NoRelease(#[source] ReleaseError),
    /// The release or its component is not what it must be.
    #[error("the release of `{name}` is refused")]
    Release {
        /// The plugin.
        name: PluginName,
        /// Why.
        source: ReleaseError,
    },
    /// The key may not publish there.
    #[error(
        "{key} is no key of namespace `{namespace}`; have the registry's maintainer grant it, or sign with one that is"
    )]
    NotAKey {
        /// The key.
        key: String,
        /// The namespace.
        namespace: String,
    },
    /// There is no such plugin or version.
    #[error("the registry has no `{0}`; look with `host search`")]
    Unknown(String),
    /// There is such a namespace.
    #[error("namespace `{0}` is granted already; its publisher hands over to another key with `host registry rotate`")]
    Granted(Namespace),
    /// There is one that is like it.
    #[error("namespace `{namespace}` is too like `{other}`; choose one that nobody confuses with it")]
    Close {
        /// The new one.
        namespace: Namespace,
        /// The other.
        other: Namespace,
    },
    /// The root key has handed over.
    #[error("the registry is signed by the root key {0} now; use that one")]
    OldRoot(PublicKey),
    /// A key is not handed over as it must be.
    #[error("{holder}'s key {key} cannot be replaced: {why}")]
    Rotation {
        /// Whose.
        holder: Holder,
        /// The old key.
        key: PublicKey,
        /// Why not.
        why: &'static str,
    },
    /// A file would be larger than readers read.
    #[error("{what} would have {bytes} bytes, and {limit} are the most that is read; publish under another name")]
    Full {
        /// Which file.
        what: String,
        /// What it would have.
        bytes: usize,
        /// What it may have.
        limit: u64,
    },
    /// A key cannot be revoked by itself.
    #[error(
        "{key} is no retired key of namespace `{namespace}`; one that is current is replaced and revoked with \
         `host registry rotate --revoke`"
    )]
    NotRetired {
        /// The namespace.
        namespace: Namespace,
        /// The key.
        key: PublicKey,
    },
    /// It cannot be written as JSON.
    #[error("the registry's state cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// A state that is being changed, under the folder's lock.
pub(super) struct Draft {
    pub(super) checkpoint: Checkpoint,
    catalogue: BTreeMap<PluginName, CatalogueRow>,
    /// Files that the state named before and names no more.
    replaced: Vec<Item>,
    _lock: File,
}

impl RegistryFolder {
    /// Makes an empty registry.
    ///
    /// # Errors
    /// If the folder holds something, or cannot be written.
    pub fn create(folder: &Path, authority: Authority<'_>) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Write { path: folder.to_owned(), source };
        if !Self::is_free(folder).map_err(disk("read", folder)).map_err(failed)? {
            return Err(FolderError::Taken(folder.to_owned()));
        }
        let contents = Contents::new(folder.to_owned());
        let empty = Digest::of(b"");
        contents.write(&Item::Catalogue(empty), b"").map_err(failed)?;
        let registry = Self { contents };
        registry.commit(&mut Checkpoint::empty(empty), authority)?;
        Ok(registry)
    }

    /// Adds a release whose component is `incoming`; `file` is its release file.
    ///
    /// # Errors
    /// If a rule refuses it, if it is not signed by a key of its namespace, or if its component is another one.
    pub fn add(&self, file: &str, incoming: &Incoming, authority: Authority<'_>) -> Result<Row, FolderError> {
        // What takes long comes before the lock.
        let said = Release::read(file, None).map_err(FolderError::NoRelease)?;
        let bytes = read_up_to(incoming.path(), said.size).map_err(disk("read", incoming.path()));
        said.check_component(&bytes.map_err(|error| self.unwritten(error))?)
            .map_err(|source| FolderError::Release { name: said.manifest.name.clone(), source })?;
        let mut draft = self.draft(authority)?;
        let (release, signer) = self.check(&draft.checkpoint, file, authority.root.is_some())?;
        let name = &release.manifest.name;
        let row = Row::new(&release, file, signer);
        // A component and its release may lie there already, from a change that a crash ended.
        self.contents.keep(incoming, &Item::Component(release.digest)).map_err(|error| self.unwritten(error))?;
        self.write(&Item::Release(row.release), file.as_bytes())?;
        let mut rows = self.rows_of(&draft.checkpoint, name)?;
        rows.push(row.clone());
        self.put_rows(&mut draft, name, &rows)?;
        self.finish(draft, authority)?;
        Ok(row)
    }

    /// What would be said of a release before its component is there: see [`add`](Self::add).
    ///
    /// # Errors
    /// As there.
    pub fn would_add(&self, file: &str, root: Option<&PublicKey>) -> Result<Release, FolderError> {
        Ok(self.check(&self.state(root)?.checkpoint, file, root.is_some())?.0)
    }

    /// Withdraws a version from new resolutions, or brings it back.
    ///
    /// # Errors
    /// If there is no such version, or the folder cannot be written.
    pub fn yank(
        &self,
        name: &PluginName,
        version: &Version,
        yanked: bool,
        authority: Authority<'_>,
    ) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        let mut rows = self.rows_of(&draft.checkpoint, name)?;
        let row = rows.iter_mut().find(|row| row.version == *version);
        row.ok_or_else(|| FolderError::Unknown(format!("{name}@{version}")))?.yanked = yanked;
        self.put_rows(&mut draft, name, &rows)?;
        self.finish(draft, authority)
    }

    /// Gives a new namespace its first key.
    ///
    /// # Errors
    /// If there is one of that name or too like it.
    pub fn grant(&self, namespace: &Namespace, key: PublicKey, authority: Authority<'_>) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        let namespaces = &mut draft.checkpoint.namespaces;
        if namespaces.contains_key(namespace) {
            return Err(FolderError::Granted(namespace.clone()));
        }
        publish::check_namespace(namespace, namespaces.keys())
            .map_err(|other| FolderError::Close { namespace: namespace.clone(), other })?;
        namespaces.insert(namespace.clone(), Keys { current: [key].into(), retired: [].into() });
        self.finish(draft, authority)
    }

    /// Puts a namespace's new key in the place of its old one, which has signed for it. What the old one signed goes on
    /// counting, unless it is revoked.
    ///
    /// # Errors
    /// If the old key is none of the namespace's, or did not sign.
    pub fn rotate(&self, rotation: Rotation, revoke: bool, authority: Authority<'_>) -> Result<(), FolderError> {
        let wrong = |why| FolderError::Rotation { holder: rotation.of.clone(), key: rotation.from, why };
        let Holder::Namespace(namespace) = &rotation.of else {
            return Err(wrong("the root is replaced by signing with the new key"));
        };
        let mut draft = self.draft(authority)?;
        let keys = draft.checkpoint.namespaces.get_mut(namespace).ok_or_else(|| wrong("there is no such namespace"))?;
        if !keys.current.contains(&rotation.from) {
            return Err(wrong("it is none of the namespace's current keys"));
        }
        if !rotation.is_signed() {
            return Err(wrong("it has not signed for the new one"));
        }
        keys.current.remove(&rotation.from);
        keys.current.insert(rotation.to);
        if !revoke {
            keys.retired.insert(rotation.from);
        }
        draft.checkpoint.rotations.push(rotation);
        self.finish(draft, authority)
    }

    /// Lets what a retired key signed count no more: it was stolen, as it turned out later.
    ///
    /// # Errors
    /// If it is none of the namespace's retired keys, or the folder cannot be written.
    pub fn revoke(&self, namespace: &Namespace, key: &PublicKey, authority: Authority<'_>) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        let keys = draft.checkpoint.namespaces.get_mut(namespace);
        if !keys.is_some_and(|keys| keys.retired.remove(key)) {
            return Err(FolderError::NotRetired { namespace: namespace.clone(), key: *key });
        }
        self.finish(draft, authority)
    }

    /// Hands the registry over to a new root key: the authority's is the old one, which signs for the new one.
    ///
    /// # Errors
    /// If the folder is unsigned, or cannot be written.
    pub fn replace_root(&self, new: &SecretKey, authority: Authority<'_>) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        if let Some(old) = authority.root {
            draft.checkpoint.rotations.push(Rotation::new(Holder::Root, old, new.public()));
        }
        self.finish(draft, Authority { root: Some(new), ..authority })
    }

    /// Signs the state again, so that it goes on counting.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn renew(&self, authority: Authority<'_>) -> Result<(), FolderError> {
        let draft = self.draft(authority)?;
        self.finish(draft, authority)
    }

    /// Takes the lock and reads the state under it.
    pub(super) fn draft(&self, authority: Authority<'_>) -> Result<Draft, FolderError> {
        let path = self.path().join(LOCK);
        let broken = |source| self.unwritten(ContentsError::Disk { what: "locked", path: path.clone(), source });
        let lock = File::options().write(true).create(true).truncate(false).open(&path).map_err(broken)?;
        lock.lock().map_err(broken)?;
        let root = authority.root.map(SecretKey::public);
        let state = self.state(root.as_ref())?;
        // An old root leads to the new one, but what it signs from now on would be refused by everybody.
        if let Some(new) = state.root.filter(|signer| Some(*signer) != root) {
            return Err(FolderError::OldRoot(new));
        }
        let catalogue = self.catalogue(&state)?.into_iter().map(|row| (row.name.clone(), row)).collect();
        Ok(Draft { checkpoint: state.checkpoint, catalogue, replaced: Vec::new(), _lock: lock })
    }

    /// Sees that a release is signed by a current key of its namespace and breaks no rule.
    fn check(
        &self,
        state: &Checkpoint,
        file: &str,
        is_signed: bool,
    ) -> Result<(Release, Option<PublicKey>), FolderError> {
        let said = Release::read(file, None).map_err(FolderError::NoRelease)?;
        let name = said.manifest.name;
        let signer = if is_signed {
            let signed = Signed::parse(file).map_err(|error| FolderError::NoRelease(ReleaseError::Damaged(error)))?;
            let keys = state.namespaces.get(name.namespace());
            let signer = signed.signers().find(|key| keys.is_some_and(|keys| keys.current.contains(key)));
            let found = || signed.signers().next().map_or("nobody's key".to_owned(), |key| key.to_string());
            let not_a_key = || FolderError::NotAKey { key: found(), namespace: name.namespace().to_owned() };
            Some(signer.ok_or_else(not_a_key)?)
        } else {
            None
        };
        let release = Release::read(file, signer.as_ref())
            .map_err(|source| FolderError::Release { name: name.clone(), source })?;
        publish::check(&release, &self.rows_of(state, &name)?, state.index.keys()).map_err(Box::new)?;
        Ok((release, signer))
    }

    fn rows_of(&self, state: &Checkpoint, name: &PluginName) -> Result<Vec<Row>, FolderError> {
        let Some(digest) = state.index.get(name) else { return Ok(Vec::new()) };
        let text = self.text(&Item::Index(name.clone(), *digest))?;
        let rows = crate::read_index(name, &text);
        Ok(rows.map_err(|source| self.bad_index(name.to_string(), source))?)
    }

    fn put_rows(&self, draft: &mut Draft, name: &PluginName, rows: &[Row]) -> Result<(), FolderError> {
        check_goes_on(&self.rows_of(&draft.checkpoint, name)?, rows)
            .map_err(|source| self.bad_index(name.to_string(), source))?;
        let text = write_index(rows)?;
        let index = Item::Index(name.clone(), Digest::of(text.as_bytes()));
        match CatalogueRow::of(rows) {
            Some(row) => draft.catalogue.insert(name.clone(), row),
            None => draft.catalogue.remove(name),
        };
        let rows: Vec<CatalogueRow> = draft.catalogue.values().cloned().collect();
        let lines = write_catalogue(&rows)?;
        let catalogue = Item::Catalogue(Digest::of(lines.as_bytes()));
        // What nobody would read is not written: it would end this plugin, or the registry.
        has_room(&format!("the index of `{name}`"), text.len(), index.limit())?;
        has_room("the catalogue", lines.len(), catalogue.limit())?;
        self.write(&index, text.as_bytes())?;
        self.write(&catalogue, lines.as_bytes())?;
        if let Some(old) = draft.checkpoint.index.insert(name.clone(), index.digest()) {
            draft.replaced.push(Item::Index(name.clone(), old));
        }
        draft.replaced.push(Item::Catalogue(draft.checkpoint.catalogue));
        draft.checkpoint.catalogue = catalogue.digest();
        Ok(())
    }

    /// Writes the new state down, and the lock goes.
    fn finish(&self, mut draft: Draft, authority: Authority<'_>) -> Result<(), FolderError> {
        self.commit(&mut draft.checkpoint, authority)?;
        self.take_out_old(&draft.checkpoint, &draft.replaced);
        Ok(())
    }

    fn commit(&self, checkpoint: &mut Checkpoint, authority: Authority<'_>) -> Result<(), FolderError> {
        checkpoint.sequence += 1;
        checkpoint.issued = authority.now;
        checkpoint.expires = authority.now.saturating_add(authority.lifetime);
        let text = checkpoint.sign(authority.root)?;
        has_room("the checkpoint", text.len(), MAX_CHECKPOINT_BYTES)?;
        let path = self.path().join(CHECKPOINT_FILE);
        write_atomically(&path, text.as_bytes())
            .map_err(|source| self.unwritten(ContentsError::Disk { what: "written", path: path.clone(), source }))
    }

    fn write(&self, item: &Item, bytes: &[u8]) -> Result<(), FolderError> {
        self.contents.write(item, bytes).map_err(|error| self.unwritten(error))
    }

    pub(super) fn unwritten(&self, source: ContentsError) -> FolderError {
        FolderError::Write { path: self.path().to_owned(), source }
    }
}

/// Whether a file of so many bytes would be read.
fn has_room(what: &str, bytes: usize, limit: u64) -> Result<(), FolderError> {
    if bytes as u64 <= limit { Ok(()) } else { Err(FolderError::Full { what: what.to_owned(), bytes, limit }) }
}
