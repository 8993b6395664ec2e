//! Outbound calls of plugins: models and HTTP servers, restricted by the rules of the run.
//!
//! The sandbox decides whether a plugin may make outbound calls; the rollout enforces quotas and records responses. This
//! crate adds secrets to requests and removes them from responses, so that neither a guest nor a record contains one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod http;
mod model;

use gymkhana_record::{Question, Refused, Reply};
use gymkhana_sandbox::{Outbound, OutboundError, OutboundFuture, Quota};

pub use http::HttpGrant;
pub use model::{CompletionSource, ModelServer};

/// Outbound client of one plugin in a run.
pub struct Egress {
    /// Model for completions.
    pub model: Option<std::sync::Arc<CompletionSource>>,
    /// Allowed HTTP servers.
    pub http: Option<HttpGrant>,
    /// Limits per episode.
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
                _ => Ok(Reply::Refused(Refused::Denied("the run does not grant this capability".to_owned()))),
            }
        })
    }
}

/// Outbound client of a replay, which answers from the record and enforces the quota of the run.
pub struct Offline(pub Quota);

impl Outbound for Offline {
    fn quota(&self) -> Quota {
        self.0
    }

    fn ask<'a>(&'a self, _question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async { Err(OutboundError("a replay makes no outbound calls".to_owned())) })
    }
}
