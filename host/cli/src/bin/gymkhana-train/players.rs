//! Parts of the program that play episodes of a run: workers at the bus of `--workers`, and agent programs.

use gymkhana_cli::args::RunArgs;
use gymkhana_cli::error::CliResult;
use gymkhana_orchestration::remote::RunWorkers;
use gymkhana_rollout::StartAgent;

/// Starts agent programs, if this build has the gateway.
#[cfg(feature = "full")]
pub const AGENTS: Option<StartAgent> = Some(gymkhana_gateway::start_agent);

/// Starts agent programs, if this build has the gateway.
#[cfg(not(feature = "full"))]
pub const AGENTS: Option<StartAgent> = None;

/// The workers that play the run, if the command line names a bus.
#[cfg(feature = "full")]
pub fn workers(args: &RunArgs) -> CliResult<Option<Box<dyn RunWorkers>>> {
    use gymkhana_workers::{BusWorkers, DispatcherSettings, WorkerKeys};

    let Some(url) = &args.workers else { return Ok(None) };
    let keys = args.worker_keys.as_deref().map(WorkerKeys::read).transpose()?.unwrap_or_default();
    let lease = std::time::Duration::from_secs(args.lease);
    let settings = DispatcherSettings { bus: args.bus.settings(url), lease, keys };
    Ok(Some(Box::new(BusWorkers::new(settings))))
}

/// Refuses a bus.
#[cfg(not(feature = "full"))]
pub fn workers(args: &RunArgs) -> CliResult<Option<Box<dyn RunWorkers>>> {
    match &args.workers {
        Some(url) => Err(gymkhana_cli::error::CliError::left_out(format!("--workers {url} cannot be used"), "workers")),
        None => Ok(None),
    }
}
