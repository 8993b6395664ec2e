//! Serialized changes of a registry folder.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use semver::Version;

use super::replaced::Replaced;
use super::{CHECKPOINT_FILE, FolderError, RegistryFolder};
use crate::content_store::{disk, read_up_to};
use crate::publish;
use crate::{
    CatalogueRow, ContentFile, ContentStore, ContentStoreError, Digest, IndexRow, KeyHolder, MAX_CHECKPOINT_BYTES,
    Namespace, NamespaceKeys, PendingFile, PluginName, PublicKey, RegistryCheckpoint, Release, ReleaseError, Rotation,
    SecretKey, SignedText, check_append_only, open_lock_file, write_atomically, write_catalogue, write_index,
};

/// Lock file of writers.
const LOCK: &str = ".lock";

/// Signing key and validity of the checkpoint that a change writes.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    /// Root key; `None` for an unsigned folder.
    pub root: Option<&'a SecretKey>,
    /// Validity of the checkpoint in seconds.
    pub lifetime: u64,
    /// Current time in seconds since 1970.
    pub now: u64,
}

/// A state being edited under the folder's lock.
pub(super) struct Draft {
    pub(super) checkpoint: RegistryCheckpoint,
    catalogue: BTreeMap<PluginName, CatalogueRow>,
    /// Files that the edited state no longer references.
    pub(super) replaced: Vec<ContentFile>,
    /// Files that earlier states stopped referencing.
    pub(super) listed: Vec<Replaced>,
    _lock: File,
}

impl RegistryFolder {
    /// Creates an empty registry.
    ///
    /// # Errors
    /// If the folder is not empty or cannot be written.
    pub fn create(folder: &Path, authority: Authority<'_>) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Write { path: folder.to_owned(), source };
        if !Self::is_free(folder).map_err(disk("read", folder)).map_err(failed)? {
            return Err(FolderError::NotEmpty(folder.to_owned()));
        }
        let store = ContentStore::new(folder.to_owned());
        let empty = Digest::of(b"");
        store.write(&ContentFile::Catalogue(empty), b"").map_err(failed)?;
        let registry = Self { store };
        registry.commit(&mut RegistryCheckpoint::empty(empty), authority)?;
        Ok(registry)
    }

    /// Adds a release. `file` is the text of its release file and `component` a pending file of this folder's store.
    ///
    /// # Errors
    /// If the release violates a rule, is not signed by a key of its namespace, or does not match the component.
    pub fn add(&self, file: &str, component: &PendingFile, authority: Authority<'_>) -> Result<IndexRow, FolderError> {
        // Hashing a large component happens before the lock is taken.
        let unverified = Release::read(file, None).map_err(FolderError::InvalidRelease)?;
        let bytes = read_up_to(component.path(), unverified.size).map_err(disk("read", component.path()));
        unverified
            .check_component(&bytes.map_err(|error| self.write_error(error))?)
            .map_err(|source| FolderError::Release { name: unverified.manifest.name.clone(), source })?;
        let mut draft = self.draft(authority)?;
        let (release, signer) = self.check_release(&draft.checkpoint, file, authority.root.is_some())?;
        let name = &release.manifest.name;
        let row = IndexRow::new(&release, file, signer);
        // The component and the release may exist already if a crash interrupted an earlier change.
        let content = ContentFile::Component(release.digest);
        self.store.commit(component, &content).map_err(|error| self.write_error(error))?;
        self.write(&ContentFile::Release(row.release), file.as_bytes())?;
        let mut rows = self.rows_of(&draft.checkpoint, name)?;
        rows.push(row.clone());
        self.put_rows(&mut draft, name, &rows)?;
        self.finish(draft, authority)?;
        Ok(row)
    }

    /// Checks a release before its component is uploaded, with the rules of [`add`](Self::add).
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn precheck(&self, file: &str, root: Option<&PublicKey>) -> Result<Release, FolderError> {
        Ok(self.check_release(&self.state(root)?.checkpoint, file, root.is_some())?.0)
    }

    /// Yanks a version, which excludes it from new resolutions, or restores it.
    ///
    /// # Errors
    /// If the version does not exist or the folder cannot be written.
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

