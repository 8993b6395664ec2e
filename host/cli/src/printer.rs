//! Standard output and standard error: results go to the former, status and errors to the latter. Text of plugins and
//! models is escaped here.
//!
//! A terminal shows a progress bar; other outputs get plain lines, at most one every few seconds.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is where the program prints")]

use std::io::{Error, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gymkhana_assembly::{Progress, Reporter};
use gymkhana_record::{EpisodeId, LogEntry, LogLevel};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::error::{Classify, CliError, CliResult};
use crate::escape::{escape_json, escape_terminal};

/// Minimum time between plain lines of one task.
const PAUSE: Duration = Duration::from_secs(5);

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
    terminal: bool,
    verbosity: Verbosity,
    /// The last bar; until it is finished, it is suspended while lines are printed.
    bar: Arc<Mutex<Option<ProgressBar>>>,
    pub(crate) waits: Waits,
    /// First error of printing a result.
    unprinted: Arc<Mutex<Option<Error>>>,
}

impl Default for Printer {
    /// A printer of this process.
    fn default() -> Self {
        Self {
            terminal: stderr().is_terminal(),
            verbosity: Verbosity::default(),
            bar: Arc::default(),
            waits: Waits::default(),
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
        self.keep_unprinted(self.beside_bar(|| writeln!(stdout(), "{}", escape_terminal(&text))));
    }

    /// Prints a result in JSON.
    pub fn json(&self, text: impl std::fmt::Display) {
        let text = text.to_string();
        self.keep_unprinted(self.beside_bar(|| writeln!(stdout(), "{}", escape_json(&text))));
    }

    fn keep_unprinted(&self, printed: Result<(), Error>) {
        // A closed reader, such as `head`, is not an error.
        if let Some(error) = printed.err().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
            self.unprinted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Prints a part of a result at once, without a line end.
    pub fn piece(&self, text: &str) {
        let write = || {
            let mut out = stdout().lock();
            write!(out, "{}", escape_terminal(text)).and_then(|()| out.flush())
        };
        self.keep_unprinted(self.beside_bar(write));
    }

    /// Returns the first error of printing a result, if any.
    pub fn all_printed(&self) -> CliResult<()> {
        let unprinted = self.unprinted.lock().unwrap_or_else(PoisonError::into_inner).take();
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
        let _gone = self.beside_bar(|| writeln!(stderr(), "{}", escape_terminal(&text)));
    }

    /// Prints a status line in JSON.
    pub fn json_status(&self, text: &str) {
        let _gone = self.beside_bar(|| writeln!(stderr(), "{}", escape_json(text)));
    }

    fn beside_bar<T>(&self, write: impl FnOnce() -> T) -> T {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match bar.filter(|bar| !bar.is_finished()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Prints an error.
    pub fn error(&self, error: &CliError) {
        self.warn(format!("error: {error}"));
    }

    /// This printer as the reporter of a run.
    pub fn reporter(&self) -> Arc<dyn Reporter> {
        Arc::new(self.clone())
    }

    /// Opens a progress display for a task of `length` steps, of which `done` are finished.
    pub fn progress(&self, name: &str, done: u64, length: u64) -> ProgressLine {
        let quiet = self.verbosity == Verbosity::Quiet;
        let bar = (self.terminal && !quiet).then(|| {
            let bar = ProgressBar::new(length).with_position(done);
            let line = "{prefix:>10} [{bar:30}] {pos}/{len} {elapsed} (eta {eta}) {msg}{waits}";
            let style = ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar());
            let waits = self.waits.clone();
            bar.set_style(style.with_key("waits", move |_: &ProgressState, line: &mut dyn std::fmt::Write| {
                // A failed draw is repeated at the next tick.
                let _ = line.write_str(&waits.behind());
            }));
            bar.set_prefix(name.to_owned());
            bar.set_message("started");
            bar.enable_steady_tick(Duration::from_millis(250));
            *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
            bar
        });
        let last = Mutex::new((done, None));
        let waits = self.waits.clone();
        ProgressLine { bar, quiet, name: name.to_owned(), length, begun: Instant::now(), first: done, last, waits }
    }
}

impl Reporter for Printer {
    fn status(&self, text: &str) {
        Printer::status(self, text);
    }

    fn warn(&self, text: &str) {
        Printer::warn(self, text);
    }

    fn log(&self, episode: EpisodeId, entry: &LogEntry) {
        if self.verbosity == Verbosity::Verbose {
            Printer::log(self, &format!("{episode}, {}", entry.origin()), entry.level, &entry.text);
        }
    }

    fn progress(&self, name: &str, done: u64, length: u64) -> Box<dyn Progress> {
        Box::new(Printer::progress(self, name, done, length))
    }

    fn waits(&self, text: String) {
        *self.waits.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Progress for ProgressLine {
    fn at(&self, done: u64, message: &str) {
        ProgressLine::at(self, done, message);
    }
}

/// Text about current waits.
#[derive(Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<String>>);

impl Waits {
    /// The text as a suffix of a message.
    pub(crate) fn behind(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if text.is_empty() { String::new() } else { format!("; {text}") }
    }
}

/// Progress of a task.
pub struct ProgressLine {
    bar: Option<ProgressBar>,
    quiet: bool,
    name: String,
    length: u64,
    begun: Instant,
    /// Position when the display was opened.
    first: u64,
    /// Position and time of the last plain line.
    last: Mutex<(u64, Option<Instant>)>,
    waits: Waits,
}

impl ProgressLine {
    /// Updates the position; `message` follows the rate.
    pub fn at(&self, done: u64, message: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = done.saturating_sub(self.first) as f64 / seconds.max(1e-3);
        let message = format!("{rate:.1}/s {message}");
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(message);
            return;
        }
        if self.quiet {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.1.is_none_or(|when| when.elapsed() >= PAUSE) || done >= self.length;
        if due && done > last.0 {
            *last = (done, Some(Instant::now()));
            let waits = self.waits.behind();
            let _gone = writeln!(stderr(), "{} {done}/{} {seconds:.0} s {message}{waits}", self.name, self.length);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}
