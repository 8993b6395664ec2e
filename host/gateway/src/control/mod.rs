//! Sessions for a harness that runs elsewhere: opened and closed by HTTP, and each an episode of the run.
//!
//! A request opens an episode and waits until its session is offered. The harness then calls the policy in the session,
//! and closes it with its answer, which the environment judges. The result of a session is kept for repeated requests.

mod http;
mod sessions;

use std::sync::Arc;

use futures::future::BoxFuture;
use gymkhana_record::EpisodeId;
use serde_json::Value as Json;

pub use crate::dialect::{ApiError, ErrorClass};
use crate::program::{ProgramEnd, ProgramStartError};
use crate::server::Activity;
pub use crate::session::SessionJournal;
pub(crate) use http::router;
pub use sessions::{Control, ControlLimits, Episodes, HarnessResult, SessionRequest};
use sessions::{answered, failed};

/// The session of an episode.
#[derive(Debug, Clone)]
pub struct SessionOffer {
    /// The episode.
    pub episode: EpisodeId,
    /// Id of the session.
    pub session: String,
    /// Base URL for clients of OpenAI's protocols.
    pub openai_url: String,
    /// Base URL for clients of Anthropic's protocol.
    pub anthropic_url: String,
    /// Address of the run's tools by MCP, if the session offers them.
    pub mcp_url: Option<String>,
    /// The key.
    pub key: String,
    /// The policy's name as a model.
    pub model: String,
    /// The task, as a program of `[agent]` gets it.
    pub task: Json,
    /// The time of the last request.
    pub activity: Activity,
}

/// Programs that the host does not start.
pub trait ExternalPrograms: Send + Sync {
    /// Offers the session of an episode, and waits for the end of the program.
    fn play(&self, offer: SessionOffer) -> BoxFuture<'_, Result<ProgramEnd, ProgramStartError>>;

    /// Completes when the request for the session of this episode is given up before the session is offered.
    fn given_up(&self, episode: EpisodeId) -> BoxFuture<'_, ()>;

    /// The journal of the sessions, if they have one.
    fn journal(&self) -> Option<Arc<dyn SessionJournal>>;
}