    /// Creates a namespace with its first key.
    ///
    /// # Errors
    /// If the namespace exists or is confusable with another.
    pub fn grant(&self, namespace: &Namespace, key: PublicKey, authority: Authority<'_>) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        let namespaces = &mut draft.checkpoint.namespaces;
        if namespaces.contains_key(namespace) {
            return Err(FolderError::Granted(namespace.clone()));
        }
        publish::check_namespace(namespace, namespaces.keys())
            .map_err(|other| FolderError::Confusable { namespace: namespace.clone(), other })?;
        namespaces.insert(namespace.clone(), NamespaceKeys { current: [key].into(), retired: [].into() });
        self.finish(draft, authority)
    }

    /// Replaces a namespace's key with a new one that the old key endorsed. Releases signed by the old key remain valid
    /// unless `revoke` is set.
    ///
    /// # Errors
    /// If the old key is not a current key of the namespace or did not sign the rotation.
    pub fn rotate(&self, rotation: Rotation, revoke: bool, authority: Authority<'_>) -> Result<(), FolderError> {
        let wrong = |why| FolderError::Rotation { holder: rotation.of.clone(), key: rotation.from, why };
        let KeyHolder::Namespace(namespace) = &rotation.of else {
            return Err(wrong("a root key is replaced with `--new-root`"));
        };
        let mut draft = self.draft(authority)?;
        let keys =
            draft.checkpoint.namespaces.get_mut(namespace).ok_or_else(|| wrong("the namespace does not exist"))?;
        if !keys.current.contains(&rotation.from) {
            return Err(wrong("it is not a current key of the namespace"));
        }
        if !rotation.is_signed() {
            return Err(wrong("it did not sign the rotation"));
        }
        keys.current.remove(&rotation.from);
        keys.current.insert(rotation.to);
        if !revoke {
            keys.retired.insert(rotation.from);
        }
        draft.checkpoint.rotations.push(rotation);
        self.finish(draft, authority)
    }

    /// Revokes a retired key, for example after its theft was detected. Releases signed by it are then ignored.
    ///
    /// # Errors
    /// If the key is not a retired key of the namespace or the folder cannot be written.
    pub fn revoke(&self, namespace: &Namespace, key: &PublicKey, authority: Authority<'_>) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        let keys = draft.checkpoint.namespaces.get_mut(namespace);
        if !keys.is_some_and(|keys| keys.retired.remove(key)) {
            return Err(FolderError::NotRetired { namespace: namespace.clone(), key: *key });
        }
        self.finish(draft, authority)
    }

