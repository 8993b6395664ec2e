//! Errors of the page: those that keep it from starting, and those that one request gets as its answer.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::http::StatusCode;
use gymkhana_filter::FilterError;
use gymkhana_health::HealthError;
use gymkhana_http::ListenError;
use gymkhana_store::StoreError;

use crate::access::AccessError;
use crate::query::WrongOption;

/// The page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A run cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run was given twice.
    #[error("run `{0}` was given twice\nhint: give each run once")]
    Twice(PathBuf),
    /// The address needs a token, or the token cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The address cannot be bound.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Other machines could start replays.
    #[error(
        "cannot replay at {0}: other machines can reach it\nhint: leave --allow-replay out, or listen on 127.0.0.1"
    )]
    ReplayFromElsewhere(SocketAddr),
}

/// A request that gets no page.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageProblem {
    /// The address names something that does not exist.
    #[error("{0}")]
    NotFound(String),
    /// An option of the address is wrong.
    #[error(transparent)]
    Option(#[from] WrongOption),
    /// The expression of a filter is wrong.
    #[error("{0}\nhint: an example is `success and calls <= 3`")]
    Filter(#[from] FilterError),
    /// A file of the run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The figures of the run cannot be read.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The run file is not TOML.
    #[error("the run file of `{run}` cannot be read: {source}")]
    RunFile {
        /// Name of the run.
        run: String,
        /// Cause.
        source: toml::de::Error,
    },
    /// A page of another site sent a form.
    #[error("the form is not from this page\nhint: open the address that `host page` printed")]
    ForeignForm,
    /// Another replay is running.
    #[error("another replay is running\nhint: wait for it")]
    Busy,
    /// The page could not be written.
    #[error("the page could not be written: a file of the run is damaged, or the host has a fault")]
    Panicked,
}

impl PageProblem {
    /// Status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::ForeignForm => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Option(_) | Self::Filter(_) => StatusCode::BAD_REQUEST,
            Self::Store(_) | Self::Health(_) | Self::RunFile { .. } | Self::Panicked => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}
