//! Sessions for a harness that runs elsewhere: opened and closed by HTTP, and each an episode of the run.
//!
//! A request opens an episode and waits until its session is offered. The harness then calls the policy in the session,
//! and closes it with its answer, which the environment judges. The result of a session is kept for repeated requests.

mod http;
mod offer;
mod sessions;

pub use crate::dialect::{ApiError, ErrorClass};
pub use crate::session::SessionJournal;
pub(crate) use http::router;
pub use offer::{ExternalPrograms, SessionOffer};
pub use sessions::{Control, ControlLimits, Episodes, HarnessResult, SessionRequest};
use sessions::{answered, failed};
