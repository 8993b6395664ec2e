//! The run's tools by the Model Context Protocol: one address for each session, in both of its present revisions.
//!
//! The state is the address's, so that the protocol itself has no sessions: each request stands for itself.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_record::{Function, Part, text_of};
use hyper::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value as Json;
use tokio::sync::oneshot;

use super::sessions::OfferedTools;
use crate::session::{ToolCallAnswer, ToolRequest};

/// Largest body of a request in bytes.
const MAX_BODY: usize = 4 << 20;
/// Key in a result's `_meta`: the environment has ended the episode.
const DONE: &str = "gymkhana/done";

/// The protocol, for all sessions.
#[derive(Clone)]
pub(super) struct McpEndpoint(StreamableHttpService<ToolServer, NeverSessionManager>);

impl McpEndpoint {
    pub(super) fn new() -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY)
            .enforce_origin_validation();
        Self(StreamableHttpService::new(|| Ok(ToolServer), Arc::default(), config))
    }

    /// Answers a request for these tools.
    pub(super) async fn answer(&self, tools: Arc<OfferedTools>, mut request: Request) -> Response {
        request.extensions_mut().insert(tools);
        self.0.handle(request).await.map(Body::new)
    }
}

/// Answers for the tools of the session that a request came to.
struct ToolServer;

/// The tools of a request's session.
fn offered(context: &RequestContext<RoleServer>) -> Result<Arc<OfferedTools>, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let tools = parts.and_then(|parts| parts.extensions.get::<Arc<OfferedTools>>());
    tools.cloned().ok_or_else(|| ErrorData::internal_error("the request belongs to no session", None))
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.with_server_info(Implementation::new("gymkhana", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = offered(&context)?.functions.iter().map(listed).collect();
        // An episode offers the same functions from its start to its end.
        Ok(ListToolsResult::with_all_items(tools)
            .with_ttl_ms(u64::from(u32::MAX))
            .with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = offered(&context)?;
        let arguments = Json::Object(request.arguments.unwrap_or_default()).to_string();
        let (reply, waiting) = oneshot::channel();
        let call = ToolRequest { name: request.name.into_owned(), arguments, reply };
        let answer = match tools.requests.send(call).await {
            Ok(()) => waiting.await.ok(),
            Err(_) => None,
        };
        let ended = || CallToolResult::error(vec![ContentBlock::text("the session has ended")]);
        Ok(answer.as_ref().map_or_else(ended, result).into())
    }
}

/// A function as a tool. A schema that is not an object allows any arguments.
fn listed(function: &Function) -> Tool {
    let schema: JsonObject = serde_json::from_str(&function.parameters).unwrap_or_else(|_| {
        let any = [("type".to_owned(), Json::from("object"))];
        any.into_iter().collect()
    });
    Tool::new(function.name.clone(), function.description.clone(), schema)
}

/// An answer as a result: text, images and sound. Of other media the result holds the type and the size.
fn result(answer: &ToolCallAnswer) -> CallToolResult {
    let blocks = answer.content.iter().map(|part| match part {
        Part::Text(text) => ContentBlock::text(text.clone()),
        Part::Image(media) => ContentBlock::image(STANDARD.encode(&media.bytes), media.mime.clone()),
        Part::Audio(media) => ContentBlock::audio(STANDARD.encode(&media.bytes), media.mime.clone()),
        Part::Video(_) | Part::Other(_) => ContentBlock::text(text_of(std::slice::from_ref(part))),
    });
    let blocks = blocks.collect();
    let mut result = if answer.failed { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    if answer.done {
        let done = [(DONE.to_owned(), Json::from(true))];
        result.meta = Some(MetaObject(done.into_iter().collect()));
    }
    result
}
