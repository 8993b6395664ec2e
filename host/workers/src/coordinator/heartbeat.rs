//! Heartbeats of the workers that hold sessions.

use gymkhana_registry::Digest;
use serde::{Deserialize, Serialize};

use crate::description::Versions;
use crate::limits::MAX_NAME;

/// Most places of a worker.
const MAX_PLACES: u32 = 1 << 20;

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    /// Random id, which names the worker's subject.
    pub worker: String,
    /// Name in messages to people: the machine and the process.
    pub name: String,
    pub versions: Versions,
    /// Digest of the server's files at the worker.
    pub files: Digest,
    /// Episodes that it holds at most.
    pub places: u32,
    /// Number of the heartbeat of this id, from 1.
    pub number: u64,
    /// Whether it leaves: its answers end.
    pub leaves: bool,
}

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HeartbeatAnswer {
    /// The worker is known.
    Known,
    /// The server had lost it: its episodes are elsewhere, and it joins again with another id.
    Lost,
    /// It is not taken; the text is the reason.
    Refused(String),
}

impl Heartbeat {
    /// The reason why this worker is not taken by a server with these files.
    pub fn refusal(&self, files: &Digest) -> Option<String> {
        let is_id = self.worker.len() <= MAX_NAME && self.worker.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_id || self.worker.is_empty() || self.name.len() > MAX_NAME {
            return Some(format!("the name of the worker is malformed or has more than {MAX_NAME} bytes"));
        }
        if let Some(difference) = self.versions.difference("the worker") {
            return Some(difference);
        }
        if self.files != *files {
            return Some("the worker has other plugins or settings".to_owned());
        }
        (self.places == 0 || self.places > MAX_PLACES)
            .then(|| format!("the worker has {} places; it must have 1 to {MAX_PLACES}", self.places))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A heartbeat of a sound worker.
    pub fn heartbeat(worker: &str, places: u32, number: u64) -> Heartbeat {
        Heartbeat {
            worker: worker.to_owned(),
            name: format!("machine-{worker}"),
            versions: Versions::own(),
            files: Digest::of(b"files"),
            places,
            number,
            leaves: false,
        }
    }

    #[test]
    fn workers_of_other_versions_files_and_sizes_are_refused() {
        let files = Digest::of(b"files");
        assert_eq!(heartbeat("a", 1, 1).refusal(&files), None);
        let versions = Versions { host: "9.9.9".to_owned(), ..Versions::own() };
        for (wrong, words) in [
            (Heartbeat { versions, ..heartbeat("a", 1, 1) }, "host version 9.9.9 of the worker"),
            (Heartbeat { files: Digest::of(b"other"), ..heartbeat("a", 1, 1) }, "other plugins or settings"),
            (heartbeat("a", 0, 1), "has 0 places"),
            (heartbeat("a", u32::MAX, 1), "places; it must have"),
            (heartbeat("", 1, 1), "malformed"),
            (heartbeat("a.>", 1, 1), "malformed"),
            (heartbeat(&"a".repeat(200), 1, 1), "malformed"),
            (Heartbeat { name: "a".repeat(200), ..heartbeat("a", 1, 1) }, "malformed"),
        ] {
            let refusal = wrong.refusal(&files).unwrap();
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}
