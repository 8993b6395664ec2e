//! The addresses below a session, and the protocol of each.

use hyper::{HeaderMap, Method};

use crate::dialect::Dialect;

/// What an address is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiEndpoint {
    /// A reply of the policy.
    Reply(Dialect),
    /// The number of a prompt's tokens.
    Count(Dialect),
    /// The list of models.
    Models(Dialect),
    /// One model.
    Model(Dialect, String),
}

impl ApiEndpoint {
    /// The endpoint of a path behind the session, without `v1/`; `None` for unknown ones.
    pub(super) fn of(method: &Method, path: &str, headers: &HeaderMap) -> Option<Self> {
        let path = path.strip_prefix("v1/").unwrap_or(path).trim_end_matches('/');
        let listed = listing_dialect(headers);
        match (method.as_str(), path) {
            ("POST", "chat/completions") => Some(Self::Reply(Dialect::ChatCompletions)),
            ("POST", "responses") => Some(Self::Reply(Dialect::Responses)),
            ("POST", "messages") => Some(Self::Reply(Dialect::Messages)),
            ("POST", "responses/input_tokens") => Some(Self::Count(Dialect::Responses)),
            ("POST", "messages/count_tokens") => Some(Self::Count(Dialect::Messages)),
            ("GET", "models") => Some(Self::Models(listed)),
            ("GET", path) => path.strip_prefix("models/").map(|name| Self::Model(listed, name.to_owned())),
            _ => None,
        }
    }

    /// The protocol of an address, for errors.
    pub(super) fn dialect(path: &str, headers: &HeaderMap) -> Dialect {
        if path.contains("messages") { Dialect::Messages } else { listing_dialect(headers) }
    }
}

/// The protocol of a list of models, which both vendors have at the same path.
fn listing_dialect(headers: &HeaderMap) -> Dialect {
    if headers.contains_key("anthropic-version") { Dialect::Messages } else { Dialect::ChatCompletions }
}
