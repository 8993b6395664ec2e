//! A server's side: publishes its catalog, knows the workers, and asks them about the episodes of its sessions.

mod asking;
pub(crate) mod heartbeat;
mod registry;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State as Connection;
use async_nats::{Message, Subscriber};
use futures::StreamExt;
use gymkhana_orchestration::{Classify, Reporter, RunResult};
use gymkhana_registry::Digest;
use gymkhana_serve::remote::{PlaceCounts, SessionWorkers, WorkerPlace};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::bus::{Bus, BusSettings, Names, RunKey};
use crate::codec::MessageCodec;
use crate::description::{Description, Versions, WorkKind};
use crate::dropped::Dropped;
use crate::files;
use crate::publication::{Publication, new_epoch};
use crate::reply::ReplyTo;
use crate::signature::{SignatureRefusal, Signer, WorkerKeys};
use crate::signed::decode_signed;
use asking::{LargeMessages, TakenWorkerPlace};
use heartbeat::{Heartbeat, HeartbeatAnswer};
use registry::{GoneWorker, MembershipChange, WorkerRegistry};

/// Time between two looks at the bus, which may have lost the catalog.
const CATALOG_CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// How a server uses workers.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// The bus.
    pub bus: BusSettings,
    /// Time without a heartbeat after which a worker has lost its sessions.
    pub lease: Duration,
    /// Workers that are taken.
    pub keys: WorkerKeys,
}

/// A server whose sessions are at workers. Ends with [`SessionCoordinator::close`].
pub struct SessionCoordinator {
    front: Arc<CoordinatorLoop>,
    publication: Publication,
    stop: oneshot::Sender<()>,
    listening: JoinHandle<()>,
    keeping: JoinHandle<()>,
    /// Holds the files.
    _folder: TempDir,
}

/// What all places share.
struct CoordinatorLoop {
    office: MessageCodec,
    keys: WorkerKeys,
    members: Mutex<WorkerRegistry>,
    /// Digest of the server's files.
    files: Digest,
    lease: Duration,
    large: LargeMessages,
    dropped: Dropped,
    /// Threads with the connection to the bus.
    host: Handle,
    reporter: Arc<dyn Reporter>,
}

impl SessionCoordinator {
    /// Publishes the catalog that `write` puts into a new folder, under this name. Workers may come and go from then on.
    ///
    /// # Errors
    /// If the bus cannot be used or does not keep the catalog, or the files cannot be written.
    pub async fn start(
        settings: FrontSettings,
        run: RunKey,
        write: impl FnOnce(&Path) -> RunResult<()>,
        reporter: Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let bus = Bus::connect(&settings.bus, "gymkhana server").await?;
        let full = "the folder of temporary files cannot be written\nhint: free space there, or choose another TMPDIR";
        let folder = tempfile::Builder::new().prefix("gymkhana-serve-").tempdir().user_context(full)?;
        let publication = publication(bus, run, write, settings.lease, folder.path())?;
        publication.clear().await;
        let front = Arc::new(CoordinatorLoop {
            office: MessageCodec {
                bus: publication.bus.clone(),
                names: publication.names.clone(),
                signer: publication.signer.clone(),
            },
            dropped: Dropped::new(&reporter),
            keys: settings.keys,
            members: Mutex::new(WorkerRegistry::new(settings.lease, Instant::now())),
            files: publication.description.files_digest(),
            lease: settings.lease,
            large: LargeMessages::default(),
            host: Handle::current(),
            reporter,
        });
        // Workers ask as soon as they know the catalog.
        let client = &publication.bus.client;
        let alive = client.subscribe(publication.names.alive()).await.internal()?;
        let heartbeats = client.subscribe(publication.names.heartbeats()).await.internal()?;
        if let Err(error) = publication.make().await {
            // A part of the catalog may be on the bus.
            publication.clear().await;
            return Err(error);
        }
        let (stop, stopped) = oneshot::channel();
        let listening = tokio::spawn(Arc::clone(&front).listen(alive, heartbeats, stopped));
        let keeping = tokio::spawn(keep(publication.clone(), Arc::clone(&front.reporter)));
        Ok(Self { front, publication, stop, listening, keeping, _folder: folder })
    }

    /// Name of the catalog on the bus.
    #[must_use]
    pub fn run(&self) -> &RunKey {
        &self.publication.run
    }

    /// The workers, for the table of sessions.
    #[must_use]
    pub fn workers(&self) -> Arc<dyn SessionWorkers> {
        Arc::new(Workers(Arc::clone(&self.front)))
    }

    /// Removes the catalog from the bus, so that workers leave it.
    pub async fn close(self) {
        self.keeping.abort();
        // The listener ends also without the message.
        let _ = self.stop.send(());
        let _ = self.listening.await;
        self.publication.clear().await;
    }
}

