//! The checkpoint: one signed line with the complete state of a registry.
//!
//! All other files are addressed by digest, so a malicious server can only choose which checkpoint to serve. The sequence
//! number prevents rollbacks and the expiry prevents freezing.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::rotation::{KeyHolder, Rotation, reachable};
use super::{PublicKey, Purpose, SecretKey, SignedText, SignedTextError};
use crate::{Digest, Namespace, PluginName};

/// Checkpoint schema that this crate reads.
pub const CHECKPOINT_SCHEMA: u32 = 1;

/// Size limit of a checkpoint in bytes (64 MiB, about half a million plugins).
pub const MAX_CHECKPOINT_BYTES: u64 = 64 << 20;

/// State of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryCheckpoint {
    /// [`CHECKPOINT_SCHEMA`] at the time of writing.
    pub schema: u32,
    /// Sequence number, incremented by every change and renewal.
    pub sequence: u64,
    /// Time of signing in seconds since 1970.
    pub issued: u64,
    /// Expiry in seconds since 1970.
    pub expires: u64,
    /// Keys of each namespace.
    pub namespaces: BTreeMap<Namespace, NamespaceKeys>,
    /// All key rotations, oldest first.
    pub rotations: Vec<Rotation>,
    /// Digest of the catalogue.
    pub catalogue: Digest,
    /// Digest of each plugin's index file.
    pub index: BTreeMap<PluginName, Digest>,
}

/// Keys of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceKeys {
    /// Keys that sign new releases.
    pub current: BTreeSet<PublicKey>,
    /// Replaced keys whose existing releases remain valid.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub retired: BTreeSet<PublicKey>,
}

impl NamespaceKeys {
    /// Returns true if releases signed by this key are valid.
    #[must_use]
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.current.contains(key) || self.retired.contains(key)
    }

    fn all(&self) -> BTreeSet<PublicKey> {
        self.current.union(&self.retired).copied().collect()
    }
}

/// Validity of a release by its signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseStatus {
    /// The key is a current or retired key of the namespace.
    Valid,
    /// The key was a key of the namespace and has been revoked; the release is ignored.
    Revoked,
    /// The key never belonged to the namespace.
    UnknownKey,
}

/// A checkpoint was rejected. The caller names the registry.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Malformed checkpoint.
    #[error("the checkpoint is damaged\nhint: report this to the registry's maintainer")]
    Damaged(#[source] SignedTextError),
    /// Unsupported schema.
    #[error("the checkpoint has schema {0}, but this host reads {CHECKPOINT_SCHEMA}\nhint: use a newer host")]
    Schema(u32),
    /// The checkpoint is signed neither by the pinned root key nor by a successor.
    #[error(
        "the checkpoint is not signed by the root key {known} or a successor: the server is not the registry, or the root \
         key was replaced without a rotation\nhint: ask the registry's maintainer before you change `root`"
    )]
    UnknownRoot {
        /// Pinned root key.
        known: PublicKey,
    },
    /// Invalid signature.
    #[error("the checkpoint was modified after signing\nhint: try again, or report this to the registry's maintainer")]
    Altered(#[source] SignedTextError),
    /// The checkpoint is older than the last accepted one.
    #[error(
        "the checkpoint has number {found}, but number {seen} was seen before: the server returned an old state\nhint: try \
         again later, or report this to the registry's maintainer"
    )]
    RolledBack {
        /// Sequence number of the checkpoint.
        found: u64,
        /// Sequence number of the last accepted checkpoint.
        seen: u64,
    },
    /// Two checkpoints with the same sequence number.
    #[error(
        "two different checkpoints have number {0}: the registry shows different states to different clients\nhint: report \
         this to the registry's maintainer"
    )]
    Forked(u64),
    /// Expired checkpoint.
    #[error(
        "the checkpoint expired {} hours ago: the registry was not renewed, or the server returned an old state\nhint: check \
         this machine's clock, or ask the registry's maintainer to run `host registry sign`",
        ago.div_ceil(3600)
    )]
    Expired {
        /// Seconds since the expiry.
        ago: u64,
    },
    /// A namespace has a new key without a rotation.
    #[error(
        "the checkpoint gives namespace `{namespace}` the key {key}, which no known key of the namespace endorsed\nhint: ask \
         the registry's maintainer and the publisher before you trust it"
    )]
    UnendorsedKey {
        /// Namespace.
        namespace: Namespace,
        /// New key.
        key: PublicKey,
    },
    /// A namespace or a plugin is missing.
    #[error(
        "the checkpoint lacks {0}, which was seen before: registries never remove entries\nhint: report this to the \
         registry's maintainer"
    )]
    Removed(String),
}

/// A checkpoint that passed verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedCheckpoint {
    /// Verified state.
    pub checkpoint: RegistryCheckpoint,
    /// Root key that signed it; `None` for an unsigned registry.
    pub root: Option<PublicKey>,
    /// Digest of the checkpoint file.
    pub digest: Digest,
}

impl RegistryCheckpoint {
    /// Checkpoint of an empty registry.
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

