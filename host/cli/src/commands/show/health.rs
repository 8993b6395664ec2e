//! Health of a run: each figure with its usual range and, outside of it, a remedy.

use gymkhana_finding::Finding;
use gymkhana_health::Health;
use gymkhana_store::RunReader;

use crate::error::{Classify, CliResult};
use crate::printer::Printer;

/// Prints the findings. Figures outside of their usual ranges do not change the exit code.
pub(super) fn show(run: &RunReader, as_json: bool, printer: &Printer) -> CliResult<()> {
    let findings = Health::read(run).user_error()?.findings();
    if as_json {
        printer.json(serde_json::json!(findings));
        return Ok(());
    }
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    findings.iter().map(|finding: &Finding| finding.lines_with(width)).for_each(|lines| printer.result(lines));
    Ok(())
}
