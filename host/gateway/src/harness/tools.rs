//! The tools and the environment of an episode as its agent program calls them by MCP.

use futures::future::BoxFuture;
use gymkhana_driver::CallRefusal;
use gymkhana_record::{Call, Turn};
use gymkhana_rollout::{AgentInstances, CallFailure, perform};

use crate::session::{Performed, SpentLimit, ToolAnswer, Toolbox};

/// Performs the calls of an episode's program.
pub(super) struct EpisodeTools<'e> {
    pub(super) instances: &'e mut dyn AgentInstances,
    /// Most calls of the episode.
    pub(super) most: u32,
    /// Whether the session has a journal.
    pub(super) logged: bool,
}

impl Toolbox for EpisodeTools<'_> {
    fn perform(&mut self, call: Call, listed: bool) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            let before = self.instances.data().extent();
            let (id, name) = (call.id.clone(), call.name.clone());
            let turns = match perform(self.instances, call, listed, self.most).await {
                Ok(turns) => turns,
                Err(failure) => return refused(&failure),
            };
            let data = self.instances.data();
            let added = self.logged.then(|| Box::new(data.since(before).into_owned()));
            let answer = answer(&turns, &id, data.ending.is_some());
            let function = data.functions(data.seat).iter().find(|function| function.name == name);
            let cost = function.map_or(0.0, |function| function.cost);
            Performed::Answered { turns, cost, steps: data.steps, added, answer }
        })
    }
}

/// A call without an answer.
fn refused(failure: &CallFailure) -> Performed {
    let reason = failure.to_string();
    match failure {
        CallFailure::Refused(CallRefusal::Calls(_)) => Performed::Refused { reason, spent: Some(SpentLimit::Calls) },
        CallFailure::Refused(CallRefusal::Room) | CallFailure::Unsent(_) => Performed::Refused { reason, spent: None },
        CallFailure::Lost(_) => Performed::Lost { reason },
    }
}

/// The answer to a call with the observations after it.
fn answer(turns: &[Turn], id: &str, done: bool) -> ToolAnswer {
    let mut answer = ToolAnswer { content: vec![], failed: false, done };
    for turn in turns {
        match turn {
            Turn::Answer { id: of, content, failed, .. } if of == id => {
                answer.content.extend(content.iter().cloned());
                answer.failed = *failed;
            }
            Turn::Observation { content, .. } => answer.content.extend(content.iter().cloned()),
            Turn::Answer { .. } | Turn::Message { .. } | Turn::Call { .. } | Turn::MalformedCall { .. } => {}
        }
    }
    answer
}
