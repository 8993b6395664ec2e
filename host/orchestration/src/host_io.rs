//! Waits for sockets and timers on the host's runtime, for episodes that run on the guests' threads.

use std::sync::Arc;

use gymkhana_policy::{Conversation, GenerateRequest, Generated, Policy, PolicyFuture, ScoreRequest};
use gymkhana_record::{Function, Question, Reply, Sampled};
use gymkhana_sandbox::{Outbound, OutboundFuture, Quota, run_on};
use tokio::runtime::Handle;

/// A client whose requests run on the runtime on which it was made, whichever runtime awaits them.
pub struct OnHost<T: ?Sized> {
    client: Arc<T>,
    host: Handle,
}

impl<T: ?Sized> OnHost<T> {
    /// Binds a client to the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new(client: Arc<T>) -> Self {
        Self { client, host: Handle::current() }
    }

    /// The client itself, for requests of the host's own tasks.
    pub fn client(&self) -> &T {
        &self.client
    }
}

impl<T: ?Sized> Clone for OnHost<T> {
    fn clone(&self) -> Self {
        Self { client: Arc::clone(&self.client), host: self.host.clone() }
    }
}

impl<P: Policy + 'static> Policy for OnHost<P> {
    fn generate(&self, request: GenerateRequest) -> PolicyFuture<'_, Generated> {
        let client = Arc::clone(&self.client);
        Box::pin(run_on(&self.host, async move { client.generate(request).await }))
    }

    fn score(&self, request: ScoreRequest) -> PolicyFuture<'_, Sampled> {
        let client = Arc::clone(&self.client);
        Box::pin(run_on(&self.host, async move { client.score(request).await }))
    }

    fn can_score(&self) -> bool {
        self.client.can_score()
    }

    fn release(&self, conversation: Conversation) {
        self.client.release(conversation);
    }

    fn context(&self) -> usize {
        self.client.context()
    }
}

impl Outbound for OnHost<dyn Outbound> {
    fn quota(&self) -> Quota {
        self.client.quota()
    }

    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> OutboundFuture<'a, Reply> {
        let (client, question) = (Arc::clone(&self.client), question.clone());
        Box::pin(run_on(&self.host, async move { client.ask(&question, earlier).await }))
    }

    fn functions(&self) -> Vec<Function> {
        self.client.functions()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use gymkhana_record::{HttpRequest, Refused};
    use gymkhana_sandbox::{GUEST_THREAD_NAME, GuestThreads};

    use super::*;

    /// Notes the thread on which it answers.
    #[derive(Default)]
    struct Noting(Mutex<Vec<Option<String>>>);

    impl Outbound for Noting {
        fn quota(&self) -> Quota {
            Quota::default()
        }

        fn ask<'a>(&'a self, _question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
            Box::pin(async {
                self.0.lock().unwrap().push(std::thread::current().name().map(str::to_owned));
                Ok(Reply::Refused(Refused::Denied("a test".to_owned())))
            })
        }
    }

    #[tokio::test]
    async fn requests_of_episodes_leave_the_threads_of_guests() {
        let guests = GuestThreads::start_with(1).unwrap();
        let noting = Arc::new(Noting::default());
        let on_host: Arc<dyn Outbound> = Arc::new(OnHost::new(Arc::clone(&noting) as Arc<dyn Outbound>));
        for client in [Arc::clone(&noting) as Arc<dyn Outbound>, on_host] {
            let question = Question::Http(HttpRequest {
                method: "GET".to_owned(),
                url: "http://localhost/".to_owned(),
                headers: vec![],
                body: vec![],
                timeout_ms: 1_000,
            });
            run_on(guests.handle(), async move { client.ask(&question, 0).await.map(drop) }).await.unwrap();
        }
        let threads = noting.0.lock().unwrap();
        let here = std::thread::current().name().map(str::to_owned);
        assert_eq!(threads[..], [Some(GUEST_THREAD_NAME.to_owned()), here], "by itself, and on the host");
    }
}
