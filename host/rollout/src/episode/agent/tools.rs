//! The tools and the environment of an episode as its agent program calls them by MCP.

use futures::future::BoxFuture;
use gymkhana_driver::{CallRefusal, Episode};
use gymkhana_gateway::session::{Performed, SpentLimit, ToolAnswer, Toolbox};
use gymkhana_record::{Call, Turn};

use crate::Rollout;
use crate::context::Context;
use crate::episode::state::{EpisodeState, hooks};

/// Performs the calls of an episode's program.
pub(crate) struct EpisodeTools<'e> {
    rollout: &'e Rollout,
    episode: &'e mut Episode,
    contexts: &'e mut [Context],
    /// Whether the session has a journal.
    logged: bool,
}

impl<'e> EpisodeTools<'e> {
    /// The tools of this episode. `logged` says that its session has a journal.
    pub(crate) fn of(state: &'e mut EpisodeState<'_>, logged: bool) -> Self {
        let EpisodeState { rollout, episode, policy, .. } = state;
        Self { rollout: *rollout, episode, contexts: &mut policy.contexts, logged }
    }
}

impl Toolbox for EpisodeTools<'_> {
    fn perform(&mut self, call: Call, listed: bool) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            let (begin, before) = (self.episode.data.turns.len(), self.episode.data.extent());
            let (id, name) = (call.id.clone(), call.name.clone());
            let hooks = &mut hooks(self.rollout, self.contexts);
            let limit = self.rollout.limits.calls;
            if let Err(refusal) = self.episode.answer_call(hooks, call, listed, limit).await {
                let spent = matches!(refusal, CallRefusal::Calls(_)).then_some(SpentLimit::Calls);
                return Performed::Refused { reason: refusal.to_string(), spent };
            }
            let data = &mut self.episode.data;
            // The transcript of the program takes them in, between the replies of the policy.
            let turns = data.turns.split_off(begin);
            let added = self.logged.then(|| Box::new(data.since(before).into_owned()));
            let answer = answer(&turns, &id, data.ending.is_some());
            let function = data.functions(data.seat).iter().find(|function| function.name == name);
            let cost = function.map_or(0.0, |function| function.cost);
            Performed::Answered { turns, cost, steps: data.steps, added, answer }
        })
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
