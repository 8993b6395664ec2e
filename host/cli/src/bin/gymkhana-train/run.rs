//! `host run`: trains as a run file says and prints the results.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gymkhana_config::RunFile;
use gymkhana_orchestration::pinned_servers::with_servers;
use gymkhana_orchestration::plugins::recorded;
use gymkhana_orchestration::run_file_of;
use gymkhana_run::{BetterCheckpoint, FailureTally, Finished, RunOutcome, RunRequest, StopRequest, Stopped, prepare};
use gymkhana_store::RunReader;

use crate::page;
use crate::players::{AGENTS, workers};
use crate::signals::{SignalListener, StopSignal};
use gymkhana_cli::args::RunArgs;
use gymkhana_cli::bind_page;
use gymkhana_cli::error::{Classify, CliError, CliResult};
use gymkhana_cli::plugins::WantedPlugins;
use gymkhana_cli::printer::{Printer, Verbosity};
use tokio::task::JoinSet;

/// The way in which a training command ends without an error.
pub enum CommandEnding {
    /// The plan was printed.
    Planned,
    /// A signal came before the training.
    BeforeTraining,
    /// The run ended or was stopped.
    Trained(RunOutcome),
}

/// Runs the command.
pub fn run(args: &RunArgs, printer: &Printer) -> CliResult<u8> {
    let printer = &printer.with_verbosity(match args {
        RunArgs { quiet: true, .. } => Verbosity::Quiet,
        RunArgs { verbose: true, .. } => Verbosity::Verbose,
        _ => Verbosity::Normal,
    });
    let shown = Shown { page: args.page, dry_run: args.dry_run };
    let make = |stop: StopRequest| match resumed_folder(args)? {
        Some(folder) => resume(args, &folder, stop, printer),
        None => start(args, stop, printer),
    };
    let (ending, code) = conduct(make, shown, printer)?;
    if let CommandEnding::Trained(RunOutcome::Finished(finished)) = ending {
        print(&finished, printer);
    }
    Ok(code)
}

/// What a training command shows besides its lines.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Address of the run's web page.
    pub page: Option<SocketAddr>,
    /// Whether the plan is printed instead of training.
    pub dry_run: bool,
}

/// Conducts a run to its end, or until a signal. Returns the ending and the exit code, and prints where a stopped run can continue.
pub fn conduct(
    make: impl FnOnce(StopRequest) -> CliResult<RunRequest>,
    shown: Shown,
    printer: &Printer,
) -> CliResult<(CommandEnding, u8)> {
    let runtime = gymkhana_cli::runtime::start()?;
    let stop = StopRequest::default();
    let stopping = runtime.block_on(async { SignalListener::listen(stop.clone(), printer.clone()) })?;
    let request = make(stop.clone())?;
    let ending = runtime.block_on(async {
        let place = match shown.page {
            Some(address) => Some(bind_page(address, None)?),
            None => None,
        };
        let folder = request.out.clone();
        let prepared = tokio::select! {
            // A signal also ends the processes that compile plugins, which is an error here.
            prepared = prepare(request, printer.reporter()) => match prepared {
                Err(_) if stop.is_requested() => return Ok(CommandEnding::BeforeTraining),
                other => other?,
            },
            () = stop.requested() => return Ok(CommandEnding::BeforeTraining),
        };
        if shown.dry_run {
            printer.result(prepared.plan().await?);
            return Ok(CommandEnding::Planned);
        }
        // Ends with this block.
        let mut beside = JoinSet::new();
        if let Some((place, link)) = place {
            printer.status(format!("page of the run: {link}"));
            beside.spawn(page::serve(place, folder, printer.clone()));
        }
        prepared.train().await.map(CommandEnding::Trained)
    })?;
    match &ending {
        CommandEnding::Planned | CommandEnding::Trained(RunOutcome::Finished(_)) => return Ok((ending, 0)),
        CommandEnding::Trained(RunOutcome::Stopped(stopped)) => printer.warn(describe_stop(stopped)),
        CommandEnding::BeforeTraining => printer.warn("stopped before the training began"),
    }
    Ok((ending, stopping.signal().map_or(0, StopSignal::exit_code)))
}

/// A new run.
fn start(args: &RunArgs, stop: StopRequest, printer: &Printer) -> CliResult<RunRequest> {
    // The parser of the command line requires it without --resume.
    let run_file = args.run_file.as_ref().ok_or_else(|| CliError::internal("`host run` has no run file"))?;
    let nowhere = || std::env::temp_dir().join(format!("gymkhana-dry-run-{}", std::process::id()));
    let beside = || Path::new("out").join(run_file.file_stem().unwrap_or(OsStr::new("run")));
    let out = args.out.clone().unwrap_or_else(|| if args.dry_run { nowhere() } else { beside() });
    let mut file = RunFile::read(run_file, &args.set).user_error()?;
    let base = folder_of(run_file);
    let (plugins, lock) = WantedPlugins::of_run(&args.plugins, &file.rules, &base, args.fetch).gather(printer)?;
    let (plugins, lock) = with_servers(&file.rules, plugins, lock, printer.reporter().as_ref())?;
    file.rules.forget_sources();
    Ok(RunRequest {
        file,
        base,
        out,
        resume: false,
        overwrite: args.overwrite,
        plugins,
        lock,
        metrics: args.metrics,
        trace: trace_file(args),
        stop,
        workers: workers(args)?,
        agents: AGENTS,
    })
}

