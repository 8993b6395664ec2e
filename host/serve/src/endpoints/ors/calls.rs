//! Calls that a client can ask for again by their id after it lost the answer: the newest of each session, within limits of
//! bytes for each client and for all.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream, StreamExt};
use gymkhana_http::{Client, CountedBytes, KeptBytes};
use tokio::sync::watch;

use crate::error::ServeError;
use crate::session::SessionId;

/// Calls of a session that are kept: the newest.
const KEPT: usize = 64;
/// Largest size in bytes of the answers that are kept.
const MAX_ANSWERS: usize = 256 << 20;
/// Of these, those of one client.
const MAX_ANSWERS_OF_CLIENT: usize = 64 << 20;

/// Characters in one event of a result. A line of an event must be short for the protocol's clients.
const CHUNK: usize = 4096;

/// Pause between the comments that keep a stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// JSON of the result, or the error that ends the session.
pub(super) type CallOutcome = Result<String, String>;

/// The calls of one session.
pub(super) struct Calls {
    client: Client,
    answers: Arc<KeptBytes<Client>>,
    kept: Arc<Mutex<VecDeque<KeptCall>>>,
}

/// A call that can be asked for.
struct KeptCall {
    call: TrackedCall,
    /// The answer's share of the bytes that are kept, once there is one.
    bytes: Option<CountedBytes<Client>>,
}

/// A call that runs or has ended.
#[derive(Clone)]
pub(super) struct TrackedCall {
    id: String,
    outcome: watch::Receiver<Option<CallOutcome>>,
}

/// Limits of the answers of all sessions.
pub(super) fn answers() -> Arc<KeptBytes<Client>> {
    KeptBytes::new(MAX_ANSWERS, MAX_ANSWERS_OF_CLIENT)
}

impl Calls {
    /// No calls yet.
    pub(super) fn new(client: &Client, answers: &Arc<KeptBytes<Client>>) -> Self {
        Self { client: client.clone(), answers: Arc::clone(answers), kept: Arc::default() }
    }

    /// Starts a call, which ends whether or not its client waits.
    ///
    /// # Errors
    /// If the host gives no random numbers.
    pub(super) fn start(
        &self,
        work: impl Future<Output = CallOutcome> + Send + 'static,
    ) -> Result<TrackedCall, ServeError> {
        let (sender, outcome) = watch::channel(None);
        let call = TrackedCall { id: SessionId::random()?.to_string(), outcome };
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(KeptCall { call: call.clone(), bytes: None });
        }
        let (id, client) = (call.id.clone(), self.client.clone());
        let (answers, kept) = (Arc::clone(&self.answers), Arc::clone(&self.kept));
        tokio::spawn(async move {
            let outcome = work.await;
            let bytes = match &outcome {
                Ok(text) | Err(text) => text.len(),
            };
            keep(&kept, &answers, &client, &id, bytes);
            sender.send_replace(Some(outcome));
        });
        Ok(call)
    }

    /// A call that was started before.
    pub(super) fn find(&self, id: &str) -> Option<TrackedCall> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|kept| kept.call.id == id).map(|kept| kept.call.clone())
    }
}

/// Counts the answer of a call. Older answers of the session make room for it; without room it cannot be asked for again.
fn keep(kept: &Mutex<VecDeque<KeptCall>>, answers: &Arc<KeptBytes<Client>>, client: &Client, id: &str, bytes: usize) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some(own) = kept.iter().position(|kept| kept.call.id == id) else { return };
        if let Some(counted) = answers.try_keep(client.clone(), bytes) {
            kept[own].bytes = Some(counted);
            return;
        }
        let oldest = kept.iter().position(|kept| kept.bytes.is_some());
        kept.remove(oldest.unwrap_or(own));
    }
}