    /// Validity of releases in a namespace that a key signed.
    #[must_use]
    pub fn release_status(&self, namespace: &str, key: &PublicKey) -> ReleaseStatus {
        let is_former_key = |rotation: &Rotation| {
            let is_of = matches!(&rotation.of, KeyHolder::Namespace(of) if of.as_str() == namespace);
            is_of && rotation.from == *key && rotation.is_signed()
        };
        if self.namespaces.get(namespace).is_some_and(|keys| keys.contains(key)) {
            ReleaseStatus::Valid
        } else if self.rotations.iter().any(is_former_key) {
            ReleaseStatus::Revoked
        } else {
            ReleaseStatus::UnknownKey
        }
    }

    /// Parses a checkpoint file without verifying its signature.
    ///
    /// # Errors
    /// If the file is not UTF-8 or malformed, or has an unsupported schema.
    pub fn parse_unverified(file: impl AsRef<[u8]>) -> Result<Self, CheckpointError> {
        read(&SignedText::parse(file).map_err(CheckpointError::Damaged)?)
    }

    /// Text of the checkpoint file, signed if a root key is given.
    ///
    /// # Errors
    /// If serialization fails, which does not happen for valid checkpoints.
    pub fn sign(&self, root: Option<&SecretKey>) -> Result<String, serde_json::Error> {
        Ok(SignedText::new(Purpose::Checkpoint, self, root.as_slice())?.file())
    }
}

impl AcceptedCheckpoint {
    /// Parses the checkpoint of an unsigned registry without verification.
    ///
    /// # Errors
    /// If the checkpoint is malformed.
    pub fn unsigned(file: impl AsRef<[u8]>) -> Result<Self, CheckpointError> {
        let signed = SignedText::parse(&file).map_err(CheckpointError::Damaged)?;
        Ok(Self { checkpoint: read(&signed)?, root: None, digest: Digest::of(file.as_ref()) })
    }

    /// Verifies the signature but not the expiry.
    ///
    /// # Errors
    /// If neither the root key nor a successor signed the checkpoint.
    pub fn verify_signature(file: impl AsRef<[u8]>, root: &PublicKey) -> Result<Self, CheckpointError> {
        let signed = SignedText::parse(&file).map_err(CheckpointError::Damaged)?;
        let checkpoint = read(&signed)?;
        let known = reachable(&KeyHolder::Root, &BTreeSet::from([*root]), &checkpoint.rotations);
        let signer = signed.signers().find(|key| known.contains(key));
        let signer = signer.ok_or(CheckpointError::UnknownRoot { known: *root })?;
        signed.verify(Purpose::Checkpoint, &signer).map_err(CheckpointError::Altered)?;
        Ok(Self { checkpoint, root: Some(signer), digest: Digest::of(file.as_ref()) })
    }

    /// Verifies a checkpoint fetched at time `now` (seconds since 1970) against the pinned root key and the last accepted
    /// checkpoint.
    ///
    /// # Errors
    /// The first problem found.
    pub fn verify(
        file: impl AsRef<[u8]>,
        pinned: &PublicKey,
        last: Option<&Self>,
        now: u64,
    ) -> Result<Self, CheckpointError> {
        // After a root key rotation, signatures of the old key are rejected.
        let root = last.and_then(|last| last.root).unwrap_or(*pinned);
        let accepted = Self::verify_signature(file, &root)?;
        if let Some(last) = last {
            accepted.check_successor_of(last)?;
        }
        match now.checked_sub(accepted.checkpoint.expires) {
            Some(ago) => Err(CheckpointError::Expired { ago }),
            None => Ok(accepted),
        }
    }

    /// Checks that this checkpoint is a valid successor of `last`.
    fn check_successor_of(&self, last: &Self) -> Result<(), CheckpointError> {
        let (new, old) = (&self.checkpoint, &last.checkpoint);
        if new.sequence < old.sequence {
            return Err(CheckpointError::RolledBack { found: new.sequence, seen: old.sequence });
        }
        if new.sequence == old.sequence {
            return if self.digest == last.digest { Ok(()) } else { Err(CheckpointError::Forked(new.sequence)) };
        }
        for (namespace, known) in &old.namespaces {
            let keys = new.namespaces.get(namespace);
            let keys = keys.ok_or_else(|| CheckpointError::Removed(format!("namespace `{namespace}`")))?;
            let reached = reachable(&KeyHolder::Namespace(namespace.clone()), &known.all(), &new.rotations);
            if let Some(key) = keys.all().difference(&reached).next() {
                return Err(CheckpointError::UnendorsedKey { namespace: namespace.clone(), key: *key });
            }
        }
        match old.index.keys().find(|name| !new.index.contains_key(name)) {
            Some(name) => Err(CheckpointError::Removed(format!("plugin `{name}`"))),
            None => Ok(()),
        }
    }
}

/// Parses the state; the schema number is read separately because a newer checkpoint may have any shape.
fn read(signed: &SignedText) -> Result<RegistryCheckpoint, CheckpointError> {
    #[derive(Deserialize)]
    struct Schema {
        schema: u32,
    }
    match signed.read_unverified::<RegistryCheckpoint>() {
        Ok(checkpoint) if checkpoint.schema == CHECKPOINT_SCHEMA => Ok(checkpoint),
        Ok(checkpoint) => Err(CheckpointError::Schema(checkpoint.schema)),
        Err(damaged) => match signed.read_unverified::<Schema>() {
            Ok(Schema { schema }) if schema != CHECKPOINT_SCHEMA => Err(CheckpointError::Schema(schema)),
            _ => Err(CheckpointError::Damaged(damaged)),
        },
    }
}
