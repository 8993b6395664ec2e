//! `host data import`: writes a file of rows.

use std::path::PathBuf;

use gymkhana_data::Imported;

use super::{options, told};
use crate::args::data::ImportArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::escape::escape_line;
use crate::printer::Printer;
use crate::units::{counted, size};

/// Skipped rows that are listed.
const LISTED: usize = 10;

/// Runs the command.
pub fn import(args: &ImportArgs, printer: &Printer) -> CliResult<()> {
    let options = options(&args.source, args.skip_bad)?;
    let mut out = args.name.clone().into_os_string();
    if args.name.extension().is_none_or(|end| end != "rows") {
        out.push(".rows");
    }
    let out = PathBuf::from(out);
    if out.exists() && !args.overwrite {
        let message = format!("`{}` exists", out.display());
        return Err(CliError::user(message).with_hint("choose another name, or replace it with --overwrite"));
    }
    let imported = gymkhana_data::import(&args.source.source, &out, &options, told(printer)).user_error()?;
    let Imported { splits, repeated, unanswered, skipped, remarks, bytes } = imported;
    remarks.warnings().iter().for_each(|warning| printer.warn(warning));
    for (place, why) in skipped.iter().take(LISTED) {
        printer.warn(escape_line(&format!("skipped {place}: {why}")));
    }
    if skipped.len() > LISTED {
        printer.warn(format!("skipped {} more", skipped.len() - LISTED));
    }
    if repeated > 0 {
        printer.warn(format!("rows that repeat an earlier one of their split: {repeated}"));
    }
    if unanswered > 0 {
        let tasks: u64 = splits.iter().map(|(_, rows)| rows).sum();
        printer.warn(format!("rows without `answer`, which rewards compare: {unanswered} of {tasks}"));
    }
    let splits: Vec<String> =
        splits.iter().map(|(name, rows)| format!("{name} with {}", counted(*rows, "task"))).collect();
    printer.result(format!("{}: {}, {}", out.display(), escape_line(&splits.join(", ")), size(bytes)));
    Ok(())
}
