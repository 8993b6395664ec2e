//! The checkpoint: one signed line that says what a whole registry holds at one moment.
//!
//! Everything else is addressed by its digest, so that this is the only file that changes, and whoever serves the files
//! can choose nothing but which checkpoint to show. A sequence number and an expiry take that choice away too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::rotation::{Holder, Rotation, reachable};
use super::{PublicKey, Purpose, SecretKey, Signed, SignedError};
use crate::{Digest, Namespace, PluginName};

/// The number of the checkpoint's shape.
pub const CHECKPOINT_SCHEMA: u32 = 1;

/// The largest checkpoint that is read, in bytes: 64 MiB, some half a million plugins.
pub const MAX_CHECKPOINT_BYTES: u64 = 64 << 20;

/// The state of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// [`CHECKPOINT_SCHEMA`] when it was written.
    pub schema: u32,
    /// Grows by one with every change and with every renewal.
    pub sequence: u64,
    /// When it was signed, in seconds since 1970.
    pub issued: u64,
    /// Until when it counts, in seconds since 1970.
    pub expires: u64,
    /// Who may publish what.
    pub namespaces: BTreeMap<Namespace, Keys>,
    /// Every key that was handed over, oldest first.
    pub rotations: Vec<Rotation>,
    /// One line for each plugin, to search in.
    pub catalogue: Digest,
    /// The index file of each plugin.
    pub index: BTreeMap<PluginName, Digest>,
}

/// The keys of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// They sign new releases.
    pub current: BTreeSet<PublicKey>,
    /// They signed releases that still count, and sign no new ones.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retired: BTreeSet<PublicKey>,
}

impl Keys {
    /// Whether a release that is in the index may be signed by this key.
    #[must_use]
    pub fn have_signed(&self, key: &PublicKey) -> bool {
        self.current.contains(key) || self.retired.contains(key)
    }

    fn all(&self) -> BTreeSet<PublicKey> {
        self.current.union(&self.retired).copied().collect()
    }
}

/// What a release that some key signed counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It counts: the key is one of the namespace's.
    Counts,
    /// It counts no more: the key was the namespace's, handed over, and was revoked.
    Revoked,
    /// It never counted: the key is a stranger's.
    Stranger,
}

/// A checkpoint is refused. The caller says whose it is.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is no signed text, or not of a checkpoint's shape.
    #[error("its checkpoint is damaged or altered; ask its maintainer")]
    Damaged(#[source] SignedError),
    /// Its shape is newer than this host.
    #[error("its checkpoint has schema {0} and this host reads {CHECKPOINT_SCHEMA}; use a newer host")]
    Schema(u32),
    /// Neither the known root key nor one that it leads to has signed it.
    #[error(
        "its checkpoint is not signed by its root key {known}, nor by one that this key handed over to; whoever answers \
         is not the registry, or its root was replaced: ask its maintainer before you change `root`"
    )]
    AnotherRoot {
        /// The key that is known.
        known: PublicKey,
    },
    /// The signature is of another text.
    #[error("its checkpoint was altered after it was signed; try again, or ask its maintainer")]
    Altered(#[source] SignedError),
    /// It is older than one that was seen.
    #[error(
        "its checkpoint is number {found}, and number {seen} was seen before: an old state is being shown; try again \
         later, or ask its maintainer"
    )]
    RolledBack {
        /// What is shown.
        found: u64,
        /// What was seen.
        seen: u64,
    },
    /// Two of one number.
    #[error(
        "its checkpoint number {0} is not the number {0} that was seen before: it shows different states to different clients; ask its maintainer"
    )]
    Forked(u64),
    /// It does not count any more.
    #[error(
        "its checkpoint expired {} hours ago: it is not renewed any more, or an old state is being shown; ask its \
         maintainer to run `host registry sign`, and see that this machine's clock is right", ago.div_ceil(3600)
    )]
    Expired {
        /// Seconds since.
        ago: u64,
    },
    /// A namespace's new key without the old one's word.
    #[error(
        "its checkpoint gives namespace `{namespace}` the key {key}, and no key of the namespace that was known has \
         signed for it; ask its maintainer and the publisher before you trust it"
    )]
    SwappedKey {
        /// The namespace.
        namespace: Namespace,
        /// The new key.
        key: PublicKey,
    },
    /// A namespace or a plugin is gone.
    #[error(
        "its checkpoint no longer has {0}, which was there before: nothing is ever taken out of a registry; ask its maintainer"
    )]
    Vanished(String),
}

/// A checkpoint that was checked, and by whom it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The root key that signed it; none if it is taken unsigned.
    pub root: Option<PublicKey>,
    /// The digest of its file.
    pub digest: Digest,
}

impl Checkpoint {
    /// The checkpoint of a registry that holds nothing yet.
    #[must_use]
    pub fn empty(catalogue: Digest) -> Self {
        Self {
            schema: CHECKPOINT_SCHEMA,
            sequence: 0,
            issued: 0,
            expires: 0,
            namespaces: BTreeMap::new(),
            rotations: Vec::new(),
            catalogue,
            index: BTreeMap::new(),
        }
    }

