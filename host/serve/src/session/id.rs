//! Ids of sessions: random, so that no client can guess another one's.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use crate::error::{ErrorKind, ServeError};

/// Id of a session: 128 random bits, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// A new id.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(crate) fn random() -> Result<Self, ServeError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(no_randomness)?;
        Ok(Self(bytes))
    }
}

/// A random seed for an episode whose client gives none.
///
/// # Errors
/// If the system gives no random numbers.
pub(crate) fn random_seed() -> Result<u64, ServeError> {
    getrandom::u64().map_err(no_randomness)
}

fn no_randomness(error: getrandom::Error) -> ServeError {
    ServeError::host(ErrorKind::Failed, format!("the session cannot be opened: the system has no randomness: {error}"))
}

impl Display for SessionId {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for SessionId {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let parse = || {
            let number = u128::from_str_radix(text, 16).ok()?;
            // `from_str_radix` accepts a sign.
            (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| number.to_be_bytes())
        };
        parse().map(Self).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            ServeError::agent(ErrorKind::UnknownSession, format!("`{}` is not a session", shown.escape_debug()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        let id = SessionId::random().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().len(), 32);
        for text in ["", "+0000000000000000000000000000000", "0123", "zz", "0000000000000000000000000000000g"] {
            assert_eq!(text.parse::<SessionId>().unwrap_err().kind, ErrorKind::UnknownSession, "{text}");
        }
    }
}
