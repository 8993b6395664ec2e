//! A new key in the place of an old one, said by the old one.
//!
//! Rotations stand in the checkpoint for good, so that a client that slept for long can walk from the key that it knows
//! to the one that is used now. A step that the old key did not sign is no step.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PublicKey, Purpose, SecretKey, Signature};
use crate::Namespace;

/// Whose key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// The registry's, which signs checkpoints.
    Root,
    /// A namespace's, which signs releases.
    Namespace(Namespace),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace}"),
        }
    }
}

/// One key handed over to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Whose.
    pub of: Holder,
    /// The old key.
    pub from: PublicKey,
    /// The new key.
    pub to: PublicKey,
    /// The old key's word for it.
    pub signature: Signature,
}

impl Rotation {
    /// The old key hands over to the new one.
    #[must_use]
    pub fn new(of: Holder, old: &SecretKey, to: PublicKey) -> Self {
        let from = old.public();
        let signature = old.sign(Purpose::Rotation, text(&of, from, to).as_bytes());
        Self { of, from, to, signature }
    }

    /// Whether the old key did sign it.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        let text = text(&self.of, self.from, self.to);
        self.from.signed(Purpose::Rotation, text.as_bytes(), &self.signature)
    }
}

/// What is signed: a line without any freedom in how it is written.
fn text(of: &Holder, from: PublicKey, to: PublicKey) -> String {
    format!("{of} {from} {to}")
}

/// The keys to which these keys lead by signed rotations of this holder, themselves included. Keys that were walked
/// through are among them: whether they still count is for the checkpoint to say.
pub(super) fn reachable(of: &Holder, from: &BTreeSet<PublicKey>, rotations: &[Rotation]) -> BTreeSet<PublicKey> {
    let mut reached = from.clone();
    loop {
        let step = |rotation: &&Rotation| {
            rotation.of == *of && reached.contains(&rotation.from) && !reached.contains(&rotation.to)
        };
        match rotations.iter().filter(step).find(|rotation| rotation.is_signed()) {
            Some(rotation) => reached.insert(rotation.to),
            None => return reached,
        };
    }
}
