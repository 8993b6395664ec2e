//! HTTP as the host's clients use it. Without the feature `client`, no client can be set up.

#[cfg(feature = "client")]
mod connect;
#[cfg(not(feature = "client"))]
mod left_out;

pub use ::http::{Method, StatusCode, header};
#[cfg(feature = "client")]
pub use connect::{ClientError, checked_client, fetching_client};
#[cfg(not(feature = "client"))]
pub use left_out::{Client, ClientError, Error, RequestBuilder, Response, checked_client, fetching_client};
#[cfg(feature = "client")]
pub use reqwest::{Client, Error, RequestBuilder, Response};
