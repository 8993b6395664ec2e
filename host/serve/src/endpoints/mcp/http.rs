//! An endpoint over HTTP: the SDK's service within the listener's limits, and every error in the protocol's form.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value as Json, json};

use crate::body::RequestBody;
use crate::error::{ErrorKind, ServeError};

/// Size limit of an error that is put into the protocol's form.
const MAX_ERROR: usize = 64 << 10;

/// The protocol over HTTP, for servers that are made for each request.
#[derive(Clone)]
pub(super) struct HttpEndpoint {
    config: StreamableHttpServerConfig,
    sessions: Arc<NeverSessionManager>,
}

impl HttpEndpoint {
    /// An endpoint without sessions of the protocol.
    pub(super) fn new() -> Self {
        // The listener checks hosts, origins and sizes for all endpoints.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX);
        Self { config, sessions: Arc::default() }
    }

    /// Lets a server answer a request.
    pub(super) async fn answer(&self, server: impl ServerHandler + Clone, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let body = match RequestBody::read(Request::from_parts(head.clone(), body)).await {
            Ok(body) => body,
            Err(error) => {
                let status = StatusCode::from_u16(error.kind.status()).unwrap_or(StatusCode::BAD_REQUEST);
                return refusal(status, &error);
            }
        };
        let (config, sessions) = (self.config.clone(), Arc::clone(&self.sessions));
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
        let response = service.handle(Request::from_parts(head, Body::from(body.clone()))).await;
        let (head, answer) = response.into_parts();
        let is_json = head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if is_json || !(head.status.is_client_error() || head.status.is_server_error()) {
            return Response::from_parts(head, Body::new(answer));
        }
        let text = to_bytes(Body::new(answer), MAX_ERROR).await.unwrap_or_default();
        let mut response = in_form(head.status, &String::from_utf8_lossy(&text), &body);
        if let Some(methods) = head.headers.get(header::ALLOW) {
            response.headers_mut().insert(header::ALLOW, methods.clone());
        }
        response
    }
}

/// An error that the SDK gives as text. It calls a body that it cannot read a wrong media type.
fn in_form(status: StatusCode, text: &str, body: &Bytes) -> Response {
    let json = serde_json::from_slice::<Json>(body);
    let is_unread = status == StatusCode::UNSUPPORTED_MEDIA_TYPE && text.starts_with("fail to deserialize");
    match json {
        Err(error) if is_unread => rpc_error(StatusCode::BAD_REQUEST, &Json::Null, -32700, &error.to_string(), "agent"),
        Ok(json) if is_unread => {
            let message = "the body is not one request, notification or response";
            rpc_error(StatusCode::BAD_REQUEST, id_of(&json), -32600, message, "agent")
        }
        json if status.is_server_error() => {
            rpc_error(status, json.as_ref().map_or(&Json::Null, id_of), -32603, text, "host")
        }
        json => rpc_error(status, json.as_ref().map_or(&Json::Null, id_of), -32600, text, "agent"),
    }
}

/// The id of a request, if it has one.
fn id_of(request: &Json) -> &Json {
    let id = request.get("id");
    id.filter(|id| id.is_string() || id.is_i64() || id.is_u64()).unwrap_or(&Json::Null)
}

fn rpc_error(status: StatusCode, id: &Json, code: i32, message: &str, owner: &str) -> Response {
    let mut error = json!({ "jsonrpc": "2.0" });
    // The protocol leaves out an id that is not known.
    if !id.is_null() {
        error["id"] = id.clone();
    }
    error["error"] = json!({ "code": code, "message": message, "data": { "owner": owner } });
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], error.to_string()).into_response()
}

/// An error before a request reaches the protocol, such as that of an unknown URL.
pub(crate) fn refusal(status: StatusCode, error: &ServeError) -> Response {
    let code = match error.kind {
        ErrorKind::UnknownSession | ErrorKind::UnknownName => -32602,
        ErrorKind::Failed | ErrorKind::Full | ErrorKind::Closing => -32603,
        _ => -32600,
    };
    let data = json!({ "kind": error.kind.label(), "owner": error.owner.label() });
    let body = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": error.message, "data": data } });
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn json_of(response: Response) -> (u16, Json) {
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), MAX_ERROR).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn bodies_that_are_no_request_have_the_codes_of_json_rpc() {
        let unread = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let text = "fail to deserialize request body: x";
        let (status, error) = json_of(in_form(unread, text, &Bytes::from_static(b"{"))).await;
        assert_eq!((status, &error["error"]["code"]), (400, &json!(-32700)));
        assert!(error.get("id").is_none());
        let (status, error) = json_of(in_form(unread, text, &Bytes::from_static(br#"{"id":"a"}"#))).await;
        assert_eq!((status, &error["error"]["code"], &error["id"]), (400, &json!(-32600), &json!("a")));
        let kind = in_form(unread, "Unsupported Media Type: …", &Bytes::from_static(b"{}"));
        assert_eq!(json_of(kind).await.0, 415);
    }

    #[tokio::test]
    async fn a_refusal_names_the_kind_and_the_party_at_fault() {
        let error = ServeError::agent(ErrorKind::UnknownSession, "`x` is not a session");
        let (status, json) = json_of(refusal(StatusCode::NOT_FOUND, &error)).await;
        assert_eq!((status, &json["error"]["code"]), (404, &json!(-32602)));
        assert_eq!(json["error"]["data"], json!({ "kind": "unknown-session", "owner": "agent" }));
    }
}
