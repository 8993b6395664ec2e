//! Who asks an OCI registry: nobody, somebody with a password, or somebody with a token that the registry's own
//! authority gave for a repository.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_registry::PluginName;
use reqwest::header::WWW_AUTHENTICATE;
use serde::Deserialize;
use url::Url;

use crate::config::is_this_machine;
use crate::http::{HttpResponse, FetchError, RequestParts, HttpTransport};

/// The largest answer with a token, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// What was obtained, by repository.
pub(crate) struct Tokens {
    also: Vec<Url>,
    /// The environment variable with `user:password`.
    credentials: Option<String>,
    variable: fn(&str) -> Option<String>,
    known: Mutex<HashMap<PluginName, String>>,
}

impl std::fmt::Debug for OciCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OciCredentials").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}

impl OciCredentials {
    pub fn new(also: Vec<Url>, credentials: Option<String>, variable: fn(&str) -> Option<String>) -> Self {
        Self { also, credentials, variable, known: Mutex::default() }
    }

    /// The variable that the user has named.
    pub fn variable(&self) -> Option<&str> {
        self.credentials.as_deref()
    }

    /// What the registry accepted for this repository before.
    pub fn known(&self, name: &PluginName) -> Option<String> {
        self.known.lock().ok()?.get(name).cloned()
    }

    /// Does what a refusal asks for; none if that cannot be done.
    pub async fn obtain(&self, web: &HttpTransport, refusal: &HttpResponse, name: &PluginName) -> Result<Option<String>, FetchError> {
        let Some(challenge) = refusal.header(&WWW_AUTHENTICATE) else { return Ok(None) };
        let basic = self.basic();
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        let authorization = if scheme.eq_ignore_ascii_case("basic") {
            basic
        } else if scheme.eq_ignore_ascii_case("bearer") {
            Some(self.bearer(web, refusal.url(), rest, basic.as_deref()).await?)
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

    /// Asks the authority that the registry names, if it is the registry itself or the user has named it.
    async fn bearer(
        &self,
        web: &HttpTransport,
        registry: &Url,
        challenge: &str,
        basic: Option<&str>,
    ) -> Result<String, FetchError> {
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let parameter = |name: &str| {
            let rest = challenge.split(&format!("{name}=\"")).nth(1)?;
            rest.split('"').next().map(str::to_owned)
        };
        let realm = parameter("realm").unwrap_or_default();
        let elsewhere = || FetchError::Elsewhere { origin: registry.origin().ascii_serialization(), to: realm.clone() };
        let mut url: Url = realm.parse().map_err(|_| elsewhere())?;
        let named = self.also.iter().any(|also| also.origin() == url.origin());
        let encrypted = url.scheme() == "https" || is_this_machine(&url) || basic.is_none();
        if !(named || url.origin() == registry.origin()) || !encrypted {
            return Err(elsewhere());
        }
        for name in ["service", "scope"] {
            if let Some(value) = parameter(name) {
                url.query_pairs_mut().append_pair(name, &value);
            }
        }
        let sent = RequestParts { authorization: basic, ..RequestParts::default() };
        let bytes = web.bytes(&url, &sent, MAX_TOKEN).await?;
        let token = serde_json::from_slice(&bytes).ok();
        let token = token.and_then(|Token { token, access_token }| token.or(access_token));
        let token = token.ok_or_else(|| FetchError::BrokeOff {
            origin: url.origin().ascii_serialization(),
            bytes: bytes.len() as u64,
            why: "it gave no token".to_owned(),
        })?;
        Ok(format!("Bearer {token}"))
    }
}
