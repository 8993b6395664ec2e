//! `host show`: a summary of a run, a list of its episodes, or one episode.

mod curve;
mod episode;
mod episodes;
mod run;

use gymkhana_store::RunReader;

use crate::args::ShowArgs;
use crate::error::CliResult;
use crate::printer::Printer;

/// Runs the command.
pub fn show(args: &ShowArgs, printer: &Printer) -> CliResult<()> {
    let run = RunReader::open(&args.dir)?;
    match (args.episode, args.episodes) {
        (Some(id), _) => episode::show(&run.episodes()?.read(id)?, printer),
        (None, Some(which)) => episodes::show(&run, which, args, printer)?,
        (None, None) => run::show(&run, args.json, printer)?,
    }
    Ok(())
}
