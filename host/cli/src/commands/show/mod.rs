//! `host show`: a summary of a run, its health, a list of its episodes, or one episode.

mod curve;
mod episode;
mod episodes;
mod health;
mod run;
mod training;

use gymkhana_store::RunReader;

use crate::args::ShowArgs;
use crate::error::CliResult;
use crate::printer::Printer;

/// The message about a folder without episodes.
const NO_EPISODES: &str = "no episode is stored here yet";

/// Runs the command.
pub fn show(args: &ShowArgs, printer: &Printer) -> CliResult<()> {
    let run = RunReader::open(&args.dir)?;
    match (args.episode, args.episodes) {
        (Some(id), _) => {
            let record = run.episodes()?.read(id)?;
            if args.prompt {
                episode::show_prompt(&run, &record, printer)?;
            }
            episode::show(&run, &record, printer)?;
        }
        (None, Some(which)) => episodes::show(&run, which, args, printer)?,
        (None, None) if args.health => health::show(&run, args.json, printer)?,
        (None, None) => run::show(&run, args.json, printer)?,
    }
    Ok(())
}
