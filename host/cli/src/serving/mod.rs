//! Commands that serve plugins and policies to others, and the workers at their bus.

mod export;
pub mod gateway;
pub mod serve;
pub mod worker;

use std::path::Path;
use std::time::Duration;

use gymkhana_orchestration::{RunKey, RunResult};
use gymkhana_workers::bus::BusSettings;
use gymkhana_workers::{FrontSettings, SessionCoordinator, WorkerKeys};

use crate::args::{BusArgs, FrontArgs};
use crate::error::CliResult;
use crate::printer::Printer;

/// Publishes the plugins that `write` puts into a new folder, if there is a bus.
///
/// # Errors
/// If the bus cannot be used, or the keys of the workers cannot be read.
async fn start_session_workers(
    args: &FrontArgs,
    key: RunKey,
    write: impl FnOnce(&Path) -> RunResult<()>,
    printer: &Printer,
) -> CliResult<Option<SessionCoordinator>> {
    let Some(url) = &args.workers else { return Ok(None) };
    let keys = args.worker_keys.as_deref().map(WorkerKeys::read).transpose()?.unwrap_or_default();
    let settings = FrontSettings { bus: args.bus.settings(url), lease: Duration::from_secs(args.lease), keys };
    let front = SessionCoordinator::start(settings, key, write, printer.reporter()).await?;
    printer.status(format!("sessions are held by workers of server {}", front.run()));
    Ok(Some(front))
}

impl BusArgs {
    /// The bus at this address.
    #[must_use]
    pub fn settings(&self, url: &str) -> BusSettings {
        let Self { bus_credentials, bus_nkey, bus_ca } = self;
        BusSettings {
            url: url.to_owned(),
            credentials: bus_credentials.clone(),
            nkey: bus_nkey.clone(),
            ca: bus_ca.clone(),
        }
    }
}
