//! Reporting of a run: a trait that the command line implements with a progress line.

use gymkhana_record::{EpisodeId, LogEntry};
use gymkhana_store::StageSummary;

/// Receives status lines, results and progress of a run.
pub trait Reporter: Send + Sync {
    /// Reports an event in one sentence.
    fn status(&self, text: &str);

    /// Reports a problem that does not end the run.
    fn warn(&self, text: &str) {
        self.status(text);
    }

    /// Receives each line that a plugin logged in a stored episode.
    fn log(&self, _episode: EpisodeId, _entry: &LogEntry) {}

    /// Reports that a plugin is being compiled: its name and version, and the size of its component in bytes.
    fn compiling(&self, _plugin: &str, _bytes: usize) {}

    /// Reports the result of a stage, once per stage.
    fn stage_finished(&self, _stage: &StageSummary) {}

    /// Opens a piece of work.
    fn progress(&self, work: Work) -> Box<dyn Progress>;

    /// Sets the text about the use of time; empty without any.
    fn waits(&self, _text: String) {}
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

/// Expected time of the work after a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Later {
    /// Time of the work whose duration is known, in seconds.
    pub seconds: f64,
    /// Whether work of unknown duration follows as well, so that `seconds` is a lower bound.
    pub at_least: bool,
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

    fn progress(&self, _work: Work) -> Box<dyn Progress> {
        Box::new(Self)
    }
}

impl Progress for Silent {
    fn at(&self, _done: u64, _figures: &ProgressFigures) {}
}

/// Result of a stage in one line, and one line for each environment of a run with several.
#[must_use]
pub fn describe(stage: &StageSummary) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let success = match (stage.success_before, stage.success_after) {
        (Some(before), Some(after)) => format!("{} to {}", percent(before), percent(after)),
        _ => "not measured".to_owned(),
    };
    let sampled = match (stage.success_before_sampled, stage.success_after_sampled) {
        (Some(before), Some(after)) => format!(" (sampled {} to {})", percent(before), percent(after)),
        _ => String::new(),
    };
    let own = stage.environments.iter().filter_map(|(name, own)| {
        Some(format!("\n  {name}: success {} to {}", percent(own.before.greedy?), percent(own.after.greedy?)))
    });
    let own: String = own.collect();
    let idle = match stage.idle_steps {
        0 => String::new(),
        1 => "\n  1 step changed no weights".to_owned(),
        steps => format!("\n  {steps} steps changed no weights"),
    };
    format!(
        "stage {}: success {success}{sampled}, {} episode{}, {} tokens, {:.0} s{own}{idle}",
        stage.name,
        stage.episodes,
        if stage.episodes == 1 { "" } else { "s" },
        stage.tokens,
        stage.seconds
    )
}
