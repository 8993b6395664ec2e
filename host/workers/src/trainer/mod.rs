//! The trainer's side: gives out groups as jobs, answers policy calls and takes results.

mod dispatch;
mod inbox;
mod ledger;
mod liveness;
mod policies;
mod reading;
mod results;
mod run_workers;
mod streams;
mod verdicts;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gymkhana_orchestration::remote::{GroupJob, PlayedGroup, RemotePlayers, RemoteRun, RunPosition};
use gymkhana_orchestration::seat_players::SeatPlayers;
use gymkhana_orchestration::{Classify, RunError, RunResult};
use gymkhana_record::EpisodeRecord;
use gymkhana_rollout::SeatPlayer;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::bus::{Bus, BusSettings, Names, RunKey};
use crate::description::{Description, SeatKind, Versions, WorkKind};
use crate::files;
use crate::publication::{Publication, new_epoch};
use crate::signature::{Signer, WorkerKeys};
use dispatch::{DispatchCommand, DispatchLoop};
use ledger::Dispatched;
#[cfg(fuzzing)]
pub(crate) use results::check_records;
pub use run_workers::BusWorkers;
use streams::Streams;

/// How groups are given out.
#[derive(Debug, Clone)]
pub struct DispatcherSettings {
    /// The bus.
    pub bus: BusSettings,
    /// Time after which a job without an acknowledgement goes to another worker.
    pub lease: Duration,
    /// Workers whose results and policy calls count.
    pub keys: WorkerKeys,
}

/// A connection to the bus whose workers are to play.
struct TrainersBus {
    bus: Bus,
    lease: Duration,
    keys: WorkerKeys,
}

impl TrainersBus {
    /// Connects to the bus, where nothing changes yet.
    ///
    /// # Errors
    /// If the bus cannot be used.
    pub async fn connect(settings: &DispatcherSettings) -> RunResult<Self> {
        let bus = Bus::connect(&settings.bus, "gymkhana trainer").await?;
        Ok(Self { bus, lease: settings.lease, keys: settings.keys.clone() })
    }
}

/// Gives out groups to workers. Ends with [`Dispatcher::close`].
struct Dispatcher {
    commands: mpsc::UnboundedSender<DispatchCommand>,
    next: Arc<AtomicU64>,
    /// Whether a worker sent a message within the lease.
    plays: watch::Receiver<bool>,
    dispatch: JoinHandle<Dispatched>,
    streams: Streams,
}

impl Dispatcher {
    /// Publishes the run. Workers may come and go from then on.
    ///
    /// # Errors
    /// If the bus does not keep the run.
    pub async fn start(bus: TrainersBus, run: RemoteRun) -> RunResult<Self> {
        let key = RunKey::of_folder(&run.folder);
        let TrainersBus { bus, lease, keys } = bus;
        let (epoch, signer) = (new_epoch()?, Signer::temporary());
        let description = Description {
            work: WorkKind::Groups,
            versions: Versions::own(),
            epoch: epoch.clone(),
            key: signer.public_key(),
            files: files::list(&run.folder)?,
            seats: seats(&*run.seats),
            places: run.places,
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        };
        let names = Names::new(key.clone(), epoch);
        let publication = Publication { bus, run: key, names, folder: run.folder.clone(), description, signer };
        let streams = Streams { publication };
        streams.clear().await;
        let (commands, received) = mpsc::unbounded_channel();
        let dispatch = DispatchLoop::open(streams.clone(), run, keys).await?;
        if let Err(error) = streams.make().await {
            // A part of the run may be on the bus.
            streams.clear().await;
            return Err(error);
        }
        let plays = dispatch.plays();
        let dispatch = tokio::spawn(dispatch.work(received));
        Ok(Self { commands, next: Arc::default(), plays, dispatch, streams })
    }

    /// Name of the run on the bus.
    #[must_use]
    pub fn run(&self) -> &RunKey {
        &self.streams.publication.run
    }

    /// Ends the run on the bus, so that workers leave it.
    ///
    /// # Errors
    /// If the dispatcher panicked.
    pub async fn close(self) -> RunResult<Dispatched> {
        let Self { dispatch, streams, .. } = self;
        let _ = self.commands.send(DispatchCommand::Close);
        let dispatched = dispatch.await.internal()?;
        streams.clear().await;
        Ok(dispatched)
    }

    /// A handle that gives out groups.
    #[must_use]
    pub fn players(&self) -> Arc<dyn RemotePlayers> {
        let (commands, next, plays) = (self.commands.clone(), Arc::clone(&self.next), self.plays.clone());
        Arc::new(Players { commands, next, plays })
    }
}

fn seats(players: &dyn SeatPlayers) -> Vec<SeatKind> {
    let kind = |player: SeatPlayer<'_>| match player {
        SeatPlayer::Oracle => SeatKind::Oracle,
        SeatPlayer::Policy(policy) => SeatKind::Model { context: policy.context(), can_score: policy.can_score() },
    };
    players.players().into_iter().map(kind).collect()
}

struct Players {
    commands: mpsc::UnboundedSender<DispatchCommand>,
    next: Arc<AtomicU64>,
    plays: watch::Receiver<bool>,
}

/// Gives a job up when it is dropped; a job with a result is known no longer.
struct Abort {
    number: u64,
    commands: mpsc::UnboundedSender<DispatchCommand>,
}

impl Drop for Abort {
    fn drop(&mut self) {
        // Without a receiver the run is over.
        let _ = self.commands.send(DispatchCommand::Abort(self.number));
    }
}

impl RemotePlayers for Players {
    fn play(&self, group: GroupJob) -> PlayedGroup {
        let (answer, played) = oneshot::channel::<RunResult<Vec<EpisodeRecord>>>();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let sent = self.commands.send(DispatchCommand::Play { number, group: Box::new(group), answer });
        let waits = Abort { number, commands: self.commands.clone() };
        Box::pin(async move {
            let _waits = waits;
            let over = || RunError::internal("the dispatcher of groups has ended");
            sent.map_err(|_| over())?;
            played.await.map_err(|_| over())?
        })
    }

    fn until_unplayed(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut plays = self.plays.clone();
        Box::pin(async move {
            // Without a sender the run is over.
            let _ = plays.wait_for(|plays| !plays).await;
        })
    }

    fn show(&self, position: RunPosition) {
        let _ = self.commands.send(DispatchCommand::Show(position));
    }
}
