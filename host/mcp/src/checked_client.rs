//! An HTTP client that checks answers by server-sent events like the lines of a process.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::json;
use sse_stream::Sse;

use crate::message_check::{MessageFault, unreadable};

/// Code of the error that takes the place of an unreadable answer; the session then ends.
const PARSE_ERROR: i32 = -32700;

/// The client of a session.
#[derive(Clone)]
pub(crate) struct CheckedClient {
    client: reqwest::Client,
    fault: MessageFault,
}

type TransportFailure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type EventStream = BoxStream<'static, Result<Sse, SseError>>;

impl CheckedClient {
    pub(crate) fn new(client: reqwest::Client, fault: MessageFault) -> Self {
        Self { client, fault }
    }

    /// Replaces unreadable answers to a request by an error, which ends its wait.
    fn checked(&self, response: StreamableHttpPostResponse, id: Option<RequestId>) -> StreamableHttpPostResponse {
        match (response, id) {
            (StreamableHttpPostResponse::Sse(events, session), Some(id)) => {
                let fault = self.fault.clone();
                let check = move |event: Result<Sse, SseError>| event.map(|event| readable(event, &id, &fault));
                StreamableHttpPostResponse::Sse(events.map(check).boxed(), session)
            }
            (other, _) => other,
        }
    }
}

/// An event as it is, or an error that answers the request.
fn readable(mut event: Sse, id: &RequestId, fault: &MessageFault) -> Sse {
    if let Some(reason) = event.data.as_ref().and_then(|data| unreadable(data.as_bytes())) {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": PARSE_ERROR, "message": reason}});
        event.data = Some(error.to_string());
        fault.set(reason);
    }
    event
}

/// Id of a request; none for other messages.
fn id_of(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

impl StreamableHttpClient for CheckedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, TransportFailure> {
        let id = id_of(&message);
        let response = self.client.post_message(uri, message, session, auth, headers).await?;
        Ok(self.checked(response, id))
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, TransportFailure> {
        let id = id_of(&message);
        let posted = self.client.post_message_with_response_limits(uri, message, session, auth, headers, limits);
        Ok(self.checked(posted.await?, id))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<(), TransportFailure> {
        self.client.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<EventStream, TransportFailure> {
        self.client.get_stream(uri, session, last_event, auth, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<EventStream, TransportFailure> {
        self.client.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most).await
    }
}
