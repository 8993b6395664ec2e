//! Whom a run asks outside: models and servers for its plugins, each by its rules, and the hub for its own models.
//!
//! A run grants; this crate answers. Whether a plugin may ask at all is decided in the sandbox, how much it may ask is
//! metered in the rollout, and what it was answered is recorded there. Secrets are added here and are seen by nobody
//! else: neither a guest nor a record has them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod api;
mod client;
mod http;
mod hub;
mod model;
mod rule;
mod secret;

use gymkhana_episode::{Question, Refused, Reply};
use gymkhana_sandbox::{Quota, World, WorldFault, WorldFuture};

pub use address::{Reach, reach};
pub use api::{Api, ApiFault, Patience, Told};
pub use client::ClientError;
pub use http::HttpGrant;
pub use hub::{Commit, Hub, HubError, NameError, Progress, Repository, Revision};
pub use model::{Model, ModelServer};
pub use rule::{Rule, RuleError, SecretHeader};
pub use secret::Secret;

/// The world as one plugin of a run may ask it.
pub struct Outlet {
    /// Who completes.
    pub model: Option<std::sync::Arc<Model>>,
    /// Which servers may be asked.
    pub http: Option<HttpGrant>,
    /// How much may be asked in one episode.
    pub quota: Quota,
}

impl World for Outlet {
    fn quota(&self) -> Quota {
        self.quota
    }

    fn ask<'a>(&'a self, question: &'a Question, earlier: u32) -> WorldFuture<'a, Reply> {
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

impl World for Offline {
    fn quota(&self) -> Quota {
        self.0
    }

    fn ask<'a>(&'a self, _question: &'a Question, _earlier: u32) -> WorldFuture<'a, Reply> {
        Box::pin(async { Err(WorldFault("a replay asks nobody".to_owned())) })
    }
}
