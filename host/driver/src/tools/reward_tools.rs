//! The run's tools for a reward that calls them: sessions of its own, under the same limits.

use std::sync::Arc;

use futures::lock::Mutex;

use gymkhana_record::{Call, Function, Refused, Reply, Seed, ToolReply};
use gymkhana_sandbox::{OutboundError, OutboundFuture};

use crate::overrides::CallOverrides;
use crate::recorder::ToolCaller;
use crate::tools::session::Session;
use crate::tools::tool_set::ToolSet;

/// Tool sessions of one scoring, which open at their first call.
pub struct RewardTools {
    tools: Arc<ToolSet>,
    sessions: Mutex<Vec<Session>>,
    max_calls: u32,
}

impl RewardTools {
    /// Tools for the scoring of attempts at a task for which the environment prepared `setup`. A reward may make
    /// `max_calls` calls for each member of the group.
    #[must_use]
    pub fn new(tools: &Arc<ToolSet>, max_calls: u32, seed: Seed, setup: &[(String, Vec<u8>)]) -> Self {
        let overrides = Arc::<CallOverrides>::default();
        let sessions = tools.tools().iter().map(|tool| Session::new(tool, &overrides, seed, setup)).collect();
        Self { tools: Arc::clone(tools), sessions: Mutex::new(sessions), max_calls }
    }

    async fn answer(&self, call: &Call) -> Result<Reply, OutboundError> {
        let Some(tool) = self.tools.index_of(&call.name) else {
            let why = format!("no tool of the run offers a function `{}`", call.name);
            return Ok(Reply::Refused(Refused::NotFound(why)));
        };
        let answer = self.sessions.lock().await[tool].answer(call).await;
        match answer.failure {
            Some(failure) if failure.kind.is_hosts() => Err(OutboundError(failure.to_string())),
            _ => Ok(Reply::Tool(ToolReply { content: answer.content, failed: answer.failed })),
        }
    }
}

impl ToolCaller for RewardTools {
    fn functions(&self) -> Vec<Function> {
        self.tools.functions().cloned().collect()
    }

    fn max_calls(&self) -> u32 {
        self.max_calls
    }

    fn call<'a>(&'a self, call: &'a Call) -> OutboundFuture<'a, Reply> {
        Box::pin(self.answer(call))
    }
}
