//! A build without HTTP clients: they have the types, but no values.

use std::convert::Infallible;

use ::http::header::HeaderMap;

use crate::Reachable;

pub use ::http::{Method, StatusCode, header};

/// The build has no client.
#[derive(Debug, thiserror::Error)]
#[error("this build of the host leaves out outbound requests\nhint: run `cargo xtask setup`, which builds everything")]
pub struct ClientError;

/// Time after which the client gave a server up.
pub(crate) fn bound_of(error: &Error) -> std::time::Duration {
    match error.0 {}
}

/// Refuses a client for downloads.
///
/// # Errors
/// Always.
pub fn fetching_client(_here: bool) -> Result<Client, ClientError> {
    Err(ClientError)
}

/// Refuses a client with checked addresses.
///
/// # Errors
/// Always.
pub fn checked_client(_reachable: Reachable) -> Result<Client, ClientError> {
    Err(ClientError)
}

/// A client. There is none.
pub struct Client(Infallible);

/// A request. There is none.
pub struct RequestBuilder(Infallible);

/// An answer. There is none.
pub struct Response(Infallible);

/// The error of a request. There is none.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Infallible);

impl Error {
    /// Whether there was no connection.
    pub fn is_connect(&self) -> bool {
        match self.0 {}
    }
}

impl Client {
    /// A GET request.
    pub fn get(&self, _url: impl AsRef<str>) -> RequestBuilder {
        match self.0 {}
    }

    /// A POST request.
    pub fn post(&self, _url: impl AsRef<str>) -> RequestBuilder {
        match self.0 {}
    }

    /// A request.
    pub fn request(&self, _method: Method, _url: impl AsRef<str>) -> RequestBuilder {
        match self.0 {}
    }
}

impl RequestBuilder {
    /// Adds a header.
    #[must_use]
    pub fn header<N, V>(self, _name: N, _value: V) -> Self {
        match self.0 {}
    }

    /// Adds headers.
    #[must_use]
    pub fn headers(self, _headers: HeaderMap) -> Self {
        match self.0 {}
    }

    /// Adds a body.
    #[must_use]
    pub fn body<B>(self, _body: B) -> Self {
        match self.0 {}
    }

    /// Adds a token.
    #[must_use]
    pub fn bearer_auth(self, _token: &str) -> Self {
        match self.0 {}
    }

    /// Sends the request.
    ///
    /// # Errors
    /// None, as there is no request.
    #[allow(clippy::unused_async)]
    pub async fn send(self) -> Result<Response, Error> {
        match self.0 {}
    }
}

impl Response {
    /// Status.
    pub fn status(&self) -> StatusCode {
        match self.0 {}
    }

    /// Headers.
    pub fn headers(&self) -> &HeaderMap {
        match self.0 {}
    }

    /// Length of the body in bytes.
    pub fn content_length(&self) -> Option<u64> {
        match self.0 {}
    }

    /// The next part of the body.
    ///
    /// # Errors
    /// None, as there is no answer.
    #[allow(clippy::unused_async)]
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.0 {}
    }
}

impl Error {
    /// Whether the request took too long.
    pub fn is_timeout(&self) -> bool {
        match self.0 {}
    }
}
