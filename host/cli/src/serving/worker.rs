//! `host worker`: plays groups of runs that other machines train, and holds sessions of servers.

use std::time::Duration;

use gymkhana_orchestration::code_cache;
use gymkhana_workers::{Signer, Worked, Worker, WorkerSettings};

use crate::args::WorkerArgs;
use crate::commands::page::stop_signal;
use crate::error::{CliError, CliResult};
use crate::printer::Printer;
use crate::units::counted;

/// Runs the command.
pub fn worker(args: &WorkerArgs, printer: &Printer) -> CliResult<()> {
    if let Some(path) = &args.new_key {
        let key = Signer::create(path)?.public_key();
        printer.result(key);
        printer.status("give this key to trainers, in a file for --worker-keys");
        return Ok(());
    }
    let url = args.url.as_deref().ok_or_else(|| {
        CliError::user("the bus has no address").with_hint("give one, such as `host worker nats://host:4222`")
    })?;
    let key = args.key.as_deref().map(Signer::read).transpose()?;
    if let Some(key) = &key {
        printer.status(format!("results are signed with key {}", key.public_key()));
    }
    let no_cache = || CliError::user("the cache folder is unknown\nhint: set HOME, or give --cache");
    let settings = WorkerSettings {
        bus: args.bus.settings(url),
        run: args.run.clone(),
        groups: args.groups,
        cache: args.cache.clone().or_else(code_cache::worker_files).ok_or_else(no_cache)?,
        once: args.once,
        trainer_timeout: Duration::from_secs(args.trainer_timeout),
        key,
        allow_programs: args.allow_programs,
        agents: gymkhana_gateway::start_agent,
    };
    let runtime = crate::runtime::start()?;
    let Worked { runs, groups, episodes } = runtime.block_on(async {
        // Groups in progress go back to the queue.
        let stop = stop_signal()?;
        let worker = Worker::connect(settings, printer.reporter()).await?;
        worker.work(stop).await
    })?;
    if groups > 0 || episodes == 0 {
        let (runs, groups) = (counted(runs as usize, "run"), counted(groups as usize, "group"));
        printer.status(format!("played {groups} of {runs}"));
    }
    if episodes > 0 {
        printer.status(format!("held {} of servers", counted(episodes as usize, "episode")));
    }
    Ok(())
}
