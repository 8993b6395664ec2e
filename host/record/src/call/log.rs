//! Lines of plugins' logs, and the bound on their size.

use serde::{Deserialize, Serialize};

use crate::{Boundary, CallSite};

/// Last line of a log whose plugin wrote more than its limit.
pub const LOG_TRUNCATED: &str = "log truncated";

/// Overhead of a line in bytes, so that empty lines count towards the limit.
const LINE_BYTES: usize = 32;

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl std::fmt::Display for LogLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        })
    }
}

/// Line that a plugin logged or printed during a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The plugin.
    #[serde(flatten)]
    pub at: Boundary,
    /// The call.
    pub call_site: CallSite,
    /// The seat that acted; `None` if the call belongs to no seat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat: Option<u32>,
    /// Severity.
    pub level: LogLevel,
    /// Text.
    pub text: String,
}

impl LogEntry {
    /// Plugin, call and seat: `sokoban, step 3, seat 0`.
    #[must_use]
    pub fn origin(&self) -> String {
        let seat = self.seat.map(|seat| format!(", seat {seat}")).unwrap_or_default();
        format!("{}, {}{seat}", self.at.plugin().unwrap_or("host"), self.call_site)
    }
}

/// Bytes that one log may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogBudget {
    left: usize,
    truncated: bool,
}

impl LogBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { left: bytes, truncated: false }
    }

    /// Whether the log ended with [`LOG_TRUNCATED`]. Later lines are dropped.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Uses up the budget: the next line is replaced by [`LOG_TRUNCATED`].
    pub fn exhaust(&mut self) {
        self.left = 0;
    }

    /// Passes a line to `keep`. The line that exceeds the budget is cut and followed by [`LOG_TRUNCATED`].
    pub fn admit(&mut self, level: LogLevel, mut text: String, mut keep: impl FnMut(LogLevel, String)) {
        if self.truncated {
            return;
        }
        let room = self.left.checked_sub(LINE_BYTES);
        if let Some(left) = room.and_then(|room| room.checked_sub(text.len())) {
            self.left = left;
            keep(level, text);
            return;
        }
        self.truncated = true;
        text.truncate(text.floor_char_boundary(room.unwrap_or(0)));
        if !text.is_empty() {
            text.shrink_to_fit();
            keep(level, text);
        }
        keep(LogLevel::Warn, LOG_TRUNCATED.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(budget: &mut LogBudget, texts: &[&str]) -> Vec<String> {
        let mut kept = Vec::new();
        for text in texts {
            budget.admit(LogLevel::Info, (*text).to_owned(), |_, text| kept.push(text));
        }
        kept
    }

    #[test]
    fn a_line_beyond_the_budget_is_cut_and_marked_once() {
        // Two lines of 32 + 3 bytes leave 30, which is less than the overhead of a line.
        let mut budget = LogBudget::new(100);
        assert_eq!(admitted(&mut budget, &["one", "two"]), ["one", "two"]);
        assert!(!budget.is_truncated());
        assert_eq!(admitted(&mut budget, &["six", "ten"]), [LOG_TRUNCATED]);
        assert!(budget.is_truncated());
        // 8 bytes beside the overhead hold two letters of three bytes.
        assert_eq!(admitted(&mut LogBudget::new(40), &["雪雪雪", "more"]), ["雪雪", LOG_TRUNCATED]);
    }

    #[test]
    fn an_exhausted_budget_keeps_only_the_mark() {
        let mut budget = LogBudget::new(1000);
        budget.exhaust();
        assert_eq!(admitted(&mut budget, &["one", "two"]), [LOG_TRUNCATED]);
    }

    #[test]
    fn an_entry_is_flat_json() {
        let entry = LogEntry {
            at: Boundary::Tool("sql".to_owned()),
            call_site: CallSite::tool("call-0"),
            seat: Some(1),
            level: LogLevel::Warn,
            text: "slow".to_owned(),
        };
        let json = r#"{"boundary":"tool","plugin":"sql","call_site":{"tool":{"id":"call-0"}},"seat":1,"level":"warn","text":"slow"}"#;
        assert_eq!(serde_json::to_string(&entry).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<LogEntry>(json).expect("an entry"), entry);
        assert_eq!(entry.origin(), "sql, call-0, seat 1");
    }
}