impl TrackedCall {
    /// The stream of the call: its id, then the result in parts.
    pub(super) fn stream(mut self) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
        let id = stream::iter([event("task_id", &self.id)]);
        let outcome = stream::once(async move {
            let outcome = self.outcome.wait_for(Option::is_some).await;
            match outcome.ok().and_then(|outcome| outcome.clone()) {
                Some(outcome) => outcome,
                None => Err("host: the call ended without a result".to_owned()),
            }
        });
        events(id.chain(outcome.flat_map(|outcome| stream::iter(parts(&outcome)))))
    }
}

/// The stream of a new session: its id.
pub(super) fn opened(id: &str) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    events(stream::iter([event("task_id", id), event("end", "")]))
}

/// The stream of a call that is not known.
pub(super) fn unknown() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    events(stream::iter([event("error", "unknown task_id")]))
}

fn events(
    events: impl Stream<Item = Event> + Send + 'static,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static> {
    Sse::new(events.map(Ok)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("ping"))
}

fn parts(outcome: &CallOutcome) -> Vec<Event> {
    match outcome {
        Ok(json) => {
            let chunks = chunks(json);
            let last = chunks.len().saturating_sub(1);
            let name = |place| if place == last { "end" } else { "chunk" };
            chunks.iter().enumerate().map(|(place, chunk)| event(name(place), chunk)).collect()
        }
        Err(error) => vec![event("error", error)],
    }
}

fn event(name: &str, data: &str) -> Event {
    Event::default().event(name).data(data.replace('\r', ""))
}

/// Parts of a text that do not begin with a space: clients strip the spaces at the start of an event.
fn chunks(text: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let (mut begin, mut length) = (0, 0);
    for (place, char) in text.char_indices() {
        if length >= CHUNK && !char.is_whitespace() {
            chunks.push(&text[begin..place]);
            (begin, length) = (place, 0);
        }
        length += 1;
    }
    chunks.push(&text[begin..]);
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_join_to_the_text_and_begin_with_no_space() {
        let text = format!("{}   {}ä", "a".repeat(CHUNK), "b".repeat(CHUNK + 1));
        let chunks = chunks(&text);
        assert_eq!(chunks.concat(), text);
        assert_eq!(chunks.len(), 3);
        assert!(chunks.iter().all(|chunk| !chunk.starts_with(' ')));
        assert_eq!(super::chunks(""), [""]);
    }

    #[tokio::test]
    async fn a_call_runs_once_and_is_found_again() {
        let calls = Calls::new(&Client::anyone(), &answers());
        let call = calls.start(async { Ok("{}".to_owned()) }).unwrap();
        let mut again = calls.find(&call.id).unwrap();
        assert!(again.outcome.wait_for(Option::is_some).await.is_ok());
        assert!(calls.find("other").is_none());
    }

    #[tokio::test]
    async fn answers_are_kept_within_bytes() {
        let calls = Calls::new(&Client::anyone(), &KeptBytes::new(100, 100));
        let call = async |bytes: usize| {
            let call = calls.start(async move { Ok("x".repeat(bytes)) }).unwrap();
            let mut outcome = call.outcome.clone();
            outcome.wait_for(Option::is_some).await.unwrap();
            call.id
        };
        let (first, second, third, large) = (call(40).await, call(50).await, call(30).await, call(101).await);
        assert!(calls.find(&first).is_none(), "the oldest makes room");
        assert!(calls.find(&second).is_none() && calls.find(&third).is_none(), "for a larger one they all do");
        assert!(calls.find(&large).is_none(), "and what has no room is not kept");
        let last = call(100).await;
        assert!(calls.find(&last).is_some(), "the bytes of forgotten answers are free");
    }

    #[tokio::test]
    async fn old_calls_are_forgotten() {
        let calls = Calls::new(&Client::anyone(), &answers());
        let first = calls.start(async { Ok(String::new()) }).unwrap();
        for _ in 0..KEPT {
            calls.start(async { Ok(String::new()) }).unwrap();
        }
        assert!(calls.find(&first.id).is_none());
    }
}
