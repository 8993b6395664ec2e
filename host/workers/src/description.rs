//! What a worker must know of a run or of a server before it plays: versions, files and seats.

use std::path::{Component, Path};
use std::sync::Arc;

use gymkhana_orchestration::{Classify, Reporter, RunResult};
use gymkhana_record::EPISODE_SCHEMA;
use gymkhana_registry::{Digest, contract};
use serde::{Deserialize, Serialize};

use crate::bus::Bus;
use crate::dropped::Dropped;
use crate::reply::OwnerConnection;
use crate::signature::OwnerKey;

/// Version of the messages on the bus.
const PROTOCOL: u32 = 5;

/// Versions of a program; a worker's are those of the trainer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Versions {
    /// Messages on the bus.
    pub protocol: u32,
    /// Host.
    pub host: String,
    /// Digest of the contract between host and plugins.
    pub contract: Digest,
    /// Schema of episode records.
    pub records: u32,
}

impl Versions {
    /// Those of this program.
    pub fn own() -> Self {
        Self {
            protocol: PROTOCOL,
            host: env!("CARGO_PKG_VERSION").to_owned(),
            contract: contract::digest(),
            records: EPISODE_SCHEMA,
        }
    }

    /// The first difference from those of this program, in words; `whose` names the other program.
    pub fn difference(&self, whose: &str) -> Option<String> {
        let own = Self::own();
        let differs = |what: &str, theirs: &dyn std::fmt::Display, ours: &dyn std::fmt::Display| {
            Some(format!("{what} {theirs} of {whose} is not {ours}, that of this program"))
        };
        if self.host != own.host {
            return differs("host version", &self.host, &own.host);
        }
        if self.contract != own.contract {
            return differs("contract", &self.contract, &own.contract);
        }
        if self.protocol != own.protocol {
            return differs("protocol version", &self.protocol, &own.protocol);
        }
        if self.records != own.records {
            return differs("record schema", &self.records, &own.records);
        }
        None
    }
}

/// A file of the run's folder, by its digest in the files bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEntry {
    /// Path below the run's folder.
    pub path: String,
    /// Digest of the content, which is also its name in the bucket.
    pub digest: Digest,
    /// Size.
    pub bytes: u64,
}

impl FileEntry {
    /// Whether the path stays below the folder that it is joined to.
    pub fn is_inside(&self) -> bool {
        let path = Path::new(&self.path);
        !self.path.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
    }
}

/// Player of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SeatKind {
    /// The environment's oracle.
    Oracle,
    /// A model of the trainer's machine.
    Model {
        /// Most tokens of a conversation.
        context: usize,
        /// Whether it scores given tokens.
        can_score: bool,
    },
}

/// What workers play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkKind {
    /// Groups of a run.
    Groups,
    /// Episodes of a server's sessions.
    Sessions,
}

/// A run or a server on the bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// What its workers play.
    pub work: WorkKind,
    /// Versions of the trainer or the server.
    pub versions: Versions,
    /// Life of the trainer or the server.
    pub epoch: String,
    /// Public key with which it signs jobs, replies and requests in this life.
    pub key: String,
    /// Files of the run's folder that its episodes depend on.
    pub files: Vec<FileEntry>,
    /// Players of the seats; empty for a server.
    pub seats: Vec<SeatKind>,
    /// Number of places of a deterministic run.
    pub places: Option<usize>,
    /// Time after which the job or the sessions of a silent worker go to another one, in milliseconds.
    pub lease_ms: u64,
}

/// A description cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DescriptionError {
    /// It is not a description.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    /// Without a key, messages of its trainer or server cannot be verified.
    #[error("`key` is not the public key of a user's NKey")]
    Key,
    /// A number is out of range: anyone on the bus can write one.
    #[error("`{field}` is {value}, and must be {least} to {most}")]
    Range {
        /// Field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Least value.
        least: u64,
        /// Largest value.
        most: u64,
    },
}

