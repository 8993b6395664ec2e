//! The tools of one episode, whose state the URL or the process implies.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value as Json, json};

use super::about::{LIST_TTL_MS, server};
use super::agents::Agent;
use super::content::{ToolCallResult, failed, observed, stepped};
use super::offer::OBSERVE;
use crate::endpoints::speech::{self, SAY};
use crate::error::ServeError;
use crate::session::TurnRequest;

const INSTRUCTIONS: &str = "The tools of one episode. `observe`, where it is listed, shows the task. The result of a turn \
                            that ends the episode has `done` in its metadata; later turns are refused.";

/// The server of one episode.
#[derive(Clone)]
pub(super) struct Plain {
    agent: Arc<Agent>,
}

impl Plain {
    /// The server of this episode.
    pub(super) fn new(agent: Arc<Agent>) -> Self {
        Self { agent }
    }
}

impl ServerHandler for Plain {
    fn get_info(&self) -> ServerConfig {
        server(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(page)?;
        let tools = self.agent.offer.tools.clone();
        // The URL belongs to one client.
        let result = ListToolsResult::with_all_items(tools).with_ttl_ms(LIST_TTL_MS);
        Ok(result.with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let called = match turn(context.meta.get("turn")) {
            Ok(turn) => self.agent.call(&request.name, request.arguments.unwrap_or_default(), turn).await,
            Err(error) => failed(&error),
        };
        called.map(Into::into)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.agent.offer.tools.iter().find(|tool| tool.name == name).cloned()
    }
}

/// Refuses a page that no list has given.
pub(super) fn only_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor) {
        Some(_) => Err(ErrorData::invalid_params("the list has one page\nhint: ask without a cursor", None)),
        None => Ok(()),
    }
}

/// The number of the turn that a client means, which makes a repetition safe.
fn turn(number: Option<&Json>) -> Result<Option<u64>, ServeError> {
    match number {
        None | Some(Json::Null) => Ok(None),
        Some(number) => {
            let wrong = || ServeError::bad_input("`_meta.turn` is invalid: it must be an integer from 0");
            number.as_u64().map(Some).ok_or_else(wrong)
        }
    }
}

/// The error of a tool that is not listed.
pub(super) fn unknown_tool(name: &str, known: &str) -> ErrorData {
    let name: String = name.chars().take(64).collect();
    let message = format!("Unknown tool: {}\nhint: the tools are {known}", name.escape_debug());
    ErrorData::invalid_params(message, Some(json!({ "owner": "agent" })))
}

impl Agent {
    /// Calls a tool of the episode.
    async fn call(&self, name: &str, arguments: JsonObject, turn: Option<u64>) -> ToolCallResult {
        let action = match name {
            SAY if self.offer.says => match speech::turn(arguments) {
                Ok(action) => action,
                Err(mistake) => return failed(&ServeError::bad_input(mistake)),
            },
            OBSERVE if self.offer.observes => {
                return match self.session.observed().await {
                    Ok(seen) => Ok(observed(&seen)),
                    Err(error) => failed(&error),
                };
            }
            _ if self.offer.has(name) => TurnRequest::call(name, &Json::Object(arguments)),
            _ => return Err(unknown_tool(name, &self.offer.names())),
        };
        match self.session.act(TurnRequest { turn, ..action }).await {
            Ok(step) => stepped(&step),
            Err(error) => failed(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_a_number_from_0() {
        assert_eq!(turn(None), Ok(None));
        assert_eq!(turn(Some(&json!(3))), Ok(Some(3)));
        for wrong in [json!(-1), json!("3"), json!(0.5)] {
            assert!(turn(Some(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_tool_is_named_without_its_control_characters() {
        let error = unknown_tool("fly\u{1b}[2J", "`say`");
        assert_eq!(error.message, "Unknown tool: fly\\u{1b}[2J\nhint: the tools are `say`");
    }
}
