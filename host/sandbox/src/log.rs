//! What a plugin says for people, kept up to a cap until somebody takes it.

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// For the record; standard output too.
    Info,
    /// Something is odd; standard error too.
    Warn,
    /// Something is wrong.
    Error,
}

/// One line of a plugin's log or console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// What it says.
    pub message: String,
}

/// What a line costs beside its text, so that empty lines are not free.
const LINE_BYTES: usize = 32;

/// The lines of one live plugin.
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

    /// Keeps a line, or what of it fits.
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

    pub fn take(&mut self) -> Vec<LogLine> {
        self.left = self.cap;
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_what_was_taken_makes_room() {
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
