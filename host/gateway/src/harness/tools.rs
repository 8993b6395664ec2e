//! The tools and the environment of an episode as its agent program calls them by MCP.

use futures::future::BoxFuture;
use gymkhana_driver::{BackendError, CallRefusal, PlacedEpisode, perform};
use gymkhana_record::{Call, Turn};

use crate::session::{CallPerformer, Performed, SpentLimit, ToolCallAnswer};

/// Performs the calls of an episode's program.
pub(super) struct EpisodeTools<'e> {
    pub(super) episode: &'e mut dyn PlacedEpisode,
    /// Most calls of the episode.
    pub(super) most: u32,
    /// Whether the session has a journal.
    pub(super) logged: bool,
}

impl CallPerformer for EpisodeTools<'_> {
    fn perform(&mut self, call: Call, listed: bool) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            let before = self.episode.data().extent();
            let (id, name) = (call.id.clone(), call.name.clone());
            let turns = match perform(self.episode, call, listed, self.most).await {
                Ok(turns) => turns,
                Err(failure) => return refused(&failure),
            };
            let data = self.episode.data();
            let added = self.logged.then(|| Box::new(data.since(before).into_owned()));
            let answer = answer(&turns, &id, data.ending.is_some());
            let function = data.functions(data.seat).iter().find(|function| function.name == name);
            let cost = function.map_or(0.0, |function| function.cost);
            Performed::Answered { turns, cost, steps: data.steps, added, answer }
        })
    }
}

/// A call without an answer.
fn refused(failure: &BackendError) -> Performed {
    let reason = failure.to_string();
    match failure {
        BackendError::Refused(CallRefusal::Calls(_)) => Performed::Refused { reason, spent: Some(SpentLimit::Calls) },
        BackendError::Lost(_) => Performed::Lost { reason },
        _ => Performed::Refused { reason, spent: None },
    }
}

/// The answer to a call with the observations after it.
fn answer(turns: &[Turn], id: &str, done: bool) -> ToolCallAnswer {
    let mut answer = ToolCallAnswer { content: vec![], failed: false, done };
    for turn in turns {
        match turn {
            Turn::Answer { id: of, content, failed, .. } if of == id => {
                answer.content.extend(content.iter().cloned());
                answer.failed = *failed;
            }
            Turn::Observation { content, .. } => answer.content.extend(content.iter().cloned()),
            Turn::Answer { .. }
            | Turn::Thought { .. }
            | Turn::Message { .. }
            | Turn::Call { .. }
            | Turn::MalformedCall { .. } => {}
        }
    }
    answer
}
