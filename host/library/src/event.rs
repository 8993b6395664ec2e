//! What happens in a run, as one type.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use gymkhana_run::{Progress, ProgressFigures, Reporter, StageSummary, Work, describe};

/// Something that happened in a run. Its text is one line.
#[derive(Debug, Clone)]
pub enum Event {
    /// An event in one sentence.
    Status(String),
    /// A problem that does not end the run.
    Warning(String),
    /// The result of a stage.
    StageFinished(Box<StageSummary>),
    /// Progress of a piece of work.
    Progress {
        /// The work.
        work: Work,
        /// Number of its steps that are finished.
        done: u64,
        /// Figures at this point.
        figures: ProgressFigures,
    },
}

impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) => f.write_str(text),
            Self::Warning(text) => write!(f, "warning: {text}"),
            Self::StageFinished(stage) => f.write_str(&describe(stage)),
            Self::Progress { work, done, figures } => {
                write!(f, "{} {done}/{}", work.name, work.length)?;
                figures.others.iter().try_for_each(|figure| write!(f, ", {figure}"))
            }
        }
    }
}

/// A reporter that calls a function.
pub(crate) struct Events(pub Arc<dyn Fn(&Event) + Send + Sync>);

impl Reporter for Events {
    fn status(&self, text: &str) {
        (self.0)(&Event::Status(text.to_owned()));
    }

    fn warn(&self, text: &str) {
        (self.0)(&Event::Warning(text.to_owned()));
    }

    fn stage_finished(&self, stage: &StageSummary) {
        (self.0)(&Event::StageFinished(Box::new(stage.clone())));
    }

    fn progress(&self, work: Work) -> Box<dyn Progress> {
        Box::new(StepReporter { work, call: Arc::clone(&self.0) })
    }
}

struct StepReporter {
    work: Work,
    call: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl Progress for StepReporter {
    fn at(&self, done: u64, figures: &ProgressFigures) {
        (self.call)(&Event::Progress { work: self.work.clone(), done, figures: figures.clone() });
    }
}
