//! `host run`: trains as a run file says and prints the results.

use std::path::Path;

use gymkhana_config::RunFile;
use gymkhana_run::{Finished, RunRequest, prepare};

use crate::args::RunArgs;
use crate::error::{Classify, CliResult};
use crate::printer::Printer;
use crate::registry;

/// Runs the command.
pub fn run(args: &RunArgs, printer: &Printer) -> CliResult<()> {
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
    let Finished { summary, episodes, folder, checkpoint } = finished;
    let folder = folder.display();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let success = summary.success.map_or_else(|| "not measured".to_owned(), percent);
    let sampled = summary.success_sampled.map(|share| format!(" (sampled {})", percent(share)));
    printer.result(format!("{episodes} episodes in {folder}, {:.0} s", summary.seconds));
    printer.result(format!("success at the end: {success}{}", sampled.unwrap_or_default()));
    printer.status(format!("next: host show {folder}"));
    if let Some(checkpoint) = checkpoint.as_deref().map(Path::display) {
        printer.result(format!("newest checkpoint: {checkpoint}"));
        printer.status(format!("next: host eval {checkpoint} {folder}"));
    }
}
