//! The thread that owns the model: it opens it, handles messages, and generates between them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gymkhana_policy::{Conversation, PolicyError, ScoreRequest};
use gymkhana_record::Sampled;
use tch::TchError;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::thread::{Work, serve};
use crate::engine::{Engine, WaitingRequest};
use crate::error::chain;
use crate::model::Model;
use crate::stage::Stage;
use crate::storage::checkpoint::OpenedCheckpoint;
use crate::{Footprint, ModelConfig, ModelFiles, TrainerError, TrainerSettings};

pub(super) type TrainerJob = Box<dyn FnOnce(&mut ModelThread) + Send>;

pub(super) enum TrainerMessage {
    Generate(WaitingRequest),
    Score { request: ScoreRequest, reply: oneshot::Sender<Result<Sampled, PolicyError>>, permit: OwnedSemaphorePermit },
    Release(Conversation),
    Run(TrainerJob),
}

/// State of the thread.
pub(super) struct ModelThread {
    pub(super) model: Model,
    pub(super) stage: Stage,
    pub(super) engine: Engine,
    pub(super) shared: HandleView,
    pub(super) settings: TrainerSettings,
}

/// What the handles read without a message.
#[derive(Debug, Clone)]
pub(super) struct HandleView {
    pub(super) version: Arc<AtomicU32>,
    /// Idle time of the thread in nanoseconds.
    pub(super) idle: Arc<AtomicU64>,
    pub(super) config: Arc<ModelConfig>,
    pub(super) files: Arc<ModelFiles>,
    pub(super) position: Arc<Option<serde_json::Value>>,
    pub(super) context: usize,
    pub(super) footprint: Footprint,
}

/// Body of the thread. It opens the model and says so, or why it cannot. It ends when the last handle is dropped, or with
/// an error, whose message it stores in `gone`.
///
/// The thread opens the model itself: libtorch's library of threads, libgomp, keeps helpers for each thread that has
/// computed. With more of them than processors it sends them to sleep after every operation, which takes longer than most
/// operations.
pub(super) fn run(
    open: impl FnOnce(&TrainerSettings) -> Result<OpenedCheckpoint, TrainerError>,
    settings: TrainerSettings,
    opened: &SyncSender<Result<HandleView, TrainerError>>,
    mut receiver: UnboundedReceiver<TrainerMessage>,
    gone: &OnceLock<String>,
) {
    tch::set_num_threads(settings.threads as i32);
    let mut worker = match open(&settings).and_then(|opened| ModelThread::new(opened, settings)) {
        Ok(worker) => worker,
        Err(error) => {
            // Without a receiver the caller has given up.
            let _ = opened.send(Err(error));
            return;
        }
    };
    let _ = opened.send(Ok(worker.shared.clone()));
    let reason = match catch_unwind(AssertUnwindSafe(|| serve(&mut worker, &mut receiver))) {
        Ok(Ok(())) => "it was shut down".to_owned(),
        Ok(Err(error)) => chain(&TrainerError::torch("generated")(error)),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown cause");
            format!("it panicked: {message}")
        }
    };
    // Set before the queued requests are dropped with the worker and the receiver, which wakes their callers.
    let _ = gone.set(reason);
}

impl ModelThread {
    fn new(opened: OpenedCheckpoint, settings: TrainerSettings) -> Result<Self, TrainerError> {
        let OpenedCheckpoint { model, stage, files, weight_version, position } = opened;
        let context = model.positions() as usize;
        let shared = HandleView {
            version: Arc::new(AtomicU32::new(weight_version)),
            idle: Arc::default(),
            config: Arc::new(model.config().clone()),
            files: Arc::new(files),
            position: Arc::new(position),
            context,
            footprint: Footprint::of(model.config(), &settings, context),
        };
        Ok(Self { engine: Engine::new(&model, &settings, context, weight_version)?, model, stage, shared, settings })
    }

    /// Exchanges the weights and their average, if the other ones are in use.
    pub(super) fn use_average(&mut self, average: bool) -> Result<(), TrainerError> {
        if self.stage.models.average.exchange(&mut self.model, average)? {
            self.engine.update(&self.model, self.shared.version.load(Ordering::Acquire));
        }
        Ok(())
    }

    pub(super) fn publish_weights(&mut self) {
        let version = self.shared.version.load(Ordering::Acquire) + 1;
        self.shared.version.store(version, Ordering::Release);
        self.engine.update(&self.model, version);
    }
}

impl Work for ModelThread {
    type Message = TrainerMessage;
    type Error = TchError;

    fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    fn take(&mut self, message: TrainerMessage) {
        match message {
            TrainerMessage::Generate(waiting) => self.engine.submit(waiting),
            TrainerMessage::Score { request, reply, permit } => {
                let scored = self.engine.score(&self.model, &request);
                let _ = reply.send(scored.map_err(|error| TrainerError::torch("scored tokens")(error).into()));
                drop(permit);
            }
            TrainerMessage::Release(conversation) => self.engine.release(conversation),
            TrainerMessage::Run(job) => job(self),
        }
    }

    fn step(&mut self) -> Result<(), TchError> {
        self.engine.step(&self.model)
    }

    fn idled(&self, time: Duration) {
        self.shared.idle.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
