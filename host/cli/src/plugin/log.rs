//! Log of a plugin on standard error, while its author plays or tests it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::LogBudget;
use gymkhana_sandbox::{LogLine, LogSink, Plugin};

use crate::printer::Printer;

/// Bytes of one plugin's log that a test prints.
const TEST_BYTES: usize = 64 << 10;

/// Lines of one plugin's log after which a test prints failed calls only.
const TEST_LINES: usize = 40;

/// Prints the log of one plugin.
struct PrintedLog {
    printer: Printer,
    plugin: String,
    budget: Mutex<LogBudget>,
}

impl LogSink for PrintedLog {
    fn write(&self, lines: Vec<LogLine>) {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        for LogLine { level, message } in lines {
            budget.admit(level, message, |level, text| self.printer.log(&self.plugin, level, &text));
        }
    }
}

/// Passes on the log of calls that differ, up to a number of lines and after them of failed calls, and tells once that it
/// left some out.
struct Distinct {
    to: PrintedLog,
    seen: Mutex<ForwardedLines>,
}

/// What was passed on.
#[derive(Default)]
struct ForwardedLines {
    calls: HashSet<Vec<(gymkhana_record::LogLevel, String)>>,
    lines: usize,
    told: bool,
}

impl LogSink for Distinct {
    fn write(&self, lines: Vec<LogLine>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = (seen.lines < TEST_LINES || has_failed(&lines))
            && seen.calls.insert(lines.iter().map(|line| (line.level, line.message.clone())).collect());
        if is_new {
            seen.lines += lines.len();
            self.to.write(lines);
        } else if !seen.told {
            seen.told = true;
            let (printer, plugin) = (&self.to.printer, &self.to.plugin);
            printer.status(format!(
                "{plugin}: calls that log the same are left out, and those after {TEST_LINES} lines unless they fail"
            ));
        }
    }
}

/// Whether the call that logged these lines ended with a panic or an exception.
fn has_failed(lines: &[LogLine]) -> bool {
    lines.iter().any(|line| ["panicked at", "uncaught exception"].iter().any(|words| line.message.contains(words)))
}

/// The plugin with its log printed, for a person who plays it.
pub fn printed(plugin: &Plugin, printer: &Printer) -> Plugin {
    plugin.with_log_sink(Arc::new(sink(plugin.name(), printer, usize::MAX)))
}

/// Printer of a plugin's log in the conformance suite, which makes thousands of calls: most of the log is left out.
pub fn test_sink(plugin: &str, printer: &Printer) -> Arc<dyn LogSink> {
    Arc::new(Distinct { to: sink(plugin, printer, TEST_BYTES), seen: Mutex::default() })
}

fn sink(plugin: &str, printer: &Printer, bytes: usize) -> PrintedLog {
    let (plugin, budget) = (plugin.to_owned(), Mutex::new(LogBudget::new(bytes)));
    PrintedLog { printer: printer.clone(), plugin, budget }
}
