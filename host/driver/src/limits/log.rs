//! Logs of an episode's plugins: what each call wrote, bounded per plugin and by the episode's budget.

use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::{Boundary, CallSite, LogBudget, LogEntry};
use gymkhana_sandbox::{LogLine, LogSink, Plugin};
use serde::{Deserialize, Serialize};

use crate::limits::ByteBudget;

/// Collects the log of one plugin until its call is over, and passes it on to the plugin's own sink.
pub struct LogRecorder {
    sink: Option<Arc<dyn LogSink>>,
    lines: Mutex<Vec<LogLine>>,
}

impl LogRecorder {
    /// A recorder that passes lines on to the sink of this plugin.
    #[must_use]
    pub fn of(plugin: &Plugin) -> Arc<Self> {
        Arc::new(Self { sink: plugin.log_sink().cloned(), lines: Mutex::default() })
    }

    /// The plugin with this recorder as its sink.
    #[must_use]
    pub fn attach(self: &Arc<Self>, plugin: &Plugin) -> Plugin {
        plugin.with_log_sink(Arc::clone(self) as Arc<dyn LogSink>)
    }

    /// Takes the lines since the last call of this method, as those of this call.
    #[must_use]
    pub fn take(&self, at: &Boundary, call_site: &CallSite, seat: Option<u32>) -> Vec<LogEntry> {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let entry = |LogLine { level, message }| {
            let (at, call_site) = (at.clone(), call_site.clone());
            LogEntry { at, call_site, seat, level, text: message }
        };
        lines.into_iter().map(entry).collect()
    }

    /// Drops the lines since they were last taken: those of copies, which are not calls of the episode.
    pub(crate) fn discard(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl LogSink for LogRecorder {
    fn write(&self, lines: Vec<LogLine>) {
        if let Some(sink) = &self.sink {
            sink.write(lines.clone());
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }
}

/// Log of an episode or a scoring.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EpisodeLog {
    entries: Vec<LogEntry>,
    /// Remaining bytes of each plugin that wrote a line.
    budgets: Vec<(Boundary, LogBudget)>,
    /// Limit of each plugin in bytes.
    plugin_bytes: usize,
}

impl EpisodeLog {
    /// An empty log that keeps this many bytes of each plugin.
    #[must_use]
    pub fn new(plugin_bytes: usize) -> Self {
        Self { entries: vec![], budgets: vec![], plugin_bytes }
    }

    /// Adds lines as far as their plugin's limit allows.
    pub fn extend(&mut self, entries: Vec<LogEntry>) {
        for entry in entries {
            self.push(entry, None);
        }
    }

    /// Adds lines as far as their plugin's limit and the episode's budget allow.
    pub(crate) fn extend_within(&mut self, entries: Vec<LogEntry>, episode: &mut ByteBudget) {
        for entry in entries {
            self.push(entry, Some(&mut *episode));
        }
    }

    fn push(&mut self, entry: LogEntry, episode: Option<&mut ByteBudget>) {
        let place = self.budgets.iter().position(|(at, _)| *at == entry.at).unwrap_or_else(|| {
            self.budgets.push((entry.at.clone(), LogBudget::new(self.plugin_bytes)));
            self.budgets.len() - 1
        });
        let Self { entries, budgets, .. } = self;
        let budget = &mut budgets[place].1;
        if budget.is_truncated() {
            return;
        }
        if episode.is_some_and(|episode| episode.charge(&entry).is_err()) {
            budget.exhaust();
        }
        let LogEntry { at, call_site, seat, level, text } = entry;
        budget.admit(level, text, |level, text| {
            entries.push(LogEntry { at: at.clone(), call_site: call_site.clone(), seat, level, text });
        });
    }

    /// Drops the lines and keeps the limits.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The lines so far.
    #[must_use]
    pub fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// The lines.
    #[must_use]
    pub fn into_entries(self) -> Vec<LogEntry> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{LOG_TRUNCATED, LogLevel};

    use super::*;

    fn entry(plugin: &str, text: &str) -> LogEntry {
        let at = Boundary::Tool(plugin.to_owned());
        LogEntry { at, call_site: CallSite::tool("call-0"), seat: None, level: LogLevel::Info, text: text.to_owned() }
    }

    fn texts(log: EpisodeLog) -> Vec<String> {
        log.into_entries().into_iter().map(|entry| entry.text).collect()
    }

    #[test]
    fn each_plugin_has_its_own_limit_over_all_calls() {
        // A line counts 32 bytes beside its text: 80 bytes hold two lines of 5 and a part of none.
        let mut log = EpisodeLog::new(80);
        log.extend(vec![entry("a", "12345"), entry("b", "first")]);
        log.extend(vec![entry("a", "67890"), entry("a", "third"), entry("a", "fourth"), entry("b", "still")]);
        assert_eq!(texts(log), ["12345", "first", "67890", LOG_TRUNCATED, "still"]);
    }

    #[test]
    fn lines_beyond_the_episodes_budget_are_dropped_and_marked() {
        let mut log = EpisodeLog::new(1 << 16);
        let mut budget = ByteBudget::new(500);
        log.extend_within(vec![entry("a", "kept"), entry("a", &"x".repeat(500)), entry("a", "later")], &mut budget);
        // {"boundary":"tool","plugin":"a","call_site":{"tool":{"id":"call-0"}},"level":"info","text":"kept"}
        assert_eq!(budget.used(), 98);
        // Another plugin's line still fits.
        log.extend_within(vec![entry("b", "fits")], &mut budget);
        assert_eq!(texts(log), ["kept", LOG_TRUNCATED, "fits"]);
    }
}
