//! The one owner of standard output and standard error: results on the one, talk on the other.
//!
//! On a terminal a bar shows what the run is at; elsewhere plain lines do, at most one every few seconds.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module is where the program prints")]

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::CliError;

/// Between two plain lines of one piece of work.
const PAUSE: Duration = Duration::from_secs(5);

/// Prints.
pub struct Printer {
    terminal: bool,
}

impl Printer {
    /// A printer for this process.
    pub fn new() -> Self {
        Self { terminal: stderr().is_terminal() }
    }

    /// Prints a result.
    pub fn result(&self, text: impl std::fmt::Display) {
        // A reader that went away, such as `head`, is no error.
        let _gone = writeln!(stdout(), "{text}");
    }

    /// Tells what is going on.
    pub fn talk(&self, text: impl std::fmt::Display) {
        let _gone = writeln!(stderr(), "{text}");
    }

    /// Prints an error.
    pub fn error(&self, error: &CliError) {
        self.talk(error);
    }

    /// Shows a piece of work of `length` steps.
    pub fn progress(&self, name: &str, length: u64) -> Progress {
        let bar = self.terminal.then(|| {
            let bar = ProgressBar::new(length);
            let style = ProgressStyle::with_template("{prefix:>10} [{bar:30}] {pos}/{len} {elapsed} (eta {eta}) {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress { bar, name: name.to_owned(), length, begun: Instant::now(), last: Mutex::new((0, None)) }
    }
}

/// A piece of work that is shown while it lasts.
pub struct Progress {
    bar: Option<ProgressBar>,
    name: String,
    length: u64,
    begun: Instant,
    /// How far it was at the last plain line, and when that was.
    last: Mutex<(u64, Option<Instant>)>,
}

impl Progress {
    /// `done` steps are done; `message` says how it goes.
    pub fn at(&self, done: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(message.to_owned());
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.1.is_none_or(|when| when.elapsed() >= PAUSE) || done >= self.length;
        if due && done > last.0 {
            *last = (done, Some(Instant::now()));
            let seconds = self.begun.elapsed().as_secs_f64();
            let _gone = writeln!(stderr(), "{} {done}/{} {seconds:.0} s {message}", self.name, self.length);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}
