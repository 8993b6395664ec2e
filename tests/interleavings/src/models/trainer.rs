//! The queue of the trainer's thread.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::OnceLock;
use std::time::Duration;

use shuttle::future::{block_on, spawn};
use shuttle::rand::{Rng, thread_rng};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::thread::{OwnerThread, Work, serve};

/// Permits of the queue, and callers.
const PERMITS: usize = 2;
const CALLERS: u32 = 4;

enum Message {
    /// A request that takes some steps, as the generation of a reply does.
    Generate {
        number: u32,
        reply: oneshot::Sender<u32>,
        permit: OwnedSemaphorePermit,
    },
    /// A request between two steps, as a training step is.
    Run {
        number: u32,
        reply: oneshot::Sender<u32>,
    },
    Release,
}

struct Engine<E> {
    waiting: VecDeque<(u32, oneshot::Sender<u32>, OwnedSemaphorePermit)>,
    /// The reason for which the next step fails.
    fails: Option<E>,
}

impl<E> Work for Engine<E> {
    type Message = Message;
    type Error = E;

    fn has_work(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Generate { number, reply, permit } => self.waiting.push_back((number, reply, permit)),
            Message::Run { number, reply } => drop(reply.send(number)),
            Message::Release => {}
        }
    }

    fn step(&mut self) -> Result<(), E> {
        assert!(self.waiting.len() <= PERMITS, "more requests than permits");
        if self.has_work()
            && let Some(why) = self.fails.take()
        {
            return Err(why);
        }
        if let Some((number, reply, permit)) = self.waiting.pop_front() {
            let _ = reply.send(number);
            drop(permit);
        }
        Ok(())
    }

    fn idled(&self, _: Duration) {}
}

/// Body of a thread whose work fails for this reason, if there is one.
fn body<E: ToString>(mut receiver: UnboundedReceiver<Message>, gone: &OnceLock<String>, fails: Option<E>) {
    let mut engine = Engine { waiting: VecDeque::new(), fails };
    let reason = match serve(&mut engine, &mut receiver) {
        Ok(()) => "it was shut down".to_owned(),
        Err(why) => why.to_string(),
    };
    let _ = gone.set(reason);
}

/// Asks both ways; some callers give up at any moment.
fn ask(thread: &OwnerThread<Message>, check: fn(&OwnerThread<Message>, u32, Option<u32>)) {
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let thread = thread.clone();
            spawn(async move {
                let answer = match number % 2 {
                    0 => thread.ask_in_turn(|reply, permit| Message::Generate { number, reply, permit }).await,
                    _ => thread.ask(|reply| Message::Run { number, reply }).await,
                };
                check(&thread, number, answer);
                thread.tell(Message::Release);
            })
        })
        .collect();
    for caller in callers {
        if thread_rng().gen_bool(0.3) {
            caller.abort();
        }
        let _ = block_on(caller);
    }
}

/// Every caller gets its answer, and the last handle ends the thread.
pub fn every_request_is_answered() {
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    let thread = OwnerThread::start("model", PERMITS, move |receiver, gone: &_| {
        body::<Infallible>(receiver, gone, None);
        assert_eq!(gone.get().map(String::as_str), Some("it was shut down"));
        ends.store(true, Ordering::SeqCst);
    });
    let thread = thread.expect("a thread");
    ask(&thread, |_, number, answer| assert_eq!(answer, Some(number)));
    drop(thread);
    assert!(ended.load(Ordering::SeqCst), "the last handle waits for the thread");
}

/// A caller without an answer finds the reason.
pub fn a_failed_thread_leaves_its_reason() {
    let thread = OwnerThread::start("model", PERMITS, |receiver, gone: &_| body(receiver, gone, Some("out of memory")));
    let thread = thread.expect("a thread");
    ask(&thread, |thread, number, answer| {
        if answer.is_none() {
            assert_eq!(thread.reason(), "out of memory");
        } else {
            assert_eq!(answer, Some(number));
        }
    });
}
