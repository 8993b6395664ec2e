//! Authentication at an OCI registry: anonymous, with a password, or with a token from the registry's token endpoint.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_registry::PluginName;
use reqwest::header::WWW_AUTHENTICATE;
use serde::Deserialize;
use url::Url;

use crate::config::is_this_machine;
use crate::transport::{FetchError, HttpTransport, RequestParts, UnreadResponse};

/// Size limit of a token response in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// Configured credentials and obtained tokens by repository.
pub(crate) struct OciCredentials {
    /// Origins of token endpoints, besides the registry's own.
    also: Vec<Url>,
    /// Environment variable with `user:password`.
    credentials: Option<String>,
    variable: fn(&str) -> Option<String>,
    known: Mutex<HashMap<PluginName, String>>,
}

impl std::fmt::Debug for OciCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OciCredentials").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}

/// JSON of a token response.
#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

impl OciCredentials {
    pub fn new(also: Vec<Url>, credentials: Option<String>, variable: fn(&str) -> Option<String>) -> Self {
        Self { also, credentials, variable, known: Mutex::default() }
    }

    /// Name of the configured environment variable.
    pub fn variable(&self) -> Option<&str> {
        self.credentials.as_deref()
    }

    /// Authorization obtained for a repository before.
    pub fn known(&self, name: &PluginName) -> Option<String> {
        self.known.lock().ok()?.get(name).cloned()
    }

    /// Obtains the authorization that a `401` response of `registry` asks for; `None` if the scheme is unsupported or
    /// credentials are missing, or if the response came from another origin after a redirect.
    pub async fn obtain(
        &self,
        http: &HttpTransport,
        registry: &Url,
        unauthorized: &UnreadResponse,
        name: &PluginName,
    ) -> Result<Option<String>, FetchError> {
        if unauthorized.url().origin() != registry.origin() {
            return Ok(None);
        }
        let Some(challenge) = unauthorized.header(&WWW_AUTHENTICATE) else { return Ok(None) };
        let basic = self.basic();
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        let authorization = if scheme.eq_ignore_ascii_case("basic") {
            basic
        } else if scheme.eq_ignore_ascii_case("bearer") {
            Some(self.bearer(http, registry, rest, basic.as_deref()).await?)
        } else {
            None
        };
        if let (Some(authorization), Ok(mut known)) = (&authorization, self.known.lock()) {
            known.insert(name.clone(), authorization.clone());
        }
        Ok(authorization)
    }

    fn basic(&self) -> Option<String> {
        let pair = (self.variable)(self.credentials.as_ref()?)?;
        Some(format!("Basic {}", STANDARD.encode(pair.trim())))
    }

    /// Requests a token from the endpoint in the challenge. The endpoint must belong to the registry's origin or to a
    /// listed origin, and must use https if a password is sent.
    async fn bearer(
        &self,
        http: &HttpTransport,
        registry: &Url,
        challenge: &str,
        basic: Option<&str>,
    ) -> Result<String, FetchError> {
        let origin = registry.origin().ascii_serialization();
        let no_realm = || FetchError::Token { origin: origin.clone(), why: "the challenge has no realm".to_owned() };
        let realm = parameter(challenge, "realm").ok_or_else(no_realm)?;
        let not_allowed = || FetchError::Redirected { origin: origin.clone(), to: realm.to_owned() };
        let mut url: Url = realm.parse().map_err(|_| not_allowed())?;
        let is_listed = self.also.iter().any(|also| also.origin() == url.origin());
        let is_safe = url.scheme() == "https" || is_this_machine(&url) || basic.is_none();
        if !(is_listed || url.origin() == registry.origin()) || !is_safe {
            return Err(not_allowed());
        }
        for name in ["service", "scope"] {
            if let Some(value) = parameter(challenge, name) {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let parts = RequestParts { authorization: basic, ..RequestParts::default() };
        let bytes = http.fetch(&url, &parts, MAX_TOKEN).await?;
        let token = parse_token(&bytes);
        let token = token.map_err(|why| FetchError::Token { origin: url.origin().ascii_serialization(), why })?;
        Ok(format!("Bearer {token}"))
    }
}

/// Quoted parameter of a `www-authenticate` challenge.
fn parameter<'a>(challenge: &'a str, name: &str) -> Option<&'a str> {
    let rest = challenge.split(&format!("{name}=\"")).nth(1)?;
    rest.split('"').next()
}

/// Token in a response of a token endpoint. Errors do not contain the response, which may hold a secret.
fn parse_token(response: &[u8]) -> Result<String, String> {
    let invalid =
        |error: serde_json::Error| format!("invalid JSON at line {}, column {}", error.line(), error.column());
    let TokenResponse { token, access_token } = serde_json::from_slice(response).map_err(invalid)?;
    token.or(access_token).ok_or_else(|| "the response contains no token".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_responses_are_parsed_or_rejected_with_a_reason() {
        for (response, token) in [
            (r#"{"token":"a"}"#, Ok("a")),
            (r#"{"access_token":"b"}"#, Ok("b")),
            ("{}", Err("the response contains no token")),
            ("secret", Err("invalid JSON at line 1, column 1")),
        ] {
            assert_eq!(parse_token(response.as_bytes()), token.map(str::to_owned).map_err(str::to_owned), "{response}");
        }
    }

    #[test]
    fn challenge_parameters_are_quoted() {
        let challenge = r#"realm="https://a.example/token",service="b""#;
        assert_eq!(parameter(challenge, "realm"), Some("https://a.example/token"));
        assert_eq!(parameter(challenge, "service"), Some("b"));
        assert_eq!(parameter(challenge, "scope"), None);
    }
}