impl Description {
    /// Reads a description and checks its numbers.
    ///
    /// # Errors
    /// If it is malformed, or a number is out of range.
    pub fn parse(text: &[u8]) -> Result<Self, DescriptionError> {
        let description: Self = serde_json::from_slice(text)?;
        let within = |field, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(DescriptionError::Range { field, value, least, most })
        };
        if OwnerKey::parse(&description.key).is_none() {
            return Err(DescriptionError::Key);
        }
        within("lease_ms", description.lease_ms, 1, 86_400_000)?;
        within("places", description.places.unwrap_or(1) as u64, 1, 1_000_000)?;
        within("seats", description.seats.len() as u64, 0, 1024)?;
        within("files", description.files.len() as u64, 0, 100_000)?;
        for file in &description.files {
            within("files.bytes", file.bytes, 0, 1 << 40)?;
        }
        for seat in &description.seats {
            if let SeatKind::Model { context, .. } = seat {
                within("seats.model.context", *context as u64, 1, 1 << 31)?;
            }
        }
        Ok(description)
    }

    /// The trainer or server, for questions over this connection.
    ///
    /// # Errors
    /// If the description has no key, which [`parse`](Self::parse) refuses.
    pub fn owner(&self, bus: &Bus, reporter: &Arc<dyn Reporter>) -> RunResult<Arc<OwnerConnection>> {
        let key = OwnerKey::parse(&self.key).ok_or(DescriptionError::Key).user_error()?;
        Ok(Arc::new(OwnerConnection { client: bus.client.clone(), key, dropped: Dropped::new(reporter) }))
    }

    /// Digest of all files, which tells a worker's plugins and settings from others.
    pub fn files_digest(&self) -> Digest {
        // A list of texts and numbers serialises without fail.
        Digest::of(&serde_json::to_vec(&self.files).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_folder() {
        let entry = |path: &str| FileEntry { path: path.to_owned(), digest: Digest::of(b""), bytes: 0 };
        assert!(entry("run.toml").is_inside() && entry("plugins/a.wasm").is_inside());
        for path in ["", "/etc/passwd", "../run.toml", "plugins/../../x", "."] {
            assert!(!entry(path).is_inside(), "{path}");
        }
    }

    #[test]
    fn numbers_have_ranges() {
        let seat = SeatKind::Model { context: 4096, can_score: true };
        let sound = Description {
            work: WorkKind::Groups,
            versions: Versions::own(),
            epoch: "e".to_owned(),
            files: vec![FileEntry { path: "run.toml".to_owned(), digest: Digest::of(b""), bytes: 9 }],
            key: crate::signature::Signer::temporary().public_key(),
            seats: vec![seat],
            places: Some(8),
            lease_ms: 60_000,
        };
        let parse = |change: &dyn Fn(&mut Description)| {
            let mut changed = sound.clone();
            change(&mut changed);
            Description::parse(&serde_json::to_vec(&changed).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(parse(&|_| {}).as_ref(), Ok(&sound));
        for (change, field) in [
            (&(|own: &mut Description| own.key.make_ascii_lowercase()) as &dyn Fn(&mut Description), "`key` is not"),
            (&(|own: &mut Description| own.places = Some(0)) as &dyn Fn(&mut Description), "`places` is 0"),
            (&|own| own.lease_ms = u64::MAX, "`lease_ms` is 18446744073709551615"),
            (&|own| own.lease_ms = 0, "`lease_ms` is 0"),
            (&|own| own.seats = vec![SeatKind::Model { context: 0, can_score: true }], "`seats.model.context` is 0"),
            (&|own| own.seats = vec![SeatKind::Oracle; 1025], "`seats` is 1025"),
            (&|own| own.files[0].bytes = u64::MAX, "`files.bytes` is 18446744073709551615"),
        ] {
            assert!(parse(change).unwrap_err().starts_with(field), "{field}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let own = Versions::own();
        assert_eq!(own.difference("the trainer"), None);
        let other = Versions { host: "9.9.9".to_owned(), ..own.clone() };
        let expected =
            format!("host version 9.9.9 of the trainer is not {}, that of this program", env!("CARGO_PKG_VERSION"));
        assert_eq!(other.difference("the trainer"), Some(expected));
        let contract = Versions { contract: Digest::of(b"other"), ..own };
        assert!(contract.difference("the trainer").unwrap().starts_with("contract "));
    }
}
