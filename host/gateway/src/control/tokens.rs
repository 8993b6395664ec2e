//! Clients of the sessions' addresses, each with a token, which is kept as a digest.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

use crate::dialect::{ApiError, ErrorClass};

/// Shortest token in characters.
const MIN_TOKEN: usize = 16;

/// A client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client(Arc<str>);

/// A token cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "gateway.clients.{client}.token_env cannot be read: {why}\nhint: set {variable} to a random text of at least 16 \
     characters"
)]
pub struct TokenError {
    client: String,
    variable: String,
    why: &'static str,
}

/// The tokens of all clients. Without any, everyone who reaches the server is one client.
#[derive(Debug, Clone, Default)]
pub struct ClientTokens(HashMap<[u8; 32], Client>);

impl ClientTokens {
    /// Reads tokens: names of clients with their environment variables, which `variable` looks up.
    ///
    /// # Errors
    /// If a variable is missing, its token is short, or two clients have one token.
    pub fn read<'c>(
        clients: impl Iterator<Item = (&'c str, &'c str)>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TokenError> {
        let mut tokens = HashMap::new();
        for (client, env) in clients {
            let wrong = |why| TokenError { client: client.to_owned(), variable: env.to_owned(), why };
            let token = variable(env).ok_or_else(|| wrong("the variable is not set"))?;
            if token.trim().len() < MIN_TOKEN {
                return Err(wrong("the token is too short"));
            }
            if tokens.insert(digest(&token), Client(client.into())).is_some() {
                return Err(wrong("another client has the same token"));
            }
        }
        Ok(Self(tokens))
    }

    /// Whether no client has a token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The client of a request.
    pub(super) fn client(&self, headers: &HeaderMap) -> Result<Client, ApiError> {
        if self.is_empty() {
            return Ok(Client("anyone".into()));
        }
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.strip_prefix("Bearer ").or(header.strip_prefix("bearer ")));
        token.and_then(|token| self.0.get(&digest(token)).cloned()).ok_or_else(|| {
            let message = "the request has no valid token\nhint: send `authorization: Bearer TOKEN`";
            ApiError::new(ErrorClass::Unauthorized, message)
        })
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.trim().as_bytes()).into()
}
