//! `host gateway`: a gateway in front of a policy server, for a harness that runs elsewhere.

mod episodes;
mod published;
mod records;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_config::{GatewaySection, Recorder, RunFile};
use gymkhana_gateway::AgentHarness;
use gymkhana_gateway::control::{Control, ControlLimits, SessionJournal};
use gymkhana_http::ClientTokens;
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::plugins;
use gymkhana_orchestration::served::Served;
use gymkhana_orchestration::tools_only;
use gymkhana_registry::{Kind, Lock, PluginFile};
use gymkhana_sandbox::{GuestThreads, Plugin};
use gymkhana_serve::remote::AgentWorkers;
use gymkhana_workers::bus::{RunKey, random_key};

use super::serve::{check_written, report_writes, say_recovered, stop_signal};
use super::start_session_workers;
use crate::args::GatewayArgs;
use crate::error::{Classify, CliError, CliResult};
use crate::plugins::WantedPlugins;
use crate::printer::Printer;
use crate::units::counted;
use episodes::GatewayEpisodes;
use records::{FolderContents, GatewayRecords};

/// Time that open sessions get at the end.
const LAST_SESSIONS: Duration = Duration::from_secs(30);
/// Time that the last calls and scores get after that.
const LAST_CALLS: Duration = Duration::from_secs(900);
/// Time between two attempts to write records that could not be written.
const WRITE_AGAIN: Duration = Duration::from_millis(500);
/// Time that threads get at the end.
const LAST_THREADS: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn gateway(args: &GatewayArgs, printer: &Printer) -> CliResult<()> {
    let mut file = read_run_file(args)?;
    let section = file.gateway.clone().unwrap_or_default();
    check_address(args, &section)?;
    let folder = args.run_file.parent().unwrap_or(Path::new("."));
    let (files, lock) = gather(args, &file, folder, printer)?;
    file.rules.forget_sources();
    let assets = AssetFiles::pin(&mut file.rules, folder, None)?;
    let contents = FolderContents { files: &files, lock: &lock, assets: &assets };
    if args.front.workers.is_some() {
        published::check(&file, &contents)?;
    }
    let runtime = crate::runtime::start()?;
    let guests = GuestThreads::start().internal()?;
    let done = runtime.block_on(serve(args, &section, file, &contents, &guests, printer));
    // A session that did not end may still hold a thread.
    runtime.shutdown_timeout(LAST_THREADS);
    done
}

/// Answers harnesses until a signal comes.
async fn serve(
    args: &GatewayArgs,
    section: &GatewaySection,
    file: RunFile,
    contents: &FolderContents<'_>,
    guests: &GuestThreads,
    printer: &Printer,
) -> CliResult<()> {
    let control = control(section)?;
    let loaded = load(&file, contents.files, contents.assets, printer)?;
    let (played, reporter, mut url) = (Arc::clone(&control), printer.reporter(), String::new());
    let mut places = None;
    let served = Served::connect_with(file, loaded, &reporter, |rollout, file| {
        if rollout.plugins().seats() > 1 {
            let message = format!("a harness plays one seat, and the environment has {}", rollout.plugins().seats());
            return Err(CliError::user(message).with_hint("choose another environment"));
        }
        let time = Duration::from_secs_f64(file.rules.limits.seconds);
        let public = section.url.as_ref().map(ToString::to_string);
        let settings = section.settings(&file.rules.limits.stop, time);
        let harness = AgentHarness::start_external(settings, args.listen, public, played).user_error()?;
        harness.url().clone_into(&mut url);
        if args.front.workers.is_none() {
            return Ok(rollout.with_agent(Arc::new(harness)));
        }
        let [wait, most] = [section.wait_seconds, section.answer_seconds].map(Duration::from_secs_f64);
        let workers = places.insert(AgentWorkers::new(rollout.plugins(), wait, most));
        Ok(rollout.with_agent(Arc::new(harness.with_backend(Arc::new(workers.clone())))))
    });
    let served = served.await?;
    let out = (!args.no_records).then_some(args.out.as_path());
    let (records, recovered) = GatewayRecords::open(out, &served, contents, report_writes("sessions", printer))?;
    say_recovered("gateway", "open session", &recovered, printer);
    let records = Arc::new(records);
    if !args.no_records {
        control.set_journal(Arc::clone(&records) as Arc<dyn SessionJournal>);
    }
    let episodes = GatewayEpisodes::new(&served, section.temperature, Arc::clone(&records), guests.handle()).await?;
    // A client can send a signal as soon as the address is printed.
    let stop = stop_signal(printer.clone())?;
    // Workers that joined another gateway of this folder leave it, which is over now that the records are open.
    let key = if args.no_records { random_key("gateway")? } else { RunKey::of_folder(&args.out) };
    let publish = |path: &Path| published::write(path, &served.file, contents);
    let front = start_session_workers(&args.front, key, publish, printer).await?;
    if let (Some(places), Some(front)) = (&places, &front) {
        places.set_workers(front.workers());
    }
    control.set_episodes(Arc::new(episodes));
    printer.status(format!("the gateway is at {url}"));
    tokio::select! {
        () = stop => {}
        never = write_records(&records) => match never {},
    }
    if let Some(places) = &places {
        places.end();
    }
    let open = control.drain(LAST_SESSIONS, LAST_CALLS).await;
    if let Some(front) = front {
        front.close().await;
    }
    let committed = records.commit();
    if open > 0 {
        let message = format!("{} did not end in {} s", counted(open, "session"), LAST_CALLS.as_secs());
        return Err(
            CliError::user(message).with_hint("start the gateway again with its folder, to store what they did")
        );
    }
    check_written(records.problem())?;
    Ok(committed?)
}

