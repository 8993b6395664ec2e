//! One life of a run at a worker: pulls its jobs until it ends, or the worker stops.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::{Consumer, pull};
use async_nats::jetstream::{AckKind, Message};
use futures::StreamExt;
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_rollout::Rollout;
use gymkhana_sandbox::GuestThreads;
use gymkhana_waits::{Counterpart, within};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::WorkerSettings;
use super::ends::Ends;
use super::open::{fetched, open};
use super::policy::Caller;
use super::watch::{Over, Watch};
use crate::bus::{Bus, Names, RunKey};
use crate::description::{Description, Versions};
use crate::reply::OwnerConnection;
use crate::signature::Signer;
use gymkhana_registry::{Digest, LOCK_FILE};

/// Time that one pull waits for a job.
const PULL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two tries while the bus is away.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Longest time of the last messages.
const FLUSHED: Duration = Duration::from_secs(5);

/// A run that the worker plays.
pub(crate) struct WorkerSession {
    pub bus: Bus,
    watch: Watch,
    pub names: Names,
    pub description: Description,
    pub rollouts: Vec<Arc<Rollout>>,
    pub caller: Arc<Caller>,
    pub reporter: Arc<dyn Reporter>,
    pub versions: Versions,
    /// Digest of the run's lock.
    pub lock: Digest,
    pub guests: GuestThreads,
    /// Jobs in progress, with what ends them.
    pub jobs: Mutex<BTreeMap<u64, Arc<watch::Sender<Option<Ends>>>>>,
    /// Whether the worker leaves the run: all jobs end, also those that begin meanwhile.
    pub leaves: watch::Sender<bool>,
    /// Groups whose result the trainer took.
    pub done: AtomicU64,
    groups: usize,
    pub owner: Arc<OwnerConnection>,
    /// Signs results.
    pub signer: Signer,
    /// Memory for live episodes: one permit for each.
    pub episodes: Arc<Semaphore>,
    pub most_episodes: u32,
    /// Holds the run's files.
    _folder: TempDir,
}

