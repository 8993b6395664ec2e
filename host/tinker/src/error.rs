//! Errors of a Tinker-compatible server, with its URL.

use gymkhana_net::{ClientError, JsonClientError};

/// A server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TinkerError {
    /// The client cannot be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server does not answer, or refuses.
    #[error("the Tinker server at {url} cannot {doing}: {fault}\nhint: {fix}")]
    Fault {
        /// URL of the server.
        url: String,
        /// Action that failed.
        doing: &'static str,
        /// Failure of the request.
        fault: Box<JsonClientError>,
        /// Hint.
        fix: &'static str,
    },
    /// The server does not have the model.
    #[error("the Tinker server at {url} has no model `{model}`\nhint: set trainer.model to one of `{served}`")]
    Model {
        /// URL of the server.
        url: String,
        /// Requested model.
        model: String,
        /// Models of the server.
        served: String,
    },
    /// The server has several models, and none was named.
    #[error("the Tinker server at {url} has several models\nhint: set trainer.model to one of `{served}`")]
    Unnamed {
        /// URL of the server.
        url: String,
        /// Models of the server.
        served: String,
    },
    /// The stage has no reference policy.
    #[error("the stage began without a reference policy")]
    NoReference,
    /// The weights stay on the server.
    #[error("a Tinker server writes no weights for an inference server\nhint: remove policy.server")]
    NoExport,
    /// The server has no critic.
    #[error("a Tinker server trains no critic\nhint: use an algorithm without `critic`")]
    NoCritic,
}
