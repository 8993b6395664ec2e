//! `host data`: tasks from files of users, and recorded episodes for other programs.

mod export;
mod import;
mod inspect;

use gymkhana_data::{ColumnMapping, ImportOptions};

use crate::args::data::{DataCommand, SourceArgs};
use crate::error::{CliError, CliResult};
use crate::printer::Printer;

/// Rows between two lines about the progress.
const PROGRESS: u64 = 1_000_000;

/// Runs a command.
pub fn run(command: &DataCommand, printer: &Printer) -> CliResult<()> {
    match command {
        DataCommand::Import(args) => import::import(args, printer),
        DataCommand::Inspect(args) => inspect::inspect(args, printer),
        DataCommand::Export(args) => export::export(args, printer),
    }
}

fn options(args: &SourceArgs, skip_bad: u64) -> CliResult<ImportOptions> {
    let mapping = ColumnMapping::parse(args.column.iter().map(String::as_str)).map_err(|why| {
        let hint = "write it as `prompt=problem`, once for each column";
        CliError::user(format!("--column is wrong: {why}")).with_hint(hint)
    })?;
    Ok(ImportOptions { mapping, test_percent: args.test_percent, skip_bad })
}

/// Prints the number of rows now and then.
fn told(printer: &Printer) -> impl FnMut(u64) + '_ {
    |rows| {
        if rows % PROGRESS == 0 {
            printer.status(format!("{rows} rows"));
        }
    }
}
