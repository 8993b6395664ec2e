//! Admission of requests: the name of the server, the token, and the headers that keep a browser from running content.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderName, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gymkhana_registry::Digest;
use subtle::ConstantTimeEq;

use crate::query::Query;

/// Shortest token in characters.
const MIN_TOKEN: usize = 16;

/// Content that a browser may load: the page's own style sheet and script, and images inside of the page. Inline scripts,
/// inline styles, plugins, frames and other servers are refused.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A token that gives access, kept as its digest.
#[derive(Clone)]
pub struct Token(Digest);

impl Token {
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
            Ok(Self(Digest::of(text.as_bytes())))
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

    /// Whether a text is the token, in a time that does not depend on the text's content.
    fn is(&self, text: &str) -> bool {
        let given = Digest::of(text.as_bytes()).to_string();
        self.0.to_string().as_bytes().ct_eq(given.as_bytes()).into()
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
    token: Option<Token>,
    /// Whether requests must name this machine, so that a foreign name which leads to it is refused.
    only_local_names: bool,
    cookie: String,
}

impl Access {
    /// Rules for a server that listens at `address`.
    ///
    /// # Errors
    /// If others can reach the address and there is no token.
    pub fn new(address: SocketAddr, token: Option<Token>) -> Result<Self, AccessError> {
        let is_local = address.ip().is_loopback();
        if !is_local && token.is_none() {
            return Err(AccessError::NeedsToken(address));
        }
        // Cookies of one host are shared by all ports.
        Ok(Self { token, only_local_names: is_local, cookie: format!("gymkhana-page-{}", address.port()) })
    }

    fn allows_host(&self, headers: &HeaderMap) -> bool {
        if !self.only_local_names {
            return true;
        }
        headers.get(HOST).and_then(|host| host.to_str().ok()).is_some_and(|host| is_loopback(without_port(host)))
    }

    /// Decides about a request.
    fn decide(&self, request: &Request) -> Decision {
        let Some(token) = &self.token else { return Decision::Allow };
        let mut query = Query::parse(request.uri().query().unwrap_or_default());
        if let Some(given) = query.get("token").filter(|given| token.is(given)) {
            let cookie = format!("{}={given}; HttpOnly; SameSite=Strict; Path=/", self.cookie);
            query.remove("token");
            return Decision::Remember { cookie, target: query.link(request.uri().path()) };
        }
        let headers = request.headers();
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|header| header.strip_prefix("Bearer "));
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let cookies = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let mut own = cookies.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value);
        if bearer.is_some_and(|given| token.is(given)) || own.any(|given| token.is(given)) {
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

/// The host of a host and port.
fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Admits a request or refuses it, and adds the headers of every answer.
pub(crate) async fn admit(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let mut response = if !access.allows_host(request.headers()) {
        let message = "the request's `Host` is not this machine\nhint: open the address that `host page` printed\n";
        (StatusCode::FORBIDDEN, message).into_response()
    } else {
        match access.decide(&request) {
            Decision::Allow => next.run(request).await,
            Decision::Remember { cookie, target } => remember(&cookie, &target),
            Decision::Refuse => {
                let message = "the request has no valid token\nhint: open the address that `host page` printed\n";
                (StatusCode::UNAUTHORIZED, message).into_response()
            }
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
