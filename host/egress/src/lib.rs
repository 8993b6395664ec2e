//! Outbound calls of plugins: models and HTTP servers, each by the rules of the run.
//!
//! The sandbox decides whether a plugin may call out at all; the rollout enforces quotas and records responses. This
//! crate adds secrets to requests and removes them from responses: neither a guest nor a record sees one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod http;
mod model;
mod rule;

use gymkhana_record::{Question, Refused, Reply};
use gymkhana_sandbox::{Outbound, OutboundError, OutboundFuture, Quota};

pub use http::HttpGrant;
pub use model::{Model, ModelServer};
pub use rule::{Rule, RuleError, SecretHeader};

/// The world as one plugin of a run may ask it.
pub struct Egress {
    /// Who completes.
    pub model: Option<std::sync::Arc<Model>>,
    /// Which servers may be asked.
    pub http: Option<HttpGrant>,
    /// How much may be asked in one episode.
    pub quota: Quota,
}

impl Outbound for Egress {
    fn quota(&self) -> Quota {
        self.quota
    }

    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async move {
            match (question, &self.model, &self.http) {
                (Question::Model(request), Some(model), _) => model.complete(request, earlier).await,
                (Question::Http(request), _, Some(grant)) => Ok(grant.send(request).await),
                _ => Ok(Reply::Refused(Refused::Denied("the run grants nothing of the kind".to_owned()))),
            }
        })
    }
}

/// The world where it is never asked: on a replay, which answers from the record and meters as the run did.
pub struct Offline(pub Quota);

impl Outbound for Offline {
    fn quota(&self) -> Quota {
        self.0
    }

    fn ask<'a>(&'a self, _question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async { Err(OutboundError("a replay asks nobody".to_owned())) })
    }
}
