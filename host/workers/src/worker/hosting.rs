//! One life of a server at a worker: announces the worker, and answers requests about its episodes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::Message;
use bytes::Bytes;
use futures::StreamExt;
use gymkhana_orchestration::{Classify, Reporter, RunResult};
use gymkhana_registry::Digest;
use gymkhana_sandbox::GuestThreads;
use gymkhana_serve::catalog::Catalog;
use gymkhana_serve::remote::{EpisodeHost, EpisodeRequest, PlaceAnswer, PlaceRequest};
use gymkhana_waits::{Counterpart, within};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::WorkerSettings;
use super::open::{fetched, refuse_programs};
use super::play::refused;
use super::watch::{Over, Watch};
use crate::bus::{Bus, Names, RunKey};
use crate::codec::{CodecError, MessageCodec, MessageDirection, Parts};
use crate::coordinator::heartbeat::{Heartbeat, HeartbeatAnswer};
use crate::description::{Description, Versions};
use crate::objects::PutError;
use crate::reply::{OwnerConnection, SendOutcome};
use crate::signature::WorkerKeys;
use crate::signed::encode_signed;

/// Longest time between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// Time that requests in progress get when the worker stops.
const LAST_REQUESTS: Duration = Duration::from_secs(20);
/// Time between two tries while the bus does not take an answer.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Tries to send an answer. The server asks again after the last.
const TRIES: u32 = 20;

/// A server whose episodes the worker holds.
pub(crate) struct SessionHost {
    bus: Bus,
    names: Names,
    watch: Watch,
    host: Arc<EpisodeHost>,
    office: MessageCodec,
    /// Name in messages to people.
    name: String,
    /// Digest of the server's files.
    files: Digest,
    lease: Duration,
    owner: Arc<OwnerConnection>,
    /// The server's key, for its requests.
    keys: WorkerKeys,
    /// Episodes that began or continued here.
    played: AtomicU64,
    reporter: Arc<dyn Reporter>,
    _guests: GuestThreads,
    /// Holds the server's files.
    _folder: TempDir,
}

/// The end of one id of the worker.
enum StopReason {
    Over(Over),
    /// The server had lost the worker.
    Lost,
    Refused(String),
}

impl SessionHost {
    /// Fetches the server's files and opens its plugins.
    ///
    /// # Errors
    /// If a file is missing, the plugins start programs and may not, or one is refused.
    pub async fn open(
        bus: &Bus,
        settings: &WorkerSettings,
        name: &str,
        run: &RunKey,
        description: Description,
        reporter: &Arc<dyn Reporter>,
    ) -> RunResult<Self> {
        let names = Names::new(run.clone(), description.epoch.clone());
        let owner = description.owner(bus, reporter)?;
        let folder = fetched(bus, &names, run, &description, &settings.cache).await?;
        let check = |file: &_| refuse_programs(file, settings.allow_programs);
        let (catalog, config) = Catalog::open_published(folder.path(), reporter, check).await?;
        let guests = GuestThreads::start().internal()?;
        Ok(Self {
            bus: bus.clone(),
            names: names.clone(),
            host: Arc::new(EpisodeHost::new(catalog, &config, guests.handle().clone())),
            office: MessageCodec { bus: bus.clone(), names: names.clone(), signer: settings.signer() },
            keys: owner.key.alone(),
            name: name.to_owned(),
            files: description.files_digest(),
            lease: Duration::from_millis(description.lease_ms),
            played: AtomicU64::new(0),
            reporter: Arc::clone(reporter),
            watch: Watch {
                bus: bus.clone(),
                owner: Arc::clone(&owner),
                run: run.clone(),
                names,
                epoch: description.epoch,
                reporter: Arc::clone(reporter),
                patience: settings.trainer_timeout,
            },
            owner,
            _guests: guests,
            _folder: folder,
        })
    }

    /// Holds episodes until the server ends or `stop` is ready; returns the number of those that began or continued here.
    ///
    /// # Errors
    /// If the server refuses the worker.
    pub async fn serve(self, stop: &mut Pin<&mut impl Future<Output = ()>>) -> RunResult<(Over, u64)> {
        let hosting = Arc::new(self);
        let watched = Arc::clone(&hosting);
        let mut over = Box::pin(async move { watched.watch.until_over().await });
        loop {
            let end = hosting.live(stop, &mut over).await?;
            hosting.host.clear();
            match end {
                StopReason::Over(over) => return Ok((over, hosting.played.load(Ordering::Relaxed))),
                StopReason::Lost => {
                    hosting.reporter.warn("the server timed this worker out and moved its episodes; rejoining");
                }
                StopReason::Refused(why) => {
                    return Err(refused(&format!("the server refused this worker: {why}"), "the server's"));
                }
            }
        }
    }