/// A resumed run. The folder holds its run file and its plugins; the command line may give either again.
fn resume(args: &RunArgs, folder: &Path, stop: StopRequest, printer: &Printer) -> CliResult<RunRequest> {
    let run = RunReader::open(folder)?;
    let (mut file, base) = match &args.run_file {
        Some(run_file) => (RunFile::read(run_file, &args.set).user_error()?, folder_of(run_file)),
        None => (run_file_of(&run, &args.set)?, folder.to_owned()),
    };
    let (plugins, lock) = match &args.plugins[..] {
        [] => recorded(&run)?,
        given => {
            let wanted = WantedPlugins::of_run(given, &file.rules, &base, args.fetch);
            WantedPlugins { began_with: Some(folder), ..wanted }.gather(printer)?
        }
    };
    let (plugins, lock) = with_servers(&file.rules, plugins, lock, printer.reporter().as_ref())?;
    file.rules.forget_sources();
    Ok(RunRequest {
        file,
        base,
        out: folder.to_owned(),
        resume: true,
        overwrite: false,
        plugins,
        lock,
        metrics: args.metrics,
        trace: trace_file(args),
        stop,
        workers: workers(args)?,
        agents: AGENTS,
    })
}

/// The file for spans; a dry run writes none.
fn trace_file(args: &RunArgs) -> Option<PathBuf> {
    args.trace.clone().filter(|_| !args.dry_run)
}

fn folder_of(run_file: &Path) -> PathBuf {
    run_file.parent().unwrap_or(Path::new("")).to_owned()
}

/// The folder of the run to resume: that of --resume, else that of --out. `None` without --resume.
fn resumed_folder(args: &RunArgs) -> CliResult<Option<PathBuf>> {
    let Some(given) = &args.resume else { return Ok(None) };
    match (given, &args.out) {
        (Some(folder), Some(out)) if folder != out => Err(CliError::user(format!(
            "--resume names `{}` and --out names `{}`\nhint: write `host run --resume {}`",
            folder.display(),
            out.display(),
            out.display()
        ))),
        (Some(folder), _) | (None, Some(folder)) => Ok(Some(folder.clone())),
        (None, None) => {
            Err(CliError::user("--resume names no folder\nhint: write `host run --resume DIR`, with the run's folder"))
        }
    }
}

fn describe_stop(stopped: &Stopped) -> String {
    let Stopped { stage, step, steps, folder } = stopped;
    let folder = folder.display();
    format!("stage {stage}: stopped at step {step} of {steps}; continue with `host run --resume {folder}`")
}

/// Prints what the reporter has not printed: the end of the run, the checkpoint to use, and the next commands.
pub fn print(finished: &Finished, printer: &Printer) {
    let Finished { summary, episodes, folder, checkpoint, better_checkpoint, failures } = finished;
    let folder = folder.display();
    printer.result(format!("{episodes} episodes in {folder}, {:.0} s", summary.seconds));
    printer.result(format!("success at the end: {}", rates(summary.success, summary.success_sampled)));
    print_failures(failures, printer);
    printer.status(format!("next: host show {folder}"));
    if let Some(checkpoint) = checkpoint.as_deref().map(Path::display) {
        printer.result(format!("checkpoint: {checkpoint}"));
        if let Some(BetterCheckpoint { path, success, success_sampled }) = better_checkpoint {
            let success = rates(Some(*success), *success_sampled);
            printer.result(format!("better checkpoint: {}, success {success}", path.display()));
        }
        let best = better_checkpoint.as_ref().map_or(checkpoint, |better| better.path.display());
        printer.status(format!("next: host eval {best} {folder}"));
    }
}

/// Success with greedy and sampled decoding, in percent.
fn rates(success: Option<f64>, sampled: Option<f64>) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let success = success.map_or_else(|| "not measured".to_owned(), percent);
    success + &sampled.map(|share| format!(" (sampled {})", percent(share))).unwrap_or_default()
}

/// Prints how many episodes failed, how many of them were dropped, the failed calls by owner and kind, and the last failure; nothing without failures.
fn print_failures(failures: &FailureTally, printer: &Printer) {
    let FailureTally { episodes, dropped, calls, last } = failures;
    if let Some((id, failure)) = last {
        printer.result(format!("failed episodes: {episodes}"));
        if *dropped > 0 {
            printer.result(format!("dropped, because the infrastructure failed: {dropped}"));
        }
        for (at, count) in calls {
            printer.result(format!("failed calls: {count} of {at}"));
        }
        printer.result(format!("last failure, in episode {id}: {failure}"));
    }
}
