//! `host serve`: serves plugins to external agents and trainers, over HTTP or standard input and output.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_orchestration::trace::Trace;
use gymkhana_sandbox::GuestThreads;
use gymkhana_serve::catalog::Catalog;
use gymkhana_serve::config::ServeFile;
use gymkhana_serve::endpoints::mcp;
use gymkhana_serve::records::{Records, Recovered};
use gymkhana_serve::server::Server;
use gymkhana_serve::session::SessionTable;
use gymkhana_store::ReportWrites;
use gymkhana_workers::bus::{RunKey, random_key};
use tokio::signal::unix::{SignalKind, signal};

use super::{export, start_session_workers};
use crate::args::{ServeArgs, ServeCommand, StdioTools};
use crate::error::{Classify, CliError, CliResult};
use crate::plugins::{GivenAs, WantedPlugins};
use crate::printer::Printer;
use crate::units::counted;

/// Time that a read of standard input may delay the end of the program.
const LAST_READ: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn serve(args: &ServeArgs, printer: &Printer) -> CliResult<()> {
    if let Some(ServeCommand::Export(args)) = &args.command {
        return export::export(args, printer);
    }
    let mut config = args.config.as_deref().map(ServeFile::read).transpose()?.unwrap_or_default();
    let folder = args.config.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let wanted = WantedPlugins::of_run(&args.plugins, &config.rules, folder, args.fetch);
    let (files, _) = WantedPlugins { given_as: GivenAs::Arguments, ..wanted }.gather(printer)?;
    config.rules.forget_sources();
    let runtime = crate::runtime::start()?;
    let guests = GuestThreads::start().internal()?;
    let trace = Trace::open(args.trace.as_deref())?;
    trace.start()?;
    let served: CliResult<()> = runtime.block_on(async {
        let catalog = Catalog::load(&config, folder, files, &printer.reporter()).await?;
        let records = Arc::new(open_records(args, &catalog, printer).await?);
        let offer = format!(
            "{} and {}",
            counted(catalog.environments().len(), "environment"),
            counted(catalog.tools().tools().len(), "tool")
        );
        let key = if args.no_records { random_key("serve")? } else { RunKey::of_folder(&args.out) };
        let front = start_session_workers(&args.front, key, |path| catalog.publish(path), printer).await?;
        let (plugin_calls, kept) = (guests.handle().clone(), Arc::clone(&records));
        let sessions = match &front {
            None => SessionTable::new(catalog, &config, kept, plugin_calls),
            Some(front) => SessionTable::with_workers(catalog, &config, kept, plugin_calls, front.workers()),
        };
        let done = serve_until_stopped(args, sessions, &config, &offer, printer).await;
        if let Some(front) = front {
            front.close().await;
        }
        done?;
        check_written(records.problem())
    });
    let traced = runtime.block_on(trace.finish(printer.reporter().as_ref()));
    // A read of standard input that waits for a line cannot be ended.
    runtime.shutdown_timeout(LAST_READ);
    served?;
    traced
}

/// Serves until a signal comes or standard input ends.
async fn serve_until_stopped(
    args: &ServeArgs,
    sessions: SessionTable,
    config: &ServeFile,
    offer: &str,
    printer: &Printer,
) -> CliResult<()> {
    let Some(tools) = args.stdio else {
        let server = Server::start(sessions, config, args.listen).user_error()?;
        // A client can send a signal as soon as the address is printed.
        let stop = stop_signal(printer.clone())?;
        printer.status(format!("serving {offer} at {}", server.url()));
        server.serve(stop).await;
        return Ok(());
    };
    let stop = stop_signal(printer.clone())?;
    printer.status(format!("serving {offer} on standard input and output"));
    let done = serve_stdio(&sessions, tools, config.listen.body_kib << 10, stop).await;
    sessions.shut_down().await;
    done
}

/// Serves MCP until the input ends or `stop` is ready. Standard output has messages of the protocol alone.
async fn serve_stdio(
    sessions: &SessionTable,
    tools: StdioTools,
    max_line: usize,
    stop: impl Future<Output = ()>,
) -> CliResult<()> {
    let shape = match tools {
        StdioTools::Plain => mcp::VisibleTools::Plain,
        StdioTools::Handles => mcp::VisibleTools::Handles,
    };
    mcp::serve(sessions, shape, mcp::standard_streams(), max_line, stop).await.user_error()
}

/// Opens the records, and says what a killed server left.
async fn open_records(args: &ServeArgs, catalog: &Catalog, printer: &Printer) -> CliResult<Records> {
    if args.no_records {
        return Ok(Records::none());
    }
    let (records, recovered) = Records::open(&args.out, catalog, report_writes("sessions", printer)).await?;
    say_recovered("server", "unfinished episode", &recovered, printer);
    if let Some(folder) = records.root() {
        printer.status(format!("recording sessions in `{}`; --no-records keeps none", folder.display()));
    }
    Ok(records)
}

/// Says that records cannot be written, and that they can be again. Until then `what` wait.
pub(super) fn report_writes(what: &'static str, printer: &Printer) -> ReportWrites {
    let printer = printer.clone();
    Box::new(move |problem| match problem {
        Some(problem) => {
            let why = problem.lines().next().unwrap_or_default();
            printer.warn(format!(
                "records cannot be written, and {what} wait: {why}\nhint: free space on the disk of --out"
            ));
        }
        None => printer.status(format!("records are written again, and {what} go on")),
    })
}

/// Fails if records were not written at the end.
pub(super) fn check_written(problem: Option<String>) -> CliResult<()> {
    problem.map_or(Ok(()), |problem| {
        let why = problem.lines().next().unwrap_or_default();
        Err(CliError::user(format!("some records were not written: {why}"))
            .with_hint("free space on the disk of --out"))
    })
}

/// Says what a killed process left, if it left anything.
pub(super) fn say_recovered(owner: &str, episode: &str, recovered: &Recovered, printer: &Printer) {
    if recovered.episodes == 0 {
        return;
    }
    let cut = if recovered.torn { "; a turn was lost while it was written" } else { "" };
    printer.status(format!(
        "the last {owner} was killed: {} kept up to the last turn and marked as dropped{cut}",
        counted(recovered.episodes, episode)
    ));
}

/// Waits for the first signal. A second one ends the process at once.
pub(super) fn stop_signal(printer: Printer) -> CliResult<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).internal()?;
    let mut terminate = signal(SignalKind::terminate()).internal()?;
    Ok(async move {
        let code = tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
        };
        printer.status("answering the last requests and writing records; a second signal ends the server at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(code);
        });
    })
}
