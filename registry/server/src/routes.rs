//! Routes, authentication and rate limiting of the registry.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use axum::{Extension, Router};
use gymkhana_http::{KeyedPermit, Peer, bearer, forwarded_for, network_of};
use gymkhana_registry::{MAX_PLUGIN_BYTES, MAX_RELEASE_BYTES};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::trace::TraceLayer;

use crate::http_error::HttpError;
use crate::publish_tokens::{PublishTokens, Publisher};
use crate::rate_limit::ClientKey;
use crate::request_log::{LogToken, RequestLogEntry};
use crate::service::RegistryService;
use crate::{changes, files};

/// Size limit of a publish request in bytes: release file, empty line, component.
const MAX_PUBLISH_BYTES: usize = MAX_RELEASE_BYTES as usize + 1 + MAX_PLUGIN_BYTES;
/// Size limit of a yank request in bytes.
const MAX_YANK_BYTES: usize = 4096;

/// Routes of the registry. The extension [`Peer`] of a request holds the address of its connection.
pub(crate) fn router(service: Arc<RegistryService>) -> Router {
    let publish = put(changes::publish).fallback(files::serve).layer(RequestBodyLimitLayer::new(MAX_PUBLISH_BYTES));
    let yank = put(changes::yank).fallback(files::serve).layer(RequestBodyLimitLayer::new(MAX_YANK_BYTES));
    Router::new()
        .route("/publish", publish)
        .route("/yank", yank)
        .fallback(files::serve)
        .layer(from_fn_with_state(Arc::clone(&service), admit))
        .layer(CatchPanicLayer::new())
        .layer(from_fn_with_state(Arc::clone(&service), log_request))
        .layer(TraceLayer::new_for_http())
        .with_state(service)
}

/// Determines the client's address and writes the log entry.
async fn log_request(
    State(service): State<Arc<RegistryService>>,
    Extension(Peer(connection)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let forwarded = if service.limits.behind_proxy { forwarded_for(request.headers()) } else { None };
    let peer = forwarded.unwrap_or(connection);
    request.extensions_mut().insert(Peer(peer));
    let entry = RequestLogEntry::of_request(&request, peer);
    let mut response = next.run(request).await;
    (service.log)(&entry.complete(&mut response));
    response
}

/// Authenticates, then applies the rate limits: a valid token is not affected by anonymous clients of its network.
async fn admit(
    State(service): State<Arc<RegistryService>>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    let credential = Credential::of(request.headers(), &service.tokens)?;
    let client = match &credential {
        Credential::Valid(publisher) => ClientKey::Token(publisher.number.clone()),
        Credential::Missing | Credential::Invalid => ClientKey::Anonymous(network_of(peer)),
    };
    if !service.limiter.allows_request(client) {
        return Err(HttpError::too_many_requests("too many requests\nhint: wait a moment"));
    }
    if request.method() != Method::PUT {
        return Ok(next.run(request).await);
    }
    let Credential::Valid(publisher) = credential else { return Err(unauthorized(&service, &credential, peer)) };
    let token = LogToken(publisher.number.clone());
    let mut response = match admit_change(&service, &publisher) {
        Ok(_permit) => {
            request.extensions_mut().insert(publisher);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    response.extensions_mut().insert(token);
    Ok(response)
}

/// Counts an invalid token and returns the error of its request.
fn unauthorized(service: &RegistryService, credential: &Credential, peer: IpAddr) -> HttpError {
    if matches!(credential, Credential::Invalid) && !service.limiter.allows_invalid_token(peer) {
        return HttpError::too_many_requests("too many invalid tokens\nhint: wait some minutes");
    }
    let message = "a valid token of this registry is required\nhint: send `authorization: Bearer TOKEN`; the registry's \
                   maintainer creates tokens";
    HttpError::new(StatusCode::UNAUTHORIZED, message)
}

/// Applies the limits of a token's changes. The returned permit covers the upload, so a slow upload occupies only its own
/// token's permits.
fn admit_change(service: &RegistryService, publisher: &Publisher) -> Result<KeyedPermit<String>, HttpError> {
    if !service.limiter.allows_change(&publisher.number) {
        return Err(HttpError::too_many_requests("too many changes with this token\nhint: wait a minute"));
    }
    let permit = service.uploads.try_acquire(publisher.number.clone());
    permit.ok_or_else(|| {
        HttpError::too_many_requests("too many concurrent uploads with this token\nhint: wait until one has finished")
    })
}

/// Credential of a request.
enum Credential {
    Missing,
    Invalid,
    Valid(Publisher),
}

impl Credential {
    fn of(headers: &HeaderMap, tokens: &PublishTokens) -> Result<Self, HttpError> {
        let Some(token) = bearer(headers) else { return Ok(Self::Missing) };
        let publisher = tokens.find(token).map_err(|error| HttpError::internal(&error))?;
        Ok(publisher.map_or(Self::Invalid, Self::Valid))
    }
}