    /// Holds episodes under one id.
    async fn live(
        self: &Arc<Self>,
        stop: &mut Pin<&mut impl Future<Output = ()>>,
        over: &mut (impl Future<Output = Over> + Unpin),
    ) -> RunResult<StopReason> {
        let id = format!("w{:016x}", getrandom::u64().internal()?);
        let mut requests = self.bus.client.subscribe(self.names.places(&id)).await.internal()?;
        let heartbeats = AtomicU64::new(0);
        let mut beating = Box::pin(self.report_until_gone(&id, &heartbeats));
        let mut answering = JoinSet::new();
        let end = loop {
            tokio::select! {
                () = &mut *stop => break StopReason::Over(Over::Stopped),
                over = &mut *over => break StopReason::Over(over),
                end = &mut beating => break end,
                Some(message) = requests.next() => {
                    let (hosting, id) = (Arc::clone(self), id.clone());
                    answering.spawn(async move { hosting.answer(&id, message).await });
                }
                Some(_) = answering.join_next() => {}
            }
        };
        if matches!(end, StopReason::Over(Over::Stopped)) {
            let last = async { while answering.join_next().await.is_some() {} };
            tokio::select! {
                // The server must not lose the worker meanwhile.
                _ = &mut beating => {}
                _ = within(Counterpart::Owner, LAST_REQUESTS, last) => {}
            }
            drop(beating);
            // Without an answer, the server finds out by itself.
            let _ = self.heartbeat(&id, &heartbeats, true).await;
        }
        Ok(end)
    }

    /// Gives heartbeats until the server does not know the worker.
    async fn report_until_gone(&self, id: &str, heartbeats: &AtomicU64) -> StopReason {
        let pause = (self.lease / 4).min(HEARTBEAT_INTERVAL);
        loop {
            match self.heartbeat(id, heartbeats, false).await {
                Some(HeartbeatAnswer::Lost) => return StopReason::Lost,
                Some(HeartbeatAnswer::Refused(why)) => return StopReason::Refused(why),
                // Whether the server lives is watched elsewhere.
                Some(HeartbeatAnswer::Known) | None => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Sends a heartbeat; returns the server's answer, if one comes in time.
    async fn heartbeat(&self, id: &str, heartbeats: &AtomicU64, leaves: bool) -> Option<HeartbeatAnswer> {
        let heartbeat = Heartbeat {
            worker: id.to_owned(),
            name: self.name.clone(),
            versions: Versions::own(),
            files: self.files,
            places: u32::try_from(self.host.places()).unwrap_or(u32::MAX),
            number: heartbeats.fetch_add(1, Ordering::Relaxed) + 1,
            leaves,
        };
        let subject = self.names.heartbeats();
        let message = encode_signed(&subject, &heartbeat, &[], &self.office.signer).ok()?;
        match self.owner.ask(subject, message, self.lease / 2).await {
            SendOutcome::Answered(answer) => serde_json::from_slice(&answer).ok(),
            SendOutcome::Unreachable | SendOutcome::Silent | SendOutcome::TooLarge => None,
        }
    }

    /// Answers one request.
    async fn answer(&self, id: &str, message: Message) {
        let Some(reply) = message.reply.clone() else { return };
        match self.answered(id, &message).await {
            Ok(Some(answer)) => {
                if self.bus.client.publish(reply, answer).await.is_err() {
                    tracing::debug!("an answer was not sent; the server asks again");
                }
            }
            Ok(None) => {}
            Err(CodecError::Damaged(why)) => self.owner.dropped.add("a request", &why),
            Err(error) => tracing::debug!("a request was not answered: {error}"),
        }
    }

    async fn answered(&self, id: &str, message: &Message) -> Result<Option<Bytes>, CodecError> {
        let (header, inline) = self.office.header(&message.payload, id, &self.keys)?;
        let (place, number) = (header.place, header.number);
        let answer = match self.host.repeated(place, number).await {
            // The object of a request that was read is deleted.
            Some(answer) => answer,
            None => {
                let Parts([request, data, plugins]) =
                    self.office.parts(MessageDirection::ToWorker, &header, inline).await?;
                let malformed = |error| CodecError::Refused(format!("it is malformed: {error}"));
                let request: EpisodeRequest = serde_json::from_slice(&request).map_err(malformed)?;
                if matches!(request, EpisodeRequest::Start(..) | EpisodeRequest::Restore(_)) {
                    self.played.fetch_add(1, Ordering::Relaxed);
                }
                let request = PlaceRequest { request, data: data[..].into(), plugins: plugins[..].into() };
                match self.host.answer(place, number, request).await {
                    Some(answer) => answer,
                    None => return Ok(None),
                }
            }
        };
        let PlaceAnswer { outcome, data, plugins } = &*answer;
        let outcome = serde_json::to_vec(outcome).map_err(|error| CodecError::Unreachable(error.to_string()))?;
        let owned = |part: &Arc<[u8]>| Bytes::from_owner(Arc::clone(part));
        let parts = Parts([outcome.into(), owned(data), owned(plugins)]);
        let mut refused = String::new();
        for _ in 0..TRIES {
            match self.office.pack(MessageDirection::ToServer, (id, place, number), &parts).await {
                Ok(message) => return Ok(Some(message)),
                Err(PutError::Refused(why) | PutError::Unreachable(why)) => refused = why,
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        Err(CodecError::Unreachable(format!("the bus does not take the answer: {refused}")))
    }
}
