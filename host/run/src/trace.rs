//! `--trace FILE`: the spans of a run as lines of JSON, one for each that ended, with those that it lay in.
//!
//! Nothing is buffered, so that a run that is killed leaves all that had ended. Without `--trace` nobody subscribes, and
//! a span costs the look at one number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::error::{Classify, RunResult};

/// A file that takes spans.
pub struct Trace {
    path: PathBuf,
    lines: Arc<Lines>,
}

/// Lines of the file, and why one could not be written, if one could not.
struct Lines {
    file: File,
    unwritten: Mutex<Option<io::Error>>,
}

impl Trace {
    /// From now on the spans of this process are appended to the file.
    pub fn start(path: &Path) -> RunResult<Self> {
        let told = || format!("--trace `{}` cannot be written; name a file in a folder that takes one", path.display());
        let file = OpenOptions::new().append(true).create(true).open(path).user_context(told())?;
        let lines = Arc::new(Lines { file, unwritten: Mutex::default() });
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(Level::INFO)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(Arc::clone(&lines))
            .finish();
        tracing::subscriber::set_global_default(subscriber).internal()?;
        Ok(Self { path: path.to_owned(), lines })
    }

    /// Whether every line was written.
    pub fn all_written(&self) -> RunResult<()> {
        let unwritten = self.lines.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take();
        let told = format!("--trace `{}` lacks lines that could not be written; make room there", self.path.display());
        unwritten.map_or(Ok(()), Err).user_context(told)
    }
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = (&self.file).write_all(line) {
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        // Who ends a span has no use for the error: the run says it at its end.
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
