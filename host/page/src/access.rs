//! Admission of requests: the token, and the headers that keep a browser from running content.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HeaderName, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gymkhana_http::{MIN_TOKEN, TokenDigest, bearer};

use crate::query::Query;

/// Content that a browser may load: the page's own style sheet and script, and images inside of the page. Inline scripts,
/// inline styles, plugins, frames and other servers are refused.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A token that gives access, kept as its digest.
#[derive(Clone)]
pub struct AccessToken(TokenDigest);

impl AccessToken {
    /// A token of this text.
    ///
    /// # Errors
    /// If it is shorter than 16 characters, or has characters that a cookie cannot hold.
    pub fn new(text: &str) -> Result<Self, AccessError> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        if text.len() < MIN_TOKEN {
            Err(AccessError::ShortToken)
        } else if !is_plain {
            Err(AccessError::TokenCharacters)
        } else {
            Ok(Self(TokenDigest::of(text)))
        }
    }

    /// The text of a new random token.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> Result<String, AccessError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|_| AccessError::NoRandomNumbers)?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The page cannot be offered in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The token can be guessed.
    #[error("the token is too short\nhint: use at least {MIN_TOKEN} random characters")]
    ShortToken,
    /// The token does not fit into a cookie.
    #[error("the token has characters other than letters, digits and -_.~\nhint: use `openssl rand -hex 16`")]
    TokenCharacters,
    /// The system gave no random numbers for a token.
    #[error("a token cannot be made: the system has no random numbers\nhint: pass --token")]
    NoRandomNumbers,
    /// Others can reach the address.
    #[error("cannot listen on {0} without a token: other machines can reach it\nhint: pass --token")]
    NeedsToken(SocketAddr),
}

/// Rules of admission.
#[derive(Clone)]
pub struct Access {
    token: Option<AccessToken>,
    cookie: String,
}

impl Access {
    /// Rules for a server that listens at `address`.
    ///
    /// # Errors
    /// If others can reach the address and there is no token.
    pub fn new(address: SocketAddr, token: Option<AccessToken>) -> Result<Self, AccessError> {
        if !address.ip().is_loopback() && token.is_none() {
            return Err(AccessError::NeedsToken(address));
        }
        // Cookies of one host are shared by all ports.
        Ok(Self { token, cookie: format!("gymkhana-page-{}", address.port()) })
    }

    /// Decides about a request.
    fn decide(&self, request: &Request) -> Decision {
        let Some(token) = &self.token else { return Decision::Allow };
        let mut query = Query::parse(request.uri().query().unwrap_or_default());
        if let Some(given) = query.get("token").filter(|given| token.0.is_of(given)) {
            let cookie = format!("{}={given}; HttpOnly; SameSite=Strict; Path=/", self.cookie);
            query.remove("token");
            return Decision::Remember { cookie, target: query.link(request.uri().path()) };
        }
        let headers = request.headers();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let own = cookies.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value);
        if bearer(headers).into_iter().chain(own).any(|given| token.0.is_of(given)) {
            Decision::Allow
        } else {
            Decision::Refuse
        }
    }
}

/// Answer to a request.
enum Decision {
    Allow,
    /// The token was in the address: it moves into a cookie, so that it is not kept in the browser's history.
    Remember {
        cookie: String,
        target: String,
    },
    Refuse,
}

/// Admits a request or refuses it, and adds the headers of every answer.
pub(crate) async fn admit(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = match access.decide(&request) {
        Decision::Allow => next.run(request).await,
        Decision::Remember { cookie, target } => remember(&cookie, &target),
        Decision::Refuse => {
            let message = "the request has no valid token\nhint: open the address that `host page` printed\n";
            (StatusCode::UNAUTHORIZED, message).into_response()
        }
    };
    // Without any referrer a browser would not name the origin of the page's own forms either.
    let fixed: [(HeaderName, &str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn remember(cookie: &str, target: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    for (name, value) in [(SET_COOKIE, cookie), (LOCATION, target)] {
        match HeaderValue::from_str(value) {
            Ok(value) => response.headers_mut().insert(name, value),
            Err(_) => return StatusCode::BAD_REQUEST.into_response(),
        };
    }
    response
}
