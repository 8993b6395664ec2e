//! Questions to a trainer or server, and its replies: signed, each for one question.

use std::time::Duration;

use async_nats::client::PublishErrorKind;
use async_nats::{Client, Message, StatusCode, Subject};
use bytes::Bytes;
use futures::StreamExt;
use gymkhana_registry::Digest;
use gymkhana_waits::{Counterpart, within};

use crate::dropped::Dropped;
use crate::signature::{OwnerKey, Signer};

/// Where the reply to a message goes.
#[derive(Debug, Clone)]
pub(crate) struct ReplyTo {
    subject: Subject,
    /// Digest of the message.
    question: Digest,
}

impl ReplyTo {
    /// The sender of a message that waits for a reply.
    pub fn of(message: &Message) -> Option<Self> {
        let subject = message.reply.clone()?;
        Some(Self { subject, question: Digest::of(&message.payload) })
    }

    /// The signed reply with this body; `None` if the key cannot sign.
    pub fn sign(&self, signer: &Signer, body: &[u8]) -> Option<Bytes> {
        signer.state(&self.question, body)
    }

    /// Sends a signed reply. A sender that does not get it asks again.
    pub async fn send(self, client: &Client, reply: Bytes) {
        if let Err(error) = client.publish(self.subject, reply).await {
            tracing::debug!("a reply was not sent: {error}");
        }
    }
}

/// Where a worker asks its trainer or server.
pub(crate) struct OwnerConnection {
    pub client: Client,
    pub key: OwnerKey,
    pub dropped: Dropped,
}

/// Outcome of a question that was sent once.
#[derive(Debug)]
pub(crate) enum SendOutcome {
    Answered(Bytes),
    /// The owner or the bus has no connection.
    Unreachable,
    /// No answer came in time.
    Silent,
    /// The bus takes no messages of this size.
    TooLarge,
}

impl OwnerConnection {
    /// Sends a question once. Answers that the owner did not give to this question are dropped. A bus that takes no bytes is
    /// as silent as an owner that does not answer.
    pub async fn ask(&self, subject: String, question: Bytes, bound: Duration) -> SendOutcome {
        within(Counterpart::Owner, bound, self.ask_once(subject, question)).await.unwrap_or(SendOutcome::Silent)
    }

    async fn ask_once(&self, subject: String, question: Bytes) -> SendOutcome {
        let (inbox, asked) = (self.client.new_inbox(), Digest::of(&question));
        let Ok(mut answers) = self.client.subscribe(inbox.clone()).await else { return SendOutcome::Unreachable };
        if let Err(error) = self.client.publish_with_reply(subject, inbox, question).await {
            return if error.kind() == PublishErrorKind::MaxPayloadExceeded {
                SendOutcome::TooLarge
            } else {
                SendOutcome::Unreachable
            };
        }
        while let Some(answer) = answers.next().await {
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return SendOutcome::Unreachable;
            }
            match self.key.read(&asked, &answer.payload) {
                Some(body) => return SendOutcome::Answered(answer.payload.slice_ref(body)),
                None => self.dropped.add("a reply", "its signature does not belong to it"),
            }
        }
        SendOutcome::Unreachable
    }
}
