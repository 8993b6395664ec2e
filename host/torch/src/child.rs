//! Requests to the processes of PyTorch and their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gymkhana_engine::message::{
    AnswerHead, EngineAnswer, EngineRequest, Hello, MAX_FRAME, MessageTensors, RequestHead, VERSION, read_body,
    write_frame,
};
use gymkhana_waits::{Counterpart, Silent, pulse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::error::{EngineEnd, TorchError};
use crate::process::Processes;
use crate::{TorchDevice, TorchSettings};

/// Answers that are read ahead.
const READ_AHEAD: usize = 64;
/// Longest interval between two looks at the time that requests have waited.
const LOOK: Duration = Duration::from_secs(1);

/// An answer with its tensors.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerMessage {
    /// The answer.
    pub answer: EngineAnswer,
    /// Its tensors.
    pub tensors: MessageTensors,
}

/// A request that was refused, or the end of the processes.
type AnswerOrEnd = Result<AnswerMessage, NoAnswer>;

#[derive(Debug)]
enum NoAnswer {
    Refused(String),
    Ended(EngineEnd),
}

/// Requests without an answer.
#[derive(Debug)]
enum OpenRequests {
    Alive(HashMap<u64, (oneshot::Sender<AnswerOrEnd>, Instant)>),
    Ended(EngineEnd),
}

/// The processes of PyTorch. They are killed when this is dropped.
#[derive(Debug)]
pub struct TorchChild {
    frames: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<OpenRequests>>,
    next: AtomicU64,
    hello: Hello,
    tasks: [JoinHandle<()>; 3],
}

impl Drop for TorchChild {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl TorchChild {
    /// Starts the processes and waits for their first message.
    ///
    /// # Errors
    /// If they cannot be started, end, are silent, or have another device.
    pub async fn start(settings: &TorchSettings) -> Result<Self, TorchError> {
        let (processes, stream) = Processes::start(settings).await?;
        let child = Self::connect(stream, Some(processes), settings).await?;
        if settings.device == TorchDevice::Cuda && child.hello.device != settings.device.name() {
            let found = child.hello.device.clone();
            return Err(TorchError::Device { wanted: settings.device.name(), found });
        }
        Ok(child)
    }

    /// Speaks to the other end of a socket.
    pub(crate) async fn connect(
        stream: UnixStream,
        processes: Option<Processes>,
        settings: &TorchSettings,
    ) -> Result<Self, TorchError> {
        let (reader, writer) = stream.into_split();
        let (frames, written) = mpsc::unbounded_channel();
        let (read, bodies) = mpsc::channel(READ_AHEAD);
        let (greeted, hello) = oneshot::channel();
        let first = HashMap::from([(0, (greeted, Instant::now()))]);
        let waiting = Arc::new(Mutex::new(OpenRequests::Alive(first)));
        let answers = Answers { bodies, waiting: Arc::clone(&waiting), processes, bound: settings.answer };
        let tasks = [
            tokio::spawn(write(writer, written)),
            tokio::spawn(read_frames(reader, read)),
            tokio::spawn(answers.deliver()),
        ];
        let hello = answered(hello.await, "start")?;
        let EngineAnswer::Hello(hello) = hello.answer else {
            let why = format!("its first message is {:?}", hello.answer);
            return Err(TorchError::Refused { doing: "start", why });
        };
        if hello.version != VERSION {
            let why = format!(
                "it speaks version {} of the messages, and this program version {VERSION}\nhint: install equal versions of \
                 gymkhana-rl and this program",
                hello.version
            );
            return Err(TorchError::Refused { doing: "start", why });
        }
        Ok(Self { frames, waiting, next: AtomicU64::new(1), hello, tasks })
    }

    /// First message of the processes.
    #[must_use]
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Reason for which the processes are gone, if they are.
    #[must_use]
    pub fn ended(&self) -> Option<EngineEnd> {
        match &*self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            OpenRequests::Alive(_) => None,
            OpenRequests::Ended(ended) => Some(ended.clone()),
        }
    }

    /// Sends a request and waits for its answer. `doing` names the action in errors.
    ///
    /// # Errors
    /// If the request is refused, or the processes are gone or silent.
    pub async fn ask(
        &self,
        doing: &'static str,
        request: EngineRequest,
        tensors: &MessageTensors,
    ) -> Result<AnswerMessage, TorchError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = write_frame(&RequestHead { version: VERSION, id, request }, tensors)?;
        let (sender, answer) = oneshot::channel();
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            OpenRequests::Alive(waiting) => drop(waiting.insert(id, (sender, Instant::now()))),
            OpenRequests::Ended(ended) => return Err(ended.clone().into()),
        }
        // Without a writer the processes are gone, which the wait reports.
        let _ = self.frames.send(frame);
        answered(answer.await, doing)
    }
}