/// Writes records that could not be written as soon as there is room.
async fn write_records(records: &GatewayRecords) -> Infallible {
    loop {
        records.flush().await;
        tokio::time::sleep(WRITE_AGAIN).await;
    }
}

/// The plugins that are given; a gateway needs none.
fn gather(args: &GatewayArgs, file: &RunFile, folder: &Path, printer: &Printer) -> CliResult<(Vec<PluginFile>, Lock)> {
    if args.plugins.is_empty() && file.rules.sources().user_error()?.is_empty() {
        return plugins::pin(vec![]);
    }
    WantedPlugins::of_run(&args.plugins, &file.rules, folder, args.fetch).gather(printer)
}

/// Loads the plugins. Without an environment, a session is a conversation with the policy and calls of tools.
fn load(file: &RunFile, files: &[PluginFile], assets: &AssetFiles, printer: &Printer) -> CliResult<Vec<Plugin>> {
    let sandbox = plugins::sandbox(&file.rules.sandbox, &printer.reporter())?;
    let mut loaded = plugins::load(&file.rules, &file.wrappers(), &sandbox, files, assets, OutboundMode::Live)?;
    if !loaded.iter().any(|plugin| plugin.manifest().kinds.contains(&Kind::Environment)) {
        loaded.push(tools_only()?);
    }
    Ok(loaded)
}

fn control(section: &GatewaySection) -> CliResult<Arc<Control>> {
    let clients = section.clients.iter().map(|(name, client)| (name.as_str(), client.token_env.as_str()));
    let tokens = ClientTokens::read("gateway.clients", clients, |name| std::env::var(name).ok()).user_error()?;
    let limits = ControlLimits { sessions: section.sessions, idle: Duration::from_secs_f64(section.idle_seconds) };
    Ok(Arc::new(Control::new(limits, tokens)))
}

/// Rejects an address that others can reach without tokens and TLS.
fn check_address(args: &GatewayArgs, section: &GatewaySection) -> CliResult<()> {
    if args.listen.ip().is_loopback() {
        return Ok(());
    }
    let missing = if section.clients.is_empty() {
        ("no client has a token", "add sections [gateway.clients.NAME]")
    } else if !section.behind_proxy {
        ("keys would be sent in the clear", "set gateway.behind_proxy = true with a proxy that ends TLS")
    } else {
        return Ok(());
    };
    let message = format!("cannot listen on {}: others can reach it, and {}", args.listen, missing.0);
    Err(CliError::user(message).with_hint(missing.1))
}

/// Reads the run file of a gateway: an ordinary one, whose stages are not used.
fn read_run_file(args: &GatewayArgs) -> CliResult<RunFile> {
    let mut file = RunFile::read(&args.run_file, &args.set).user_error()?;
    if file.policy.server.is_none() {
        return Err(CliError::user("`host gateway` needs a policy server, and policy.server is not set")
            .with_hint("set policy.server = { url = …, protocol = \"vllm\", name = … } and policy.checkpoint"));
    }
    // The harness plays instead of the program, and each session is one attempt.
    file.agent = None;
    file.recorder = Some(Recorder::Gateway);
    file.rules.failures.retries = 0;
    Ok(file)
}
