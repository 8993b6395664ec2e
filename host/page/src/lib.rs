//! The run page: curves, episodes and rewards of recorded and live runs, as HTML that the server renders.
//!
//! The page reads runs and changes nothing; if the program allows it, it replays episodes. What agents and plugins wrote is
//! escaped by the template engine, media are images alone, and a content security policy refuses scripts that are not the
//! page's own file.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod chart;
mod episode;
mod episodes;
mod error;
mod layout;
mod live;
mod overview;
mod query;
mod replay;
mod replayer;
mod rewards;
mod routes;
mod run;
mod server;
mod state;
mod words;

pub use access::{Access, AccessError, AccessToken};
pub use error::PageError;
pub use replayer::{ReplayRequest, Replayed, Replayer};
pub use routes::router;
pub use server::{Page, PageAddress};