impl WorkerSession {
    /// Fetches the run's files and opens its environments.
    pub async fn open(
        bus: &Bus,
        settings: &WorkerSettings,
        name: &str,
        run: &RunKey,
        description: Description,
        reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let names = Names::new(run.clone(), description.epoch.clone());
        let folder = fetched(bus, &names, run, &description, &settings.cache).await?;
        let opened = open(folder.path(), &description, settings, reporter).await?;
        let lock = description.files.iter().find(|file| file.path == LOCK_FILE).map(|file| file.digest);
        let lock = lock.ok_or_else(|| RunError::user(format!("run {run} has no {LOCK_FILE}")))?;
        let owner = description.owner(bus, reporter)?;
        let signer = settings.signer();
        let caller = Caller {
            owner: Arc::clone(&owner),
            signer: signer.clone(),
            subject: names.policy(),
            // Each session counts its conversations from 0.
            worker: format!("{name}-{:08x}", getrandom::u32().internal()?),
            host: Handle::current(),
            next: AtomicU64::new(0),
        };
        let most_episodes = u32::try_from(opened.most_episodes).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            watch: Watch {
                bus: bus.clone(),
                owner: Arc::clone(&owner),
                run: run.clone(),
                names: names.clone(),
                epoch: description.epoch.clone(),
                reporter: Arc::clone(reporter),
                patience: settings.trainer_timeout,
            },
            bus: bus.clone(),
            names,
            rollouts: opened.environments.rollouts(),
            description,
            caller: Arc::new(caller),
            reporter: Arc::clone(reporter),
            versions: Versions::own(),
            lock,
            guests: GuestThreads::start().internal()?,
            jobs: Mutex::default(),
            leaves: watch::Sender::new(false),
            done: AtomicU64::new(0),
            groups: settings.groups,
            owner,
            signer,
            episodes: Arc::new(Semaphore::new(most_episodes as usize)),
            most_episodes,
            _folder: folder,
        })
    }

    /// Plays jobs until the run ends or `stop` is ready; returns the number of groups that the trainer took.
    ///
    /// # Errors
    /// If this worker fails to play a group, or the trainer refuses a call or a result. Other groups in progress go back
    /// to the queue.
    pub async fn play(self, stop: &mut Pin<&mut impl Future<Output = ()>>) -> RunResult<(Over, u64)> {
        let session = Arc::new(self);
        let mut playing: JoinSet<RunResult<()>> = JoinSet::new();
        let mut over = Box::pin(session.watch.until_over());
        let _given_up = AbortOnDrop(tokio::spawn(Arc::clone(&session).receive_given_up()));
        // A pull that is dropped may take a job with it until its lease ends, so that a task of its own pulls.
        let (jobs, mut pulled) = mpsc::channel(1);
        let pulling = tokio::spawn(Arc::clone(&session).pull(jobs));
        let ended = loop {
            tokio::select! {
                () = &mut *stop => break Ok(Over::Stopped),
                over = &mut over => break Ok(over),
                Some(played) = playing.join_next() => {
                    if let Err(error) = played.internal().flatten() {
                        break Err(error);
                    }
                }
                Some((permit, message)) = pulled.recv() => {
                    let session = Arc::clone(&session);
                    playing.spawn(async move {
                        let played = session.job(message).await;
                        drop(permit);
                        played
                    });
                }
            }
        };
        pulled.close();
        session.leaves.send_replace(true);
        while let Some((_, message)) = pulled.recv().await {
            let _ = message.ack_with(AckKind::Nak(None)).await;
        }
        let mut pulling = AbortOnDrop(pulling);
        // A bus that takes no bytes keeps the last pull.
        if let Ok(pulled) = within(Counterpart::Bus, FLUSHED, &mut pulling.0).await {
            pulled.internal()?;
        }
        // What the queue should hear is written before the program ends.
        let _ = within(Counterpart::Bus, FLUSHED, session.bus.client.flush()).await;
        let mut ended = ended;
        while let Some(played) = playing.join_next().await {
            ended = ended.and_then(|ended| played.internal().flatten().map(|()| ended));
        }
        Ok((ended?, session.done.load(Ordering::Relaxed)))
    }

    /// Pulls jobs, each when there is room for its group, until the receiver is closed.
    async fn pull(self: Arc<Self>, jobs: mpsc::Sender<(OwnedSemaphorePermit, Message)>) {
        let room = Arc::new(Semaphore::new(self.groups));
        let mut queue = None;
        let mut permit = None;
        while !jobs.is_closed() {
            if permit.is_none() {
                permit = tokio::select! {
                    permit = Arc::clone(&room).acquire_owned() => permit.ok(),
                    () = jobs.closed() => return,
                };
            }
            if queue.is_none() {
                queue = self.queue().await;
            }
            let message = match &queue {
                Some(queue) => pulled(queue).await,
                None => None,
            };
            match (message, permit.take()) {
                (Some(message), Some(room)) => {
                    if let Err(mpsc::error::SendError((_, message))) = jobs.send((room, message)).await {
                        let _ = message.ack_with(AckKind::Nak(None)).await;
                    }
                }
                // The bus may have lost the queue.
                (_, kept) => (queue, permit) = (None, kept),
            }
        }
    }

    async fn queue(&self) -> Option<Consumer<pull::Config>> {
        let stream = self.bus.jetstream.get_stream_no_info(self.names.jobs_stream()).await.ok()?;
        let queue = stream.get_consumer(&self.names.consumer()).await.ok();
        if queue.is_none() {
            tokio::time::sleep(RETRY_DELAY).await;
        }
        queue
    }

    /// Ends jobs that the trainer has given up.
    async fn receive_given_up(self: Arc<Self>) {
        let subject = self.names.given_up();
        let about = Digest::of(subject.as_bytes());
        let Ok(mut given_up) = self.bus.client.subscribe(subject).await else { return };
        while let Some(message) = given_up.next().await {
            let number = self.owner.key.read(&about, &message.payload);
            let number = number.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(ends) = number.and_then(|number: u64| jobs.get(&number)) {
                ends.send_replace(Some(Ends::Settled));
            }
        }
    }
}

/// The next job of the queue, if one comes in time.
async fn pulled(queue: &Consumer<pull::Config>) -> Option<Message> {
    let failed = match queue.batch().max_messages(1).expires(PULL_TIMEOUT).messages().await {
        Ok(mut jobs) => match jobs.next().await {
            Some(Ok(message)) => return Some(message),
            None => return None,
            Some(Err(error)) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    tracing::debug!("no job was pulled: {failed}");
    tokio::time::sleep(RETRY_DELAY).await;
    None
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
