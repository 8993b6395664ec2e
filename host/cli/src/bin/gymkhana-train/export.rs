//! `host export`: copies a model into the form that inference servers can update, with an output layer of its own.

use gymkhana_cli::args::ExportArgs;
use gymkhana_cli::error::{Classify, CliResult};
use gymkhana_cli::printer::Printer;
use gymkhana_run::setup::models::{Models, named};
use gymkhana_trainer::export_model;

/// Runs the command.
pub fn export(args: &ExportArgs, printer: &Printer) -> CliResult<()> {
    let checkpoint = named(&args.model, args.revision.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().internal()?;
    let folder = runtime.block_on(Models::of(checkpoint, &printer.reporter()))?;
    export_model(&folder, &args.dir).user_error()?;
    printer.result(format!("wrote `{}`", args.dir.display()));
    Ok(())
}
