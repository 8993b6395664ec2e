//! Errors of policy servers.

use gymkhana_net::{ClientError, JsonClientError};
use url::Url;

/// A server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The client cannot be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server does not answer, or refuses.
    #[error("the policy server at {url} cannot {doing}: {fault}\nhint: {fix}")]
    Fault {
        /// URL of the server.
        url: Url,
        /// Action that failed.
        doing: &'static str,
        /// Failure of the request.
        fault: JsonClientError,
        /// Hint.
        fix: &'static str,
    },
    /// The server does not have the model.
    #[error("the policy server at {url} has no model `{model}`\nhint: set policy.server.name to one of `{served}`")]
    Model {
        /// URL of the server.
        url: Url,
        /// Requested model.
        model: String,
        /// Models of the server.
        served: String,
    },
    /// The server computes other log-probabilities than the trainer after a weight update.
    #[error(
        "the policy server at {url} does not compute with the weights of version {version} that it loaded: its \
         log-probabilities of a fixed text differ from the trainer's by {difference:.3} nats per token, above \
         policy.server.max_divergence = {limit}; {cause}"
    )]
    Divergence {
        /// URL of the server.
        url: Url,
        /// Version of the weights.
        version: u32,
        /// Mean absolute difference, in nats.
        difference: f64,
        /// Maximum of that difference, in nats.
        limit: f64,
        /// Likely cause, with a hint.
        cause: &'static str,
    },
    /// The server lacks a feature that the run needs.
    #[error("the policy server at {url} cannot be used: {problem}")]
    Unfit {
        /// URL of the server.
        url: Url,
        /// Problem, with a hint.
        problem: String,
    },
    /// All servers failed, and none has answered again.
    #[error("none of the {count} policy servers answers\nhint: start one of policy.server, or use --resume later")]
    NoneAnswers {
        /// Number of servers.
        count: usize,
    },
}

impl ServerError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn may_recover(&self) -> bool {
        match self {
            Self::Fault { fault, .. } => fault.may_recover(),
            Self::NoneAnswers { .. } => true,
            Self::Client(_) | Self::Model { .. } | Self::Divergence { .. } | Self::Unfit { .. } => false,
        }
    }
}