fn answered(
    answer: Result<AnswerOrEnd, oneshot::error::RecvError>,
    doing: &'static str,
) -> Result<AnswerMessage, TorchError> {
    match answer {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(NoAnswer::Refused(why))) => Err(TorchError::Refused { doing, why }),
        Ok(Err(NoAnswer::Ended(ended))) => Err(ended.into()),
        Err(_) => Err(gone("its connection is closed").into()),
    }
}

fn gone(why: &str) -> EngineEnd {
    EngineEnd { why: why.to_owned(), fix: "use --resume".to_owned() }
}

/// Writes frames. An error is left to the reader, which meets it too.
async fn write(mut writer: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if writer.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// Reads bodies until the end of the stream, an error, or a frame that is too long, which is sent as the reason.
async fn read_frames(mut reader: OwnedReadHalf, bodies: mpsc::Sender<Result<Vec<u8>, String>>) {
    while let Ok(length) = reader.read_u64_le().await {
        if length > MAX_FRAME {
            let _ = bodies.send(Err(format!("a message has {length} bytes; at most {MAX_FRAME} are read"))).await;
            return;
        }
        let mut body = Vec::new();
        // The length is a claim: memory grows with what arrives.
        match (&mut reader).take(length).read_to_end(&mut body).await {
            Ok(count) if count as u64 == length => {}
            _ => return,
        }
        if bodies.send(Ok(body)).await.is_err() {
            return;
        }
    }
}

/// Gives answers to those who wait.
struct Answers {
    bodies: mpsc::Receiver<Result<Vec<u8>, String>>,
    waiting: Arc<Mutex<OpenRequests>>,
    processes: Option<Processes>,
    bound: Duration,
}

impl Answers {
    /// Until the processes end, say something wrong, or are silent while requests wait.
    async fn deliver(mut self) {
        let mut last = Instant::now();
        let why = loop {
            match pulse(LOOK.min(self.bound), self.bodies.recv()).await {
                Some(Some(Ok(body))) => match self.give(&body) {
                    Ok(()) => last = Instant::now(),
                    Err(why) => break Some(format!("a message cannot be read: {why}")),
                },
                Some(Some(Err(why))) => break Some(why),
                Some(None) => break None,
                None => {
                    if let Some(silent) = self.silent(last) {
                        break Some(silent.to_string());
                    }
                }
            }
        };
        let ended = match &mut self.processes {
            // They end by themselves after their last words; those that were silent or wrong are ended.
            Some(processes) if why.is_none() => match pulse(self.bound, processes.end()).await {
                Some(ended) => ended,
                None => processes.kill(Some("it closed its connection".to_owned())).await,
            },
            Some(processes) => processes.kill(why).await,
            None => gone(why.as_deref().unwrap_or("it closed its connection")),
        };
        let before = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *waiting, OpenRequests::Ended(ended.clone()))
        };
        if let OpenRequests::Alive(waiting) = before {
            // A caller that left needs no answer.
            waiting.into_values().for_each(|(sender, _)| drop(sender.send(Err(NoAnswer::Ended(ended.clone())))));
        }
    }

    fn give(&mut self, body: &[u8]) -> Result<(), String> {
        let (head, tensors) = read_body::<AnswerHead>(body).map_err(|error| error.to_string())?;
        let sender = match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            OpenRequests::Alive(waiting) => waiting.remove(&head.id).map(|(sender, _)| sender),
            OpenRequests::Ended(_) => None,
        };
        let sender = sender.ok_or_else(|| format!("it answers the request {}, which was not sent", head.id))?;
        let answer = match (head.answer, head.error) {
            (Some(answer), None) => Ok(AnswerMessage { answer, tensors }),
            (None, Some(refusal)) => Err(NoAnswer::Refused(refusal.text)),
            _ => return Err("it has no answer, or an answer and an error".to_owned()),
        };
        // A caller that left needs no answer.
        let _ = sender.send(answer);
        Ok(())
    }

    /// The processes' silence, if a request has waited for the bound without any message.
    fn silent(&self, last: Instant) -> Option<Silent> {
        let oldest = match &*self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            OpenRequests::Alive(waiting) => waiting.values().map(|(_, since)| *since).min()?,
            OpenRequests::Ended(_) => return None,
        };
        let waited = oldest.max(last).elapsed();
        (waited >= self.bound).then(|| Silent { counterpart: Counterpart::Torch, named: String::new(), waited })
    }
}
