//! Reporting of a run: a trait that the command line implements with a progress line.

pub(crate) mod banner;
pub(crate) mod meter;
pub(crate) mod schedule;

use gymkhana_store::StageSummary;

pub use schedule::Later;

/// Receives status lines, results and progress of a run.
pub trait Reporter: Send + Sync {
    /// Reports an event in one sentence.
    fn status(&self, text: &str);

    /// Reports that a plugin is being compiled: its name and the size of its component in bytes.
    fn compiling(&self, plugin: &str, bytes: usize);

    /// Reports the result of a stage, once per stage.
    fn stage_finished(&self, stage: &StageSummary);

    /// Opens a piece of work.
    fn progress(&self, work: Work) -> Box<dyn Progress>;

    /// Sets the text about the use of time; empty without any.
    fn waits(&self, text: String);
}

/// A piece of work whose progress is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Name in plain words, such as `measuring (greedy)`.
    pub name: String,
    /// Number of steps that were finished before.
    pub done: u64,
    /// Number of steps.
    pub length: u64,
    /// Expected time of the work that follows.
    pub later: Later,
}

impl Work {
    /// Work of `length` steps that nothing follows.
    #[must_use]
    pub fn new(name: impl Into<String>, length: u64) -> Self {
        Self { name: name.into(), done: 0, length, later: Later::default() }
    }
}

/// Share of successful episodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SuccessRate {
    /// Counts of all episodes so far, as in a measurement.
    SoFar {
        /// Number of successful episodes.
        solved: u64,
        /// Number of finished episodes.
        played: u64,
    },
    /// Mean of the last training step, 0 to 1.
    OfStep(f64),
}

/// Figures of a piece of work at one point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgressFigures {
    /// Success rate.
    pub success: Option<SuccessRate>,
    /// Further figures in words, the most important first, such as `reward 0.125`.
    pub others: Vec<String>,
}

impl ProgressFigures {
    /// One figure in words, without a success rate.
    #[must_use]
    pub fn of(figure: impl Into<String>) -> Self {
        Self { success: None, others: vec![figure.into()] }
    }
}

/// Progress of a piece of work, shown until it is dropped.
pub trait Progress: Send + Sync {
    /// Reports that `done` steps are finished.
    fn at(&self, done: u64, figures: &ProgressFigures);
}

/// A reporter that discards everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn status(&self, _text: &str) {}

    fn compiling(&self, _plugin: &str, _bytes: usize) {}

    fn stage_finished(&self, _stage: &StageSummary) {}

    fn progress(&self, _work: Work) -> Box<dyn Progress> {
        Box::new(Self)
    }

    fn waits(&self, _text: String) {}
}

impl Progress for Silent {
    fn at(&self, _done: u64, _figures: &ProgressFigures) {}
}