    /// What a release in this namespace counts for that this key signed.
    #[must_use]
    pub fn standing(&self, namespace: &str, key: &PublicKey) -> Standing {
        let handed_over = |rotation: &Rotation| {
            let is_of = matches!(&rotation.of, Holder::Namespace(of) if of.as_str() == namespace);
            is_of && rotation.from == *key && rotation.is_signed()
        };
        if self.namespaces.get(namespace).is_some_and(|keys| keys.have_signed(key)) {
            Standing::Counts
        } else if self.rotations.iter().any(handed_over) {
            Standing::Revoked
        } else {
            Standing::Stranger
        }
    }

    /// The checkpoint's file, signed by the root key; without one it is a file of an unsigned folder.
    ///
    /// # Errors
    /// Never in practice: it can be written as JSON.
    pub fn sign(&self, root: Option<&SecretKey>) -> Result<String, serde_json::Error> {
        Ok(Signed::new(Purpose::Checkpoint, self, root.as_slice())?.file())
    }
}

impl Accepted {
    /// Takes a checkpoint as it stands, from a folder of which the user has said that it is unsigned.
    ///
    /// # Errors
    /// If it is not of a checkpoint's shape.
    pub fn unsigned(file: &str) -> Result<Self, CheckpointError> {
        let signed = Signed::parse(file).map_err(CheckpointError::Damaged)?;
        Ok(Self { checkpoint: read(&signed)?, root: None, digest: Digest::of(file.as_bytes()) })
    }

    /// Checks a checkpoint's signature, and nothing about its time: for one that was accepted before.
    ///
    /// # Errors
    /// If the root key has not signed it, by itself or by the keys that it handed over to.
    pub fn signed(file: &str, root: &PublicKey) -> Result<Self, CheckpointError> {
        let signed = Signed::parse(file).map_err(CheckpointError::Damaged)?;
        let checkpoint = read(&signed)?;
        let known = reachable(&Holder::Root, &BTreeSet::from([*root]), &checkpoint.rotations);
        let signer = signed.signers().find(|key| known.contains(key));
        let signer = signer.ok_or(CheckpointError::AnotherRoot { known: *root })?;
        signed.check(Purpose::Checkpoint, &signer).map_err(CheckpointError::Altered)?;
        Ok(Self { checkpoint, root: Some(signer), digest: Digest::of(file.as_bytes()) })
    }

    /// Checks a checkpoint that a registry shows `now`, against its pinned root key and the last one that was accepted.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn fresh(file: &str, pinned: &PublicKey, last: Option<&Self>, now: u64) -> Result<Self, CheckpointError> {
        // Once a root has handed over, the old one counts no more.
        let root = last.and_then(|last| last.root).unwrap_or(*pinned);
        let accepted = Self::signed(file, &root)?;
        if let Some(last) = last {
            accepted.follows(last)?;
        }
        match now.checked_sub(accepted.checkpoint.expires) {
            Some(ago) => Err(CheckpointError::Expired { ago }),
            None => Ok(accepted),
        }
    }

    /// Whether this can come after `last`.
    fn follows(&self, last: &Self) -> Result<(), CheckpointError> {
        let (new, old) = (&self.checkpoint, &last.checkpoint);
        if new.sequence < old.sequence {
            return Err(CheckpointError::RolledBack { found: new.sequence, seen: old.sequence });
        }
        if new.sequence == old.sequence {
            return if self.digest == last.digest { Ok(()) } else { Err(CheckpointError::Forked(new.sequence)) };
        }
        for (namespace, known) in &old.namespaces {
            let keys = new.namespaces.get(namespace);
            let keys = keys.ok_or_else(|| CheckpointError::Vanished(format!("namespace `{namespace}`")))?;
            let reached = reachable(&Holder::Namespace(namespace.clone()), &known.all(), &new.rotations);
            if let Some(key) = keys.all().difference(&reached).next() {
                return Err(CheckpointError::SwappedKey { namespace: namespace.clone(), key: *key });
            }
        }
        match old.index.keys().find(|name| !new.index.contains_key(name)) {
            Some(name) => Err(CheckpointError::Vanished(format!("plugin `{name}`"))),
            None => Ok(()),
        }
    }
}

/// Reads the schema number by itself first: a newer checkpoint may have any other shape.
fn read(signed: &Signed) -> Result<Checkpoint, CheckpointError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    match signed.read_unchecked::<Checkpoint>() {
        Ok(checkpoint) if checkpoint.schema == CHECKPOINT_SCHEMA => Ok(checkpoint),
        Ok(checkpoint) => Err(CheckpointError::Schema(checkpoint.schema)),
        Err(damaged) => match signed.read_unchecked::<Schema>() {
            Ok(Schema { schema }) if schema != CHECKPOINT_SCHEMA => Err(CheckpointError::Schema(schema)),
            _ => Err(CheckpointError::Damaged(damaged)),
        },
    }
}
