//! The tools `open`, `act` and `close`, by which an agent plays episodes that it names by handles.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value as Json, json};

use super::about::{LIST_TTL_MS, server};
use super::agents::{Agents, NewSession};
use super::arguments::{Act, CloseArguments, OpenArguments, read};
use super::content::{ToolCallResult, blocks, failed, position, stepped, structured};
use super::offer::host_tool;
use super::plain::{only_page, unknown_tool};
use crate::catalog::Catalog;
use crate::endpoints::{lookup, tasks};
use crate::error::{Owner, ServeError};
use crate::session::TurnAnswer;
use gymkhana_http::Client;

const INSTRUCTIONS: &str = "Opens and plays episodes. `open` gives a handle, `act` takes a turn with text or calls of the \
                            listed functions, `close` ends the episode. Give `turn` to make a repetition safe.";

const OPEN: &str = "open";
const ACT: &str = "act";
const CLOSE: &str = "close";

/// The server of all episodes of a client.
#[derive(Clone)]
pub(super) struct Handles {
    agents: Arc<Agents>,
    tools: Arc<[Tool]>,
    client: Client,
}

impl Handles {
    /// The server over these sessions.
    pub(super) fn new(agents: Arc<Agents>, client: Client) -> Self {
        let tools = tools(agents.table.catalog()).into();
        Self { agents, tools, client }
    }

    /// The server of another client.
    pub(super) fn of(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    async fn open(&self, arguments: &Json) -> Result<CallToolResult, ServeError> {
        let entered = self.agents.enter(&self.client, read::<OpenArguments>(arguments)?).await?;
        Ok(opened(&entered))
    }

    async fn act(&self, arguments: &Json) -> Result<TurnAnswer, ServeError> {
        let act: Act = read(arguments)?;
        let agent = self.agents.find(&self.client, &act.episode)?;
        agent.session.act(act.action()?).await
    }

    async fn close(&self, arguments: &Json) -> Result<CallToolResult, ServeError> {
        let CloseArguments { episode } = read(arguments)?;
        let agent = self.agents.find(&self.client, &episode)?;
        let closed = agent.session.close().await?;
        self.agents.forget(&episode);
        let record = closed.map(|closed| closed.record.to_string());
        let object = json!({ "episode": episode, "record": record });
        Ok(structured(vec![ContentBlock::text(object.to_string())], object, false))
    }
}

impl ServerHandler for Handles {
    fn get_info(&self) -> ServerConfig {
        server(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(page)?;
        let result = ListToolsResult::with_all_items(self.tools.to_vec()).with_ttl_ms(LIST_TTL_MS);
        // It is the same for all clients.
        Ok(result.with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Json::Object(request.arguments.unwrap_or_default());
        let done = match &*request.name {
            OPEN => self.open(&arguments).await,
            CLOSE => self.close(&arguments).await,
            ACT => match self.act(&arguments).await {
                Ok(step) => return acted(&step).map(Into::into),
                Err(error) => Err(error),
            },
            other => return Err(unknown_tool(other, &format!("`{OPEN}`, `{ACT}`, `{CLOSE}`"))),
        };
        done.or_else(|error| failed(&error)).map(Into::into)
    }
}

/// The result of `open`. Its text is the object; media of the first observation follow.
fn opened(entered: &NewSession) -> CallToolResult {
    let NewSession { token, opened, environment, .. } = entered;
    let functions =
        entered.agent.offer.tools.iter().filter(|tool| opened.functions().iter().any(|own| own.name == tool.name));
    let functions = functions
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": *tool.input_schema }));
    let object = json!({
        "episode": token.to_string(),
        "environment": environment,
        "task": tasks::spec(&opened.task.split, opened.task.index),
        "seed": opened.seed,
        "seat": opened.seat,
        "text": opened.text(opened.seat),
        "functions": functions.collect::<Vec<_>>(),
    });
    let own = opened.observations.iter().filter(|(seat, _)| *seat == opened.seat).map(|(_, content)| content);
    let media = blocks(own).into_iter().filter(|block| !matches!(block, ContentBlock::Text(_)));
    let content = std::iter::once(ContentBlock::text(object.to_string())).chain(media).collect();
    structured(content, object, false)
}

/// The result of `act`: what a plain tool would give, and an object with the turn's position.
fn acted(step: &TurnAnswer) -> ToolCallResult {
    let result = stepped(step)?;
    if step.fatal().is_some() {
        return Ok(result);
    }
    let answers = step.answers.iter().map(
        |answer| json!({ "name": answer.call.name, "text": answer.text(), "failed": answer.failed.map(Owner::label) }),
    );
    let mut object = position(step.turn, step.next_seat, step.done());
    object.insert("text".to_owned(), json!(step.text(step.next_seat)));
    object.insert("answers".to_owned(), answers.collect());
    let is_error = result.is_error == Some(true);
    let mut acted = structured(result.content, Json::Object(object), is_error);
    acted.meta = result.meta;
    Ok(acted)
}

/// The tools, which name the environments of the server.
fn tools(catalog: &Catalog) -> Vec<Tool> {
    let names = lookup::names(catalog);
    let about = catalog.environments().iter().map(|served| {
        let splits: Vec<String> = served.described().splits().iter().map(|split| split.name.clone()).collect();
        format!(
            "\n`{}`: {} Splits: {}.",
            served.name(),
            sentence(&served.described().info().summary),
            splits.join(", ")
        )
    });
    let about: String = about.collect();
    let open = json!({
        "type": "object",
        "properties": {
            "environment": { "type": "string", "enum": names, "description": "The first one if absent." },
            "split": { "type": "string", "description": "Split of the task; the first one if absent." },
            "task": { "type": "integer", "minimum": 0, "description": "Place of the task in its split; drawn if absent." },
            "seed": { "type": "integer", "minimum": 0, "description": "Drawn if absent." },
            "options": { "type": "object", "description": "Options of the environment." },
        },
        "additionalProperties": false,
    });
    let handle = json!({ "type": "string", "description": "Handle of `open`." });
    let call = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "arguments": { "type": "object" } },
        "required": ["name"],
        "additionalProperties": false,
    });
    let act = json!({
        "type": "object",
        "properties": {
            "episode": handle,
            "text": { "type": "string", "description": "Message to the environment." },
            "calls": { "type": "array", "items": call, "description": "Calls of functions, in their order." },
            "seat": { "type": "integer", "minimum": 0, "description": "Seat that is meant; the one to move if absent." },
            "turn": {
                "type": "integer", "minimum": 0,
                "description": "Number of the turn, from 0. A repeated turn with its number is answered again and not \
                                taken twice.",
            },
        },
        "required": ["episode"],
        "additionalProperties": false,
    });
    let close = json!({
        "type": "object", "properties": { "episode": handle }, "required": ["episode"], "additionalProperties": false,
    });
    vec![
        host_tool(OPEN, format!("Opens an episode and gives its handle and first observation.{about}"), open),
        host_tool(ACT, "Takes a turn of an episode.", act),
        host_tool(CLOSE, "Ends an episode.", close),
    ]
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}
