//! A guest's console: captures standard output and standard error up to a cap.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::LogLevel;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi_io::bytes::Bytes;

use super::log::LogLine;

/// Limit on one write of a guest, in bytes; it bounds the host's allocation.
const WRITE_PERMIT: usize = 4096;

/// Console output that has not been collected: the bytes of both streams, up to a cap each.
#[derive(Debug, Clone)]
pub(crate) struct Console(Arc<Mutex<ConsoleBytes>>);

#[derive(Debug)]
struct ConsoleBytes {
    output: Vec<u8>,
    errors: Vec<u8>,
    cap: usize,
}

impl Console {
    pub fn new(cap: usize) -> Self {
        Self(Arc::new(Mutex::new(ConsoleBytes { output: Vec::new(), errors: Vec::new(), cap })))
    }

    pub fn write(&self, level: LogLevel, bytes: &[u8]) {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cap = console.cap;
        let stream = if level == LogLevel::Info { &mut console.output } else { &mut console.errors };
        let kept = cap.saturating_sub(stream.len()).min(bytes.len());
        stream.extend_from_slice(&bytes[..kept]);
    }

    /// Takes the lines that were not taken before: standard output, then standard error.
    pub fn take(&self) -> Vec<LogLine> {
        self.take_to(<[u8]>::len)
    }

    /// Takes the complete lines that were not taken before: standard output, then standard error.
    pub fn take_complete(&self) -> Vec<LogLine> {
        self.take_to(|stream| stream.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1))
    }

    /// Takes the lines in the first bytes of each stream; `end` gives their number.
    fn take_to(&self, end: impl Fn(&[u8]) -> usize) -> Vec<LogLine> {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ConsoleBytes { output, errors, .. } = &mut *console;
        let mut lines = Vec::new();
        for (level, stream) in [(LogLevel::Info, output), (LogLevel::Warn, errors)] {
            let taken = end(stream);
            let text = String::from_utf8_lossy(&stream[..taken]);
            lines.extend(text.lines().map(|line| LogLine { level, message: line.to_owned() }));
            stream.drain(..taken);
        }
        lines
    }
}

/// Guest-side stream into one of the console's two buffers.
pub(super) struct ConsoleStream {
    pub console: Console,
    pub level: LogLevel,
}

impl OutputStream for ConsoleStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.console.write(self.level, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT)
    }
}

impl Pollable for ConsoleStream {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_line_stays_until_all_is_taken() {
        let line = |level, message: &str| LogLine { level, message: message.to_owned() };
        let console = Console::new(1000);
        console.write(LogLevel::Warn, b"one\ntw");
        console.write(LogLevel::Info, b"printed\n");
        assert_eq!(console.take_complete(), [line(LogLevel::Info, "printed"), line(LogLevel::Warn, "one")]);
        assert_eq!(console.take_complete(), []);
        console.write(LogLevel::Warn, b"o\nthree");
        assert_eq!(console.take_complete(), [line(LogLevel::Warn, "two")]);
        assert_eq!(console.take(), [line(LogLevel::Warn, "three")]);
        assert_eq!(console.take(), []);
    }
}
