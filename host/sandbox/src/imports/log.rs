//! Log of a live plugin during one call, bounded, and the sink that receives it after the call.

use gymkhana_record::{LogBudget, LogLevel};

/// Line of a plugin's log or console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Severity.
    pub level: LogLevel,
    /// Text.
    pub message: String,
}

/// Receiver of a plugin's log.
pub trait LogSink: Send + Sync {
    /// Receives the lines of one call when it ends, also if it fails. Complete lines of standard output and standard
    /// error precede the next entry of the log interface.
    fn write(&self, lines: Vec<LogLine>);
}

/// Lines of one live plugin.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Vec<LogLine>,
    budget: LogBudget,
    cap: usize,
}

impl Log {
    pub fn new(cap: usize) -> Self {
        Self { lines: Vec::new(), budget: LogBudget::new(cap), cap }
    }

    /// Keeps a line, truncated to the space left.
    pub fn push(&mut self, level: LogLevel, message: String) {
        let Self { lines, budget, .. } = self;
        budget.admit(level, message, |level, message| lines.push(LogLine { level, message }));
    }

    /// Lines since the last call of [`Log::take`].
    pub fn lines(&self) -> &[LogLine] {
        &self.lines
    }

    /// Takes all lines and frees their space.
    pub fn take(&mut self) -> Vec<LogLine> {
        self.budget = LogBudget::new(self.cap);
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::LOG_TRUNCATED;

    use super::*;

    #[test]
    fn a_flood_is_cut_and_taking_lines_frees_space() {
        let mut log = Log::new(1000);
        for _ in 0..1_000_000 {
            log.push(LogLevel::Info, "héé".repeat(20));
        }
        let lines = log.take();
        assert_eq!(lines.len(), 9, "1000 bytes hold seven lines of 32 + 100 and a part of one, and a mark follows");
        assert_eq!(lines[7].message, "héé".repeat(8) + "hé", "44 bytes");
        assert_eq!(lines[8].message, LOG_TRUNCATED);
        log.push(LogLevel::Error, "again".to_owned());
        assert_eq!(log.take(), [LogLine { level: LogLevel::Error, message: "again".to_owned() }]);
    }
}
