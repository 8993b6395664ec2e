//! `host run`: trains as a run file says and prints the result of each stage.

use std::path::Path;

use gymkhana_config::RunFile;
use gymkhana_run::{Finished, RunRequest, describe, prepare};

use crate::args::RunArgs;
use crate::error::{Classify, CliResult};
use crate::printer::{Printer, Verbosity};
use crate::registry;

/// Runs the command.
pub fn run(args: &RunArgs, printer: &Printer) -> CliResult<()> {
    let printer = &printer.with_verbosity(match args {
        RunArgs { quiet: true, .. } => Verbosity::Quiet,
        RunArgs { verbose: true, .. } => Verbosity::Verbose,
        _ => Verbosity::Normal,
    });
    let file = RunFile::read(&args.run_file, &args.set).user_error()?;
    let began_with = args.resume.then_some(args.out.as_path());
    let (plugins, lock) = registry::gather(&args.plugins, args.fetch, began_with, printer)?;
    let request = RunRequest {
        file,
        base: args.run_file.parent().unwrap_or(Path::new("")).to_owned(),
        out: args.out.clone(),
        resume: args.resume,
        plugins,
        lock,
        metrics: args.metrics,
        trace: args.trace.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    let finished = runtime.block_on(async { prepare(request, printer.reporter()).await?.train().await })?;
    print(&finished, printer);
    Ok(())
}

fn print(finished: &Finished, printer: &Printer) {
    let Finished { summary, episodes, folder } = finished;
    for stage in &summary.stages {
        printer.result(describe(stage));
    }
    printer.result(format!("{episodes} episodes in {}, {:.0} s", folder.display(), summary.seconds));
}
