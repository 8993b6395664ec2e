//! The endpoint for VerlTool's agent loop: `POST /get_observation`.
//!
//! A trajectory is a session of the tools, or an episode of the configured environment. Errors are answers with status 200,
//! since the client repeats any other request and then drops the trajectory.

mod answer;
mod delivery;
mod request;
mod tags;
mod trajectories;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use futures::future::join_all;

use crate::endpoints::RequestBody;
use crate::session::SessionTable;
use answer::{TrajectoryAnswer, answers};
use gymkhana_http::Client;
use request::wanted;
use trajectories::Trajectories;

use crate::config::VerlToolSection;
pub use tags::TagError;

/// The routes.
///
/// # Errors
/// If the section names an environment, a function or an argument that does not exist.
pub fn router(sessions: &SessionTable, section: &VerlToolSection) -> Result<Router, TagError> {
    let trajectories = Trajectories::new(sessions, section)?;
    Ok(Router::new().route("/get_observation", post(get_observation)).with_state(Arc::new(trajectories)))
}

/// Answers a batch of trajectories, each on its own.
async fn get_observation(State(trajectories): State<Arc<Trajectories>>, client: Client, request: Request) -> Response {
    let since = Instant::now();
    let read = RequestBody::read(request).await.and_then(|body| wanted(&body));
    let turns = match read {
        Ok(wanted) => {
            // The turns run on their own from here on.
            let turns: Vec<_> = wanted.into_iter().map(|wanted| trajectories.turn(&client, wanted)).collect();
            join_all(turns.iter().map(|turn| turn.answer())).await
        }
        Err(error) => vec![TrajectoryAnswer::failed(&error, true)],
    };
    answers(turns, since.elapsed())
}
