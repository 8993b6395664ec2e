//! The run's tools for a reward that checks an answer with a tool: separate sessions under the same limits.

use std::collections::HashMap;

use futures::lock::Mutex;

use gymkhana_record::{Call, Function, Refused, Reply, Seed, ToolReply};
use gymkhana_sandbox::OutboundError;

use crate::Rollout;
use crate::replay::overrides::ReplayOverrides;
use crate::tools::session::Session;

/// Tool sessions of a reward, opened on the first call.
pub(crate) struct RewardTools {
    sessions: Mutex<Vec<Session>>,
    functions: Vec<Function>,
    directory: HashMap<String, usize>,
    most_calls: u32,
}

impl RewardTools {
    /// Tools for scoring episodes of a task for which the environment prepared `setup`.
    pub(crate) fn new(rollout: &Rollout, seed: Seed, setup: &[(String, Vec<u8>)]) -> Self {
        let tools = &rollout.plugins.tools;
        let overrides = ReplayOverrides::nothing();
        Self {
            sessions: Mutex::new(tools.iter().map(|tool| Session::new(tool, &overrides, seed, setup)).collect()),
            functions: tools.iter().flat_map(|tool| tool.functions.clone()).collect(),
            directory: rollout.plugins.directory.clone(),
            most_calls: rollout.limits.calls,
        }
    }

    /// Maximum number of calls of a reward per member of a group: the same as for an agent.
    pub(crate) fn most_calls(&self) -> u32 {
        self.most_calls
    }

    /// Functions that can be called.
    pub(crate) fn functions(&self) -> Vec<Function> {
        self.functions.clone()
    }

    /// Calls a function. A failure of the tool is answered like to an agent.
    pub(crate) async fn call(&self, call: &Call) -> Result<Reply, OutboundError> {
        let Some(&tool) = self.directory.get(&call.name) else {
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