/// The catalog on the bus, with its files in `folder`.
fn publication(
    bus: Bus,
    run: RunKey,
    write: impl FnOnce(&Path) -> RunResult<()>,
    lease: Duration,
    folder: &Path,
) -> RunResult<Publication> {
    let folder = folder.join("catalog");
    write(&folder)?;
    let (epoch, signer) = (new_epoch()?, Signer::temporary());
    let description = Description {
        work: WorkKind::Sessions,
        versions: Versions::own(),
        epoch: epoch.clone(),
        key: signer.public_key(),
        files: files::list(&folder)?,
        seats: vec![],
        places: None,
        lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
    };
    let names = Names::new(run.clone(), epoch);
    Ok(Publication { bus, run, names, folder, description, signer })
}

/// Publishes the catalog again whenever the bus has lost it.
async fn keep(publication: Publication, reporter: Arc<dyn Reporter>) {
    loop {
        tokio::time::sleep(CATALOG_CHECK_INTERVAL).await;
        if !publication.is_lost().await {
            continue;
        }
        match publication.make().await {
            Ok(()) => reporter.warn("the bus had lost the served catalog, which is there again"),
            Err(error) => tracing::debug!("the catalog was not published again: {error}"),
        }
    }
}

impl CoordinatorLoop {
    fn members(&self) -> MutexGuard<'_, WorkerRegistry> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers workers until the server ends.
    async fn listen(
        self: Arc<Self>,
        mut alive: Subscriber,
        mut heartbeats: Subscriber,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut clock = tokio::time::interval((self.lease / 8).max(Duration::from_millis(50)));
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => return,
                Some(question) = alive.next() => self.reply(ReplyTo::of(&question), &[]).await,
                Some(heartbeat) = heartbeats.next() => self.heartbeat(heartbeat).await,
                _ = clock.tick() => self.poll(),
            }
        }
    }

    async fn reply(&self, reply: Option<ReplyTo>, body: &[u8]) {
        let Some(reply) = reply else { return };
        let Some(answer) = reply.sign(&self.office.signer, body) else { return };
        reply.send(&self.office.bus.client, answer).await;
    }

    async fn heartbeat(&self, message: Message) {
        let Some(signed) = decode_signed::<Heartbeat>(&message.payload) else {
            return self.dropped.add("a heartbeat", "it is malformed");
        };
        let heartbeat = &signed.header;
        let answer = match signed.key(&self.keys, &self.office.names.heartbeats()) {
            Err(wrong @ SignatureRefusal::Wrong) => return self.dropped.add("a heartbeat", &wrong.to_string()),
            Err(refusal) => self.refused(heartbeat, refusal.to_string()),
            Ok(key) => match heartbeat.refusal(&self.files) {
                Some(why) => self.refused(heartbeat, why),
                None => {
                    let recorded = self.members().record_heartbeat(heartbeat, key, Instant::now());
                    let Some((answer, change)) = recorded else {
                        return self.dropped.add("a heartbeat", "it has another key than the first of its worker");
                    };
                    self.report(heartbeat, change);
                    answer
                }
            },
        };
        match serde_json::to_vec(&answer) {
            Ok(text) => self.reply(ReplyTo::of(&message), &text).await,
            Err(error) => tracing::error!(%error, "an answer cannot be written"),
        }
    }

    fn poll(&self) {
        let is_connected = self.office.bus.client.connection_state() == Connection::Connected;
        let gone = self.members().poll(Instant::now(), is_connected);
        for worker in gone {
            self.report_lost(&worker, "stopped answering");
        }
    }

    fn report(&self, heartbeat: &Heartbeat, change: MembershipChange) {
        match change {
            MembershipChange::Nothing => {}
            MembershipChange::Joined => {
                self.reporter.status(&format!("worker {} joined: {} episodes", heartbeat.name, heartbeat.places));
            }
            MembershipChange::Left(worker) => self.report_lost(&worker, "has left"),
        }
    }

    fn report_lost(&self, GoneWorker { name, taken }: &GoneWorker, why: &str) {
        let moves = if *taken == 0 {
            String::new()
        } else {
            format!("; {taken} of its episodes continue elsewhere at their next request")
        };
        self.reporter.warn(&format!("worker {name} {why}{moves}"));
    }

    fn refused(&self, heartbeat: &Heartbeat, why: String) -> HeartbeatAnswer {
        let name: String = heartbeat.name.chars().take(64).collect();
        self.reporter.warn(&format!("worker {} was refused: {why}", name.escape_debug()));
        HeartbeatAnswer::Refused(why)
    }

    /// Gives no further requests to a worker that sent what it was not asked for.
    fn expel(&self, worker: &str, why: &str) {
        let gone = self.members().remove(worker, &format!("was refused: {why}"));
        if let Some(gone) = gone {
            self.report_lost(&gone, &format!("was refused: {why}"));
        }
    }
}

/// Workers as the table of sessions sees them.
struct Workers(Arc<CoordinatorLoop>);

impl SessionWorkers for Workers {
    fn take(&self) -> Option<Arc<dyn WorkerPlace>> {
        // Without random numbers no place is free.
        let place = getrandom::u64().ok()?;
        let taken = self.0.members().take()?;
        Some(Arc::new(TakenWorkerPlace::new(Arc::clone(&self.0), taken, place)))
    }

    fn counts(&self) -> PlaceCounts {
        self.0.members().counts()
    }
}
