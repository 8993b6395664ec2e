//! `host show`: a summary of a run, its health, a list of its episodes, or one episode.

mod curve;
mod episode;
mod episodes;
mod run;
mod training;

use gymkhana_health::Health;
use gymkhana_store::RunReader;

use crate::args::ShowArgs;
use crate::error::{Classify, CliResult};
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
        (None, None) if args.health => show_health(&run, args.json, printer)?,
        (None, None) => run::show(&run, args.json, printer)?,
    }
    Ok(())
}

/// Prints the figures of a run with their usual ranges, and remedies outside of them. The exit code stays 0.
fn show_health(run: &RunReader, as_json: bool, printer: &Printer) -> CliResult<()> {
    let findings = Health::read(run).user_error()?.findings();
    if as_json {
        printer.json(serde_json::json!(findings));
        return Ok(());
    }
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    findings.iter().for_each(|finding| printer.result(finding.lines_with(width)));
    Ok(())
}
