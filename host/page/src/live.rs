//! Server-sent events: an event for every change of the runs that a page shows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use tokio::time::sleep;

use crate::query::Query;
use crate::run::Pulse;
use crate::state::App;

/// Time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// Answers with a stream of events named `change`. The first one, `open`, says that the stream works.
pub(crate) async fn events(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    let Ok(place) = Arc::clone(app.streams()).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages wait for live updates\n").into_response();
    };
    let query = Query::parse(&query.unwrap_or_default());
    let wanted: Vec<usize> = query.all("run").filter_map(|run| run.parse().ok()).collect();
    let state = (app, wanted, None::<Vec<Pulse>>, place);
    let events = stream::unfold(state, |(app, wanted, mut seen, place)| async move {
        loop {
            let now = pulses(app.clone(), wanted.clone()).await;
            let event = match &seen {
                None => Some("open"),
                Some(seen) if *seen != now => Some("change"),
                Some(_) => None,
            };
            seen = Some(now);
            if let Some(name) = event {
                let event: Result<Event, Infallible> = Ok(Event::default().event(name).data("1"));
                return Some((event, (app, wanted, seen, place)));
            }
            sleep(INTERVAL).await;
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

async fn pulses(app: App, wanted: Vec<usize>) -> Vec<Pulse> {
    let look = move || wanted.iter().filter_map(|run| app.runs().get(*run)).map(|run| run.pulse()).collect();
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}
