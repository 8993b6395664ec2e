//! Tokens of clients: read from the environment at the start, and kept as digests.

use std::collections::{BTreeMap, HashMap};

use gymkhana_registry::Digest;

use crate::client::Client;
use crate::config::ClientSection;

/// Shortest token in characters.
const MIN_TOKEN: usize = 16;

/// A token cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "clients.{client}.token_env cannot be read: {why}\nhint: set {variable} to a random text of at least 16 characters"
)]
pub struct TokenError {
    client: String,
    variable: String,
    why: &'static str,
}

/// The tokens of all clients.
pub(super) struct Tokens(HashMap<Digest, Client>);

impl Tokens {
    /// Reads the tokens by `variable`, which looks up environment variables.
    ///
    /// # Errors
    /// If a variable is missing or its token is short, or two clients have one token.
    pub(super) fn read(
        clients: &BTreeMap<String, ClientSection>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, TokenError> {
        let mut tokens = HashMap::new();
        for (client, section) in clients {
            let wrong = |why| TokenError { client: client.clone(), variable: section.token_env.clone(), why };
            let token = variable(&section.token_env).ok_or_else(|| wrong("the variable is not set"))?;
            if token.trim().len() < MIN_TOKEN {
                return Err(wrong("the token is too short"));
            }
            if tokens.insert(Digest::of(token.trim().as_bytes()), Client::new(client)).is_some() {
                return Err(wrong("another client has the same token"));
            }
        }
        Ok(Self(tokens))
    }

    /// Whether no client has a token: everyone is one client.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The client of a token.
    pub(super) fn client(&self, token: &str) -> Option<Client> {
        self.0.get(&Digest::of(token.trim().as_bytes())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_token_of_its_own() {
        let section = |variable: &str| ClientSection { token_env: variable.to_owned() };
        let clients =
            |one: &str, other: &str| BTreeMap::from([("a".to_owned(), section(one)), ("b".to_owned(), section(other))]);
        let variable = |name: &str| match name {
            "ONE" => Some("0123456789abcdef".to_owned()),
            "TWO" => Some("fedcba9876543210\n".to_owned()),
            "SHORT" => Some("0123".to_owned()),
            _ => None,
        };
        let tokens = Tokens::read(&clients("ONE", "TWO"), variable).unwrap();
        assert_eq!(tokens.client("0123456789abcdef"), Some(Client::new("a")));
        assert_eq!(tokens.client("fedcba9876543210"), Some(Client::new("b")));
        assert_eq!(tokens.client("0123456789abcdeg"), None);
        let wrong = |one: &str, other: &str| Tokens::read(&clients(one, other), variable).err().unwrap().to_string();
        assert!(wrong("ONE", "ONE").contains("another client has the same token"));
        assert!(wrong("ONE", "SHORT").contains("clients.b.token_env cannot be read: the token is too short"));
        assert!(wrong("NONE", "ONE").ends_with("hint: set NONE to a random text of at least 16 characters"));
    }
}
