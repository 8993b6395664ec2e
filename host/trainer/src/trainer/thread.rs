//! A thread that owns what cannot be shared, and the handles that send it messages. It works between messages.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gymkhana_waits::sync::Arc;
use gymkhana_waits::sync::thread::{Builder, JoinHandle};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// What the thread owns.
pub(crate) trait Work {
    /// What handles send.
    type Message;
    /// The reason for which the work cannot go on.
    type Error;

    /// Whether there is work without a further message.
    fn has_work(&self) -> bool;

    /// Handles a message.
    fn take(&mut self, message: Self::Message);

    /// Does a part of the work, between two messages.
    ///
    /// # Errors
    /// If the work cannot go on.
    fn step(&mut self) -> Result<(), Self::Error>;

    /// Notes a time without work.
    fn idled(&self, time: Duration);
}

/// Serves until the last handle is dropped, or the work cannot go on.
///
/// # Errors
/// If the work cannot go on.
pub(crate) fn serve<W: Work>(work: &mut W, messages: &mut UnboundedReceiver<W::Message>) -> Result<(), W::Error> {
    loop {
        if !work.has_work() {
            let since = Instant::now();
            let message = messages.blocking_recv();
            work.idled(since.elapsed());
            match message {
                Some(message) => work.take(message),
                None => return Ok(()),
            }
        }
        loop {
            match messages.try_recv() {
                Ok(message) => work.take(message),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        work.step()?;
    }
}

/// A handle of the thread. Clones share it. Dropping the last one waits until the thread has ended, because a process that
/// exits while libtorch computes would destroy libtorch's globals in use.
pub(crate) struct OwnerThread<M> {
    thread: Arc<Running<M>>,
    queue: Arc<Semaphore>,
    gone: Arc<OnceLock<String>>,
}

struct Running<M> {
    messages: UnboundedSender<M>,
    /// Declared last: the thread ends once every sender is dropped.
    _joined: Joined,
}

/// Waits for its thread when dropped.
struct Joined(Option<JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // A panic's message is kept in `gone`.
            let _ = handle.join();
        }
    }
}

impl<M> Clone for OwnerThread<M> {
    fn clone(&self) -> Self {
        Self { thread: Arc::clone(&self.thread), queue: Arc::clone(&self.queue), gone: Arc::clone(&self.gone) }
    }
}

impl<M: Send + 'static> OwnerThread<M> {
    /// Starts a thread of this name, whose queue has this many permits. The body stores the reason of its end in the cell
    /// before it drops the messages that it has not answered.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start(
        name: &str,
        queue: usize,
        body: impl FnOnce(UnboundedReceiver<M>, &OnceLock<String>) + Send + 'static,
    ) -> io::Result<Self> {
        let (messages, receiver) = unbounded_channel();
        let gone = Arc::new(OnceLock::new());
        let handle = Builder::new().name(name.to_owned()).spawn({
            let gone = Arc::clone(&gone);
            move || body(receiver, &gone)
        })?;
        let thread = Arc::new(Running { messages, _joined: Joined(Some(handle)) });
        Ok(Self { thread, queue: Arc::new(Semaphore::new(queue)), gone })
    }

    /// Sends a message that has no answer. If the thread has ended, nothing happens.
    pub fn tell(&self, message: M) {
        let _ = self.thread.messages.send(message);
    }

    /// Sends a message and waits for its answer; `None` if the thread has ended.
    pub async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> M) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.thread.messages.send(message(reply)).ok()?;
        answer.await.ok()
    }

    /// As [`Self::ask`], after a wait for a permit of the queue, which the message holds.
    pub async fn ask_in_turn<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>, OwnedSemaphorePermit) -> M,
    ) -> Option<T> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.queue).acquire_owned().await.ok()?;
        self.ask(|reply| message(reply, permit)).await
    }

    /// The reason for which the thread has ended.
    pub fn reason(&self) -> String {
        self.gone.get().cloned().unwrap_or_else(|| "it ended".to_owned())
    }
}
