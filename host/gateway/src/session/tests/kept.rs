//! A journal of a session in a file, which must give the session's outcome back after a kill.

use std::sync::Arc;

use futures::future::BoxFuture;
use gymkhana_record::{Added, AgentRun, Ending, EpisodeId, EpisodeRecord, Phase, Seed, TaskRef};
use gymkhana_store::{LiveJournal, recover};

use super::{SessionJournal, SessionLog, SessionOutcome};

/// A journal in a folder of its own.
pub(super) struct Kept {
    folder: tempfile::TempDir,
    journal: Arc<File>,
}

struct File(LiveJournal);

impl SessionJournal for File {
    fn began(&self, episode: &EpisodeRecord) -> BoxFuture<'static, ()> {
        self.0.began("", episode).unwrap();
        Box::pin(std::future::ready(()))
    }

    fn added(&self, episode: EpisodeId, added: &Added<'_>) -> BoxFuture<'static, ()> {
        self.0.added("", episode, added).unwrap();
        Box::pin(std::future::ready(()))
    }

    fn problem(&self) -> Option<String> {
        None
    }
}

impl Kept {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = Arc::new(File(LiveJournal::create(folder.path()).unwrap()));
        Self { folder, journal }
    }

    /// The log of a session with no transcript before its own.
    pub(super) async fn log(&self) -> SessionLog {
        let id = EpisodeId { stage: 0, phase: Phase::Served, step: 0, group: 0, member: 0, attempt: 0 };
        let task = TaskRef { split: "train".to_owned(), index: 0 };
        let agent = Some(AgentRun::default());
        let begun = EpisodeRecord { agent, ..EpisodeRecord::new(id, task, Seed(0), Ending::Dropped) };
        SessionLog::begin(Arc::clone(&self.journal) as Arc<dyn SessionJournal>, &begun).await
    }

    /// A process that was killed now would have lost nothing of the session's turns.
    pub(super) fn assert_holds(&self, outcome: &SessionOutcome) {
        let mut found = vec![];
        let recovered = recover(self.folder.path(), "gateway", |_, records| {
            found.extend(records.to_vec());
            Ok(records.len())
        });
        assert_eq!(recovered.unwrap().episodes, 1);
        let [record] = &found[..] else { panic!("{} records", found.len()) };
        assert_eq!(record.turns, outcome.transcript);
        assert_eq!(record.policy_turns, outcome.policy_turns);
        assert_eq!(record.segments, outcome.segments);
        let run = record.agent.as_ref().unwrap();
        assert_eq!((run.turns as usize, &run.calls), (outcome.transcript.len(), &outcome.calls));
    }
}
