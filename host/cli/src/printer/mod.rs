//! Standard output and standard error: results go to the former, status and errors to the latter. Text of plugins and
//! models is escaped here.
//!
//! A terminal shows a progress line at its bottom; `Printer::above_progress` is the one place that prints above it.
//! Other outputs get plain lines, at most one every few seconds.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is where the program prints")]

mod colour;
mod facts;
mod line;

use std::io::{Error, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::{Arc, Mutex};

use gymkhana_orchestration::{Progress, Reporter, Work, describe};
use gymkhana_record::{EpisodeId, LogEntry, LogLevel};
use gymkhana_store::StageSummary;

use crate::error::{Classify, CliError, CliResult};
use crate::escape::{cut_lines, escape_json, escape_terminal};
use line::{Bottom, Display, lock};

pub use line::ProgressLine;

/// Size of a component whose compilation takes a noticeable time, in bytes.
const LARGE_COMPONENT: usize = 1_000_000;

/// Columns of the labels of results.
const LABEL: usize = 21;

/// Amount of status output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Status lines and progress as well.
    #[default]
    Normal,
    /// Log lines of plugins as well.
    Verbose,
}

/// Printer of this process. Clones share the terminal.
#[derive(Clone)]
pub struct Printer {
    /// Standard error is a terminal on which a line can be drawn again.
    terminal: bool,
    verbosity: Verbosity,
    /// Whether results and status lines are coloured.
    colours: (bool, bool),
    bottom: Bottom,
    /// First error of printing a result.
    unprinted: Arc<Mutex<Option<Error>>>,
}

impl Default for Printer {
    /// A printer of this process.
    fn default() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        Self {
            terminal: stderr().is_terminal() && !dumb,
            verbosity: Verbosity::default(),
            colours: (colour::is_wanted(&stdout()), colour::is_wanted(&stderr())),
            bottom: Bottom::default(),
            unprinted: Arc::default(),
        }
    }
}

impl Printer {
    /// The printer with another amount of status output.
    pub fn with_verbosity(&self, verbosity: Verbosity) -> Self {
        Self { verbosity, ..self.clone() }
    }

    /// Prints a result.
    pub fn result(&self, text: impl std::fmt::Display) {
        let text = text.to_string();
        let shown = escape_terminal(&text);
        let shown = colour::paint(&shown, self.colours.0);
        self.keep_unprinted(self.above_progress(|| writeln!(stdout(), "{shown}")));
    }

    /// Prints a result with a label, which has the colour of its seat, if it belongs to one. Further lines of the text
    /// are indented.
    pub fn labelled(&self, label: &str, seat: Option<u32>, text: &str) {
        let label = format!("{:>LABEL$}", escape_terminal(label));
        let label = match seat {
            Some(seat) => colour::paint_seat(&label, seat, self.colours.0),
            None => label.into(),
        };
        let text = escape_terminal(text).replace('\n', &format!("\n{:LABEL$}  ", ""));
        self.keep_unprinted(self.above_progress(|| writeln!(stdout(), "{label}  {text}")));
    }

    /// Prints a result in JSON.
    pub fn json(&self, text: impl std::fmt::Display) {
        let text = text.to_string();
        self.keep_unprinted(self.above_progress(|| writeln!(stdout(), "{}", escape_json(&text))));
    }

    fn keep_unprinted(&self, printed: Result<(), Error>) {
        // A closed reader, such as `head`, is not an error.
        if let Some(error) = printed.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            lock(&self.unprinted).get_or_insert(error);
        }
    }

    /// Prints a part of a result at once, without a line end.
    pub fn piece(&self, text: &str) {
        let write = || {
            let mut out = stdout().lock();
            write!(out, "{}", escape_terminal(text)).and_then(|()| out.flush())
        };
        self.keep_unprinted(self.above_progress(write));
    }

    /// Returns the first error of printing a result, if any.
    pub fn all_printed(&self) -> CliResult<()> {
        let unprinted = lock(&self.unprinted).take();
        unprinted
            .map_or(Ok(()), Err)
            .user_context("results cannot be written to standard output\nhint: free space at its destination")
    }

    /// Prints a status line, unless the printer is quiet.
    pub fn status(&self, text: impl std::fmt::Display) {
        if self.verbosity != Verbosity::Quiet {
            self.warn(text);
        }
    }

    /// Prints a line of a plugin's log. Further lines of the text are indented, so that they are not taken for others.
    pub fn log(&self, origin: &str, level: LogLevel, text: &str) {
        self.warn(format!("{origin}, {level}: {}", text.trim_end().replace('\n', "\n    ")));
    }

    /// Prints a warning.
    pub fn warn(&self, text: impl std::fmt::Display) {
        let text = text.to_string();
        let shown = escape_terminal(&text);
        let shown = colour::paint(&shown, self.colours.1);
        let _gone = self.above_progress(|| writeln!(stderr(), "{shown}"));
    }

    /// Prints a status line in JSON.
    pub fn json_status(&self, text: &str) {
        let _gone = self.above_progress(|| writeln!(stderr(), "{}", escape_json(text)));
    }

    /// Calls a function that prints whole lines, with the progress line out of the way.
    fn above_progress<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bottom.above(print)
    }

    /// Prints an error.
    pub fn error(&self, error: &CliError) {
        self.warn(cut_lines(&format!("error: {error}")));
    }

    /// Prints that a plugin is being compiled, if that takes a noticeable time.
    pub fn compiling(&self, plugin: &str, bytes: usize) {
        if let Some(text) = compilation(plugin, bytes) {
            self.status(text);
        }
    }

    /// This printer as the reporter of a run.
    pub fn reporter(&self) -> Arc<dyn Reporter> {
        Arc::new(self.clone())
    }

    /// Opens a progress display.
    pub fn progress(&self, work: Work) -> ProgressLine {
        let display = match (self.verbosity, self.terminal) {
            (Verbosity::Quiet, _) => Display::Hidden,
            (_, true) => Display::Terminal,
            (_, false) => Display::Log,
        };
        ProgressLine::open(&self.bottom, work, display)
    }
}

impl Reporter for Printer {
    fn status(&self, text: &str) {
        Printer::status(self, text);
    }

    fn warn(&self, text: &str) {
        Printer::warn(self, format!("warning: {text}"));
    }

    fn log(&self, episode: EpisodeId, entry: &LogEntry) {
        if self.verbosity == Verbosity::Verbose {
            Printer::log(self, &format!("{episode}, {}", entry.origin()), entry.level, &entry.text);
        }
    }

    fn compiling(&self, plugin: &str, bytes: usize) {
        Printer::compiling(self, plugin, bytes);
    }

    fn stage_finished(&self, stage: &StageSummary) {
        self.result(describe(stage));
    }

    fn progress(&self, work: Work) -> Box<dyn Progress> {
        Box::new(Printer::progress(self, work))
    }

    fn waits(&self, text: String) {
        self.bottom.set_waits(text);
    }
}

/// The line that announces a compilation; `None` for a small component.
fn compilation(plugin: &str, bytes: usize) -> Option<String> {
    (bytes >= LARGE_COMPONENT).then(|| format!("compiling {plugin} ({:.0} MB), once", bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_compilations_are_announced() {
        let text = compilation("me/judge 0.1.0", 18_775_865);
        assert_eq!(text.as_deref(), Some("compiling me/judge 0.1.0 (19 MB), once"));
        assert_eq!(compilation("me/dice 0.1.0", 999_999), None);
    }
}
