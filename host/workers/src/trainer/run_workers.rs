//! Workers at a bus, as a run uses them.

use std::sync::Arc;

use gymkhana_orchestration::remote::{Pending, RemotePlayers, RemoteRun, RunWorkers};
use gymkhana_orchestration::{Reporter, RunError, RunResult};

use super::{Dispatched, Dispatcher, DispatcherSettings, TrainersBus};

/// Workers at a bus.
pub struct BusWorkers {
    settings: DispatcherSettings,
    bus: Option<TrainersBus>,
    dispatcher: Option<Dispatcher>,
}

impl BusWorkers {
    /// The workers at the bus of these settings, without a connection.
    #[must_use]
    pub fn new(settings: DispatcherSettings) -> Self {
        Self { settings, bus: None, dispatcher: None }
    }
}

impl RunWorkers for BusWorkers {
    fn connect(&mut self) -> Pending<'_, RunResult<()>> {
        Box::pin(async {
            self.bus = Some(TrainersBus::connect(&self.settings).await?);
            Ok(())
        })
    }

    fn begin(&mut self, run: RemoteRun) -> Pending<'_, RunResult<Arc<dyn RemotePlayers>>> {
        Box::pin(async {
            let bus = self.bus.take().ok_or_else(|| RunError::internal("the bus of the workers is not connected"))?;
            let reporter = Arc::clone(&run.reporter);
            let dispatcher = Dispatcher::start(bus, run).await?;
            reporter.status(&format!("workers play run {} of the bus", dispatcher.run()));
            let players = dispatcher.players();
            self.dispatcher = Some(dispatcher);
            Ok(players)
        })
    }

    fn end<'w>(self: Box<Self>, reporter: &'w dyn Reporter) -> Pending<'w, ()> {
        Box::pin(async move {
            let Some(dispatcher) = self.dispatcher else { return };
            match dispatcher.close().await {
                Ok(dispatched) => report(&dispatched, reporter),
                Err(error) => reporter.warn(&format!("the run is still on the bus: {error}")),
            }
        })
    }
}

/// Reports what workers did.
fn report(dispatched: &Dispatched, reporter: &dyn Reporter) {
    let Dispatched { groups, delivered_again, not_wanted, refused, failed, dropped, workers } = dispatched;
    reporter.status(&format!(
        "workers: {}; groups: {groups}, delivered again: {delivered_again}, results not wanted: {not_wanted}, refused: \
         {refused}, failed: {failed}, messages dropped: {dropped}",
        workers.len()
    ));
}
