//! Tokens of clients: read from the environment at the start, kept as digests, compared in constant time.

use std::fmt;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::client::Client;

/// Shortest token in characters.
pub const MIN_TOKEN: usize = 16;

/// SHA-256 of a token without the white space around it.
#[derive(Clone)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.trim().as_bytes()).into())
    }

    /// Whether a text is the token, in a time that does not depend on the token.
    #[must_use]
    pub fn is_of(&self, text: &str) -> bool {
        self.0.ct_eq(&Self::of(text).0).into()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

/// Whether two texts are equal, in a time that depends on their lengths alone.
#[must_use]
pub fn is_same(own: &str, given: &str) -> bool {
    own.as_bytes().ct_eq(given.as_bytes()).into()
}

/// The token of an `authorization: Bearer TOKEN` header.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A token cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} cannot be read: {why}\nhint: set {variable} to a random text of at least {MIN_TOKEN} characters")]
pub struct TokenError {
    key: String,
    variable: String,
    why: &'static str,
}

/// The tokens of all clients. Without any, everyone who reaches the server is one client.
#[derive(Debug, Clone, Default)]
pub struct ClientTokens(Vec<(TokenDigest, Client)>);

impl ClientTokens {
    /// Reads tokens: names of clients with their environment variables, which `variable` looks up. `section` is the
    /// settings' section with the clients.
    ///
    /// # Errors
    /// If a variable is missing, its token is short, or two clients have one token.
    pub fn read<'c>(
        section: &str,
        clients: impl Iterator<Item = (&'c str, &'c str)>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TokenError> {
        let mut tokens = Self::default();
        for (client, env) in clients {
            let key = format!("{section}.{client}.token_env");
            let wrong = |why| TokenError { key: key.clone(), variable: env.to_owned(), why };
            let token = variable(env).ok_or_else(|| wrong("the variable is not set"))?;
            if token.trim().len() < MIN_TOKEN {
                return Err(wrong("the token is too short"));
            }
            if tokens.find(&token).is_some() {
                return Err(wrong("another client has the same token"));
            }
            tokens.0.push((TokenDigest::of(&token), Client::new(client)));
        }
        Ok(tokens)
    }

    /// The client of a request; `None` if it needs a token and has no valid one.
    #[must_use]
    pub fn client(&self, headers: &HeaderMap) -> Option<Client> {
        if self.0.is_empty() { Some(Client::anyone()) } else { self.find(bearer(headers)?) }
    }

    /// The client of a token. All digests are compared.
    fn find(&self, token: &str) -> Option<Client> {
        let given = TokenDigest::of(token);
        let same = |own: &TokenDigest| bool::from(own.0.ct_eq(&given.0));
        self.0.iter().fold(None, |found, (own, client)| if same(own) { Some(client.clone()) } else { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_token_of_its_own() {
        let variable = |name: &str| match name {
            "ONE" => Some("0123456789abcdef".to_owned()),
            "TWO" => Some("fedcba9876543210\n".to_owned()),
            "SHORT" => Some("0123".to_owned()),
            _ => None,
        };
        let read = |one, other| ClientTokens::read("clients", [("a", one), ("b", other)].into_iter(), variable);
        let tokens = read("ONE", "TWO").unwrap();
        let client = |authorization: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())]);
            tokens.client(&headers)
        };
        assert_eq!(client("Bearer 0123456789abcdef"), Some(Client::new("a")));
        assert_eq!(client("bearer fedcba9876543210"), Some(Client::new("b")));
        for wrong in ["Bearer 0123456789abcdeg", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef"] {
            assert_eq!(client(wrong), None, "{wrong}");
        }
        assert_eq!(tokens.client(&HeaderMap::new()), None);
        assert_eq!(ClientTokens::default().client(&HeaderMap::new()), Some(Client::anyone()));
        let wrong = |one, other| read(one, other).err().unwrap().to_string();
        assert!(wrong("ONE", "ONE").contains("another client has the same token"));
        assert!(wrong("ONE", "SHORT").starts_with("clients.b.token_env cannot be read: the token is too short"));
        assert!(wrong("NONE", "ONE").ends_with("hint: set NONE to a random text of at least 16 characters"));
    }

    #[test]
    fn texts_are_compared_whole() {
        assert!(is_same("gk-0123", "gk-0123"));
        for other in ["gk-0124", "gk-012", "gk-01234", ""] {
            assert!(!is_same("gk-0123", other) && !TokenDigest::of("gk-0123").is_of(other), "{other}");
        }
    }
}
