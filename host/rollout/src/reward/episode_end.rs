//! The end of an episode by its environment, whose facts rules can name.

use std::fmt::{Display, Formatter};

use gymkhana_record::{Ending, EpisodeId, EpisodeRecord, NamedValue, TaskRef};

/// An episode that the environment ended, as messages name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EpisodeName {
    /// A recorded episode.
    Recorded(EpisodeId),
    /// The oracle's trial episode of a task.
    Trial(TaskRef),
}

impl Display for EpisodeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Recorded(id) => write!(f, "episode {id}"),
            Self::Trial(task) => write!(f, "its oracle's episode of task {task}"),
        }
    }
}

/// The facts of an episode that the environment ended.
pub(crate) struct EpisodeEnd<'a> {
    pub(crate) episode: EpisodeName,
    pub(crate) facts: &'a [NamedValue],
}

impl<'a> EpisodeEnd<'a> {
    /// The end of an episode; `None` if a limit or a failure ended it.
    pub(crate) fn new(episode: EpisodeName, ending: Ending, facts: &'a [NamedValue]) -> Option<Self> {
        matches!(ending, Ending::Terminated | Ending::Truncated).then_some(Self { episode, facts })
    }

    /// As [`EpisodeEnd::new`], of a recorded episode.
    pub(crate) fn of(record: &'a EpisodeRecord) -> Option<Self> {
        Self::new(EpisodeName::Recorded(record.id), record.ending, &record.extras)
    }
}
