//! Log of a live plugin, kept up to a cap until it is taken.

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Detail for the plugin's author.
    Debug,
    /// Information, and standard output.
    Info,
    /// Warning, and standard error.
    Warn,
    /// Error.
    Error,
}

/// Line of a plugin's log or console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Severity.
    pub level: LogLevel,
    /// Text.
    pub message: String,
}

/// Overhead of a line in bytes, so that empty lines count towards the cap.
const LINE_BYTES: usize = 32;

/// Lines of one live plugin.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Vec<LogLine>,
    left: usize,
    cap: usize,
}

impl Log {
    pub fn new(cap: usize) -> Self {
        Self { lines: Vec::new(), left: cap, cap }
    }

    /// Keeps a line, truncated to the space left.
    pub fn push(&mut self, level: LogLevel, mut message: String) {
        if self.left < LINE_BYTES {
            return;
        }
        self.left -= LINE_BYTES;
        if message.len() > self.left {
            message.truncate(message.floor_char_boundary(self.left));
            message.shrink_to_fit();
            message.push_str(" … (the log was cut here)");
            self.left = 0;
        } else {
            self.left -= message.len();
        }
        self.lines.push(LogLine { level, message });
    }

    /// Takes all lines and frees their space.
    pub fn take(&mut self) -> Vec<LogLine> {
        self.left = self.cap;
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_taking_lines_frees_space() {
        let mut log = Log::new(1000);
        for _ in 0..1_000_000 {
            log.push(LogLevel::Info, "héé".repeat(20));
        }
        let lines = log.take();
        assert_eq!(lines.len(), 8, "1000 bytes hold seven lines of 32 + 100 and a part of one");
        assert!(lines[7].message.ends_with("(the log was cut here)"), "{}", lines[7].message);
        log.push(LogLevel::Error, "again".to_owned());
        assert_eq!(log.take(), [LogLine { level: LogLevel::Error, message: "again".to_owned() }]);
    }
}
