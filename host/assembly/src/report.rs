//! Reporting of a run: a trait that the command line implements with progress bars.

use gymkhana_record::{EpisodeId, LogEntry};

/// Receives status lines and progress of a run.
pub trait Reporter: Send + Sync {
    /// Reports an event in one sentence.
    fn status(&self, text: &str);

    /// Reports a problem that does not end the run.
    fn warn(&self, text: &str) {
        self.status(text);
    }

    /// Receives each line that a plugin logged in a stored episode.
    fn log(&self, _episode: EpisodeId, _entry: &LogEntry) {}

    /// Opens a piece of work of `length` steps, of which `done` are finished.
    fn progress(&self, name: &str, done: u64, length: u64) -> Box<dyn Progress>;

    /// Sets the text about current waits; empty without any.
    fn waits(&self, text: String);
}

/// Progress of a task, shown until it is dropped.
pub trait Progress: Send + Sync {
    /// Reports that `done` steps are finished; `message` adds figures.
    fn at(&self, done: u64, message: &str);
}

/// A reporter that discards everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn status(&self, _text: &str) {}

    fn progress(&self, _name: &str, _done: u64, _length: u64) -> Box<dyn Progress> {
        Box::new(Self)
    }

    fn waits(&self, _text: String) {}
}

impl Progress for Silent {
    fn at(&self, _done: u64, _message: &str) {}
}
