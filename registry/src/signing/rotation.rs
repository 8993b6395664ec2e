//! Key rotations: a new key endorsed by the old one.
//!
//! Checkpoints keep all rotations, so that a client can follow them from the key that it knows to the current one.
//! Rotations without a valid signature of the old key are ignored.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PublicKey, Purpose, SecretKey, Signature};
use crate::Namespace;

/// Holder of a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHolder {
    /// The registry, whose root key signs checkpoints.
    Root,
    /// A namespace, whose keys sign releases.
    Namespace(Namespace),
}

impl fmt::Display for KeyHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
        }
    }
}

/// Replacement of one key by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Holder of both keys.
    pub of: KeyHolder,
    /// Old key.
    pub from: PublicKey,
    /// New key.
    pub to: PublicKey,
    /// Signature of the old key.
    pub signature: Signature,
}

impl Rotation {
    /// Signs a rotation with the old key.
    #[must_use]
    pub fn new(of: KeyHolder, old: &SecretKey, to: PublicKey) -> Self {
        let from = old.public();
        let signature = old.sign(Purpose::Rotation, text(&of, from, to).as_bytes());
        Self { of, from, to, signature }
    }

    /// Verifies the signature of the old key.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        let text = text(&self.of, self.from, self.to);
        self.from.verifies(Purpose::Rotation, text.as_bytes(), &self.signature)
    }
}

/// Canonical signed text of a rotation.
fn text(of: &KeyHolder, from: PublicKey, to: PublicKey) -> String {
    format!("{of} {from} {to}")
}

/// Keys reachable from `from` through signed rotations of this holder, including `from` and intermediate keys. The
/// checkpoint decides which of them are valid.
pub(super) fn reachable(of: &KeyHolder, from: &BTreeSet<PublicKey>, rotations: &[Rotation]) -> BTreeSet<PublicKey> {
    let mut reached = from.clone();
    loop {
        let extends = |rotation: &&Rotation| {
            rotation.of == *of && reached.contains(&rotation.from) && !reached.contains(&rotation.to)
        };
        match rotations.iter().filter(extends).find(|rotation| rotation.is_signed()) {
            Some(rotation) => reached.insert(rotation.to),
            None => return reached,
        };
    }
}