    /// Replaces the root key. `authority` holds the old key, which endorses the new one.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn replace_root(&self, new: &SecretKey, authority: Authority<'_>) -> Result<(), FolderError> {
        let mut draft = self.draft(authority)?;
        if let Some(old) = authority.root {
            draft.checkpoint.rotations.push(Rotation::new(KeyHolder::Root, old, new.public()));
        }
        self.finish(draft, Authority { root: Some(new), ..authority })
    }

    /// Signs the current state again with a new expiry.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn renew(&self, authority: Authority<'_>) -> Result<(), FolderError> {
        let draft = self.draft(authority)?;
        self.finish(draft, authority)
    }

    /// Takes the lock and reads the state.
    pub(super) fn draft(&self, authority: Authority<'_>) -> Result<Draft, FolderError> {
        let path = self.path().join(LOCK);
        let failed =
            |source| self.write_error(ContentStoreError::Disk { operation: "lock", path: path.clone(), source });
        let lock = open_lock_file(&path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let root = authority.root.map(SecretKey::public);
        let state = self.state(root.as_ref())?;
        // Clients follow the rotation to the new root key and would reject a checkpoint signed by the old one.
        if let Some(new) = state.root.filter(|signer| Some(*signer) != root) {
            return Err(FolderError::OldRoot(new));
        }
        let catalogue = self.catalogue(&state)?.into_iter().map(|row| (row.name.clone(), row)).collect();
        // Read before the change, so that a list with foreign paths prevents it.
        let listed = self.replaced_files()?;
        Ok(Draft { checkpoint: state.checkpoint, catalogue, replaced: Vec::new(), listed, _lock: lock })
    }

    /// Checks that a release is signed by a current key of its namespace and violates no rule.
    fn check_release(
        &self,
        state: &RegistryCheckpoint,
        file: &str,
        is_signed: bool,
    ) -> Result<(Release, Option<PublicKey>), FolderError> {
        let unverified = Release::read(file, None).map_err(FolderError::InvalidRelease)?;
        let name = unverified.manifest.name;
        let signer = if is_signed {
            let signed =
                SignedText::parse(file).map_err(|error| FolderError::InvalidRelease(ReleaseError::Damaged(error)))?;
            let keys = state.namespaces.get(name.namespace());
            let signer = signed.signers().find(|key| keys.is_some_and(|keys| keys.current.contains(key)));
            let found = || signed.signers().next().map_or("an unsigned release".to_owned(), |key| key.to_string());
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

    fn rows_of(&self, state: &RegistryCheckpoint, name: &PluginName) -> Result<Vec<IndexRow>, FolderError> {
        let Some(digest) = state.index.get(name) else { return Ok(Vec::new()) };
        let bytes = self.bytes(&ContentFile::Index(name.clone(), *digest))?;
        let rows = crate::read_index(name, &bytes);
        Ok(rows.map_err(|source| self.bad_index(name.to_string(), source))?)
    }

    fn put_rows(&self, draft: &mut Draft, name: &PluginName, rows: &[IndexRow]) -> Result<(), FolderError> {
        check_append_only(&self.rows_of(&draft.checkpoint, name)?, rows)
            .map_err(|source| self.bad_index(name.to_string(), source))?;
        let text = write_index(rows)?;
        let index = ContentFile::Index(name.clone(), Digest::of(text.as_bytes()));
        match CatalogueRow::of(rows) {
            Some(row) => draft.catalogue.insert(name.clone(), row),
            None => draft.catalogue.remove(name),
        };
        let rows: Vec<CatalogueRow> = draft.catalogue.values().cloned().collect();
        let lines = write_catalogue(&rows)?;
        let catalogue = ContentFile::Catalogue(Digest::of(lines.as_bytes()));
        // A file above the readers' limit would make the plugin or the whole registry unreadable.
        check_size(&format!("index of `{name}`"), text.len(), index.limit())?;
        check_size("catalogue", lines.len(), catalogue.limit())?;
        self.write(&index, text.as_bytes())?;
        self.write(&catalogue, lines.as_bytes())?;
        if let Some(old) = draft.checkpoint.index.insert(name.clone(), index.digest()) {
            draft.replaced.push(ContentFile::Index(name.clone(), old));
        }
        draft.replaced.push(ContentFile::Catalogue(draft.checkpoint.catalogue));
        draft.checkpoint.catalogue = catalogue.digest();
        Ok(())
    }

    /// Writes the new state and releases the lock.
    fn finish(&self, mut draft: Draft, authority: Authority<'_>) -> Result<(), FolderError> {
        self.commit(&mut draft.checkpoint, authority)?;
        self.delete_unreferenced(&draft.checkpoint, draft.listed, draft.replaced);
        Ok(())
    }

    fn commit(&self, checkpoint: &mut RegistryCheckpoint, authority: Authority<'_>) -> Result<(), FolderError> {
        checkpoint.sequence += 1;
        checkpoint.issued = authority.now;
        checkpoint.expires = authority.now.saturating_add(authority.lifetime);
        let text = checkpoint.sign(authority.root)?;
        check_size("checkpoint", text.len(), MAX_CHECKPOINT_BYTES)?;
        let path = self.path().join(CHECKPOINT_FILE);
        write_atomically(&path, text.as_bytes()).map_err(|source| {
            self.write_error(ContentStoreError::Disk { operation: "write", path: path.clone(), source })
        })
    }

    fn write(&self, file: &ContentFile, bytes: &[u8]) -> Result<(), FolderError> {
        self.store.write(file, bytes).map_err(|error| self.write_error(error))
    }

    pub(super) fn write_error(&self, source: ContentStoreError) -> FolderError {
        FolderError::Write { path: self.path().to_owned(), source }
    }
}

/// Checks a file size against the limit of readers.
fn check_size(file: &str, bytes: usize, limit: u64) -> Result<(), FolderError> {
    if bytes as u64 <= limit { Ok(()) } else { Err(FolderError::TooLarge { file: file.to_owned(), bytes, limit }) }
}
