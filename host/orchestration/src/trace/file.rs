//! `--trace FILE`: finished spans as JSON lines, each with its enclosing spans.
//!
//! Lines are unbuffered, so that a killed run leaves all finished spans.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::Layer;

use super::SpanLayer;
use crate::error::{Classify, RunResult};

/// Beginning of the targets of this project's spans.
const OWN: &str = "gymkhana";

/// A file of spans.
pub struct TraceFile {
    path: PathBuf,
    lines: Arc<SpanLines>,
}

/// Lines of the file, and the first write error.
struct SpanLines {
    file: File,
    unwritten: Mutex<Option<io::Error>>,
}

impl TraceFile {
    /// Opens the file to append to it.
    pub fn open(path: &Path) -> RunResult<Self> {
        let unwritable =
            || format!("--trace `{}` cannot be written\nhint: name a file in a writable folder", path.display());
        let file = OpenOptions::new().append(true).create(true).open(path).user_context(unwritable())?;
        Ok(Self { path: path.to_owned(), lines: Arc::new(SpanLines { file, unwritten: Mutex::default() }) })
    }

    /// The layer that writes finished spans.
    pub fn layer(&self) -> SpanLayer {
        let layer = fmt::layer().json().with_span_events(FmtSpan::CLOSE).with_writer(Arc::clone(&self.lines));
        // Libraries have spans and events of their own.
        layer.with_filter(filter_fn(|metadata| metadata.target().starts_with(OWN))).boxed()
    }

    /// Returns the first write error, if any.
    pub fn all_written(&self) -> RunResult<()> {
        let unwritten = self.lines.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lost =
            format!("--trace `{}` is incomplete: lines could not be written\nhint: free space", self.path.display());
        unwritten.map_or(Ok(()), Err).user_context(lost)
    }
}

impl Write for &SpanLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = (&self.file).write_all(line) {
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
        // The error is reported at the end of the run; callers that end a span cannot use it.
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
