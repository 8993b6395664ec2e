//! Log of a plugin on standard error, while its author plays or tests it.

use std::sync::{Arc, Mutex, PoisonError};

use gymkhana_record::LogBudget;
use gymkhana_sandbox::{LogLine, LogSink, Plugin};

use crate::printer::Printer;

/// Bytes of one plugin's log that a test prints.
const TEST_BYTES: usize = 64 << 10;

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

/// The plugin with its log printed, for a person who plays it.
pub fn printed(plugin: &Plugin, printer: &Printer) -> Plugin {
    plugin.logging(sink(plugin.name(), printer, usize::MAX))
}

/// Printer of a plugin's log in the conformance suite, which makes thousands of calls: the log is cut.
pub fn test_sink(plugin: &str, printer: &Printer) -> Arc<dyn LogSink> {
    sink(plugin, printer, TEST_BYTES)
}

fn sink(plugin: &str, printer: &Printer, bytes: usize) -> Arc<dyn LogSink> {
    let (plugin, budget) = (plugin.to_owned(), Mutex::new(LogBudget::new(bytes)));
    Arc::new(PrintedLog { printer: printer.clone(), plugin, budget })
}
