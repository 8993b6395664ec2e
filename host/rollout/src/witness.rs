//! Stands between a plugin and the world: meters what it asks, writes down what it is answered, and answers a replay
//! from what was written down.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gymkhana_episode::{Boundary, Exchange, Function, Question, Refused, Reply};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Plugin, Quota, World, WorldFault, WorldFuture};

use crate::reward_tools::RewardTools;

/// Whoever stands between one plugin of one episode, or one scoring, and the world.
pub(crate) struct Witness {
    /// Who answers; none on a replay, and where the run grants only tools.
    world: Option<Arc<dyn World>>,
    tools: Option<RewardTools>,
    quota: Quota,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    /// What a replay answers from, the next first; none where the world itself is asked.
    recorded: Option<VecDeque<Exchange>>,
    /// What was asked and answered since this was last taken.
    heard: Vec<(Question, Reply)>,
    used: Quota,
}

/// Whether a plugin may ask anything that must be written down.
fn asks(plugin: &Plugin) -> bool {
    let wants = &plugin.manifest().capabilities;
    [Capability::Model, Capability::Http, Capability::Tools].iter().any(|capability| wants.contains(capability))
}

impl Witness {
    /// A witness for a plugin that may ask something; `recorded` is what a replay answers from.
    pub(crate) fn of(plugin: &Plugin, recorded: Option<VecDeque<Exchange>>) -> Option<Arc<Self>> {
        asks(plugin).then(|| Arc::new(Self::new(plugin, recorded, None, 1)))
    }

    /// A witness for a reward that scores so many members and may call these tools.
    pub(crate) fn of_reward(
        plugin: &Plugin,
        recorded: Option<VecDeque<Exchange>>,
        members: usize,
        tools: impl FnOnce() -> RewardTools,
    ) -> Option<Arc<Self>> {
        let tools = plugin.manifest().capabilities.contains(&Capability::Tools).then(tools);
        asks(plugin).then(|| Arc::new(Self::new(plugin, recorded, tools, members)))
    }

    fn new(plugin: &Plugin, recorded: Option<VecDeque<Exchange>>, tools: Option<RewardTools>, members: usize) -> Self {
        let world = plugin.granted().cloned();
        let granted = world.as_ref().map(|world| world.quota()).unwrap_or_default();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let quota = Quota {
            model_calls: granted.model_calls.saturating_mul(members),
            model_tokens: granted.model_tokens.saturating_mul(members.into()),
            http_requests: granted.http_requests.saturating_mul(members),
            tool_calls: tools.as_ref().map_or(0, |tools| tools.most_calls().saturating_mul(members)),
        };
        Self { world, tools, quota, known: Mutex::new(Known { recorded, ..Known::default() }) }
    }

    /// The same for a copy of the episode, which has used as much and goes on from the same place.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let known = Known { heard: vec![], ..self.known().clone() };
        Arc::new(Self { world: self.world.clone(), tools: None, quota: self.quota, known: Mutex::new(known) })
    }

    /// From here on the world itself is asked.
    pub(crate) fn ask_the_world(&self) {
        self.known().recorded = None;
    }

    /// Takes what was asked and answered since this was last called: in this call of the plugin.
    pub(crate) fn take(&self, at: &Boundary, during: &str) -> Vec<Exchange> {
        let heard = std::mem::take(&mut self.known().heard);
        let exchange = |(question, reply)| Exchange { at: at.clone(), during: during.to_owned(), question, reply };
        heard.into_iter().map(exchange).collect()
    }

    /// What a replay has not come to yet.
    pub(crate) fn left(&self) -> Option<VecDeque<Exchange>> {
        self.known().recorded.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers from the record, from the world or from a tool.
    async fn answer(&self, question: &Question, earlier: u32) -> Result<Reply, WorldFault> {
        let recorded = self.known().recorded.as_mut().map(VecDeque::pop_front);
        match recorded {
            Some(Some(exchange)) => Ok(exchange.reply),
            Some(None) => Err(WorldFault("the plugin asks more than it asked when this was recorded".to_owned())),
            None => match (question, &self.tools, &self.world) {
                (Question::Tool(call), Some(tools), _) => tools.call(call).await,
                (Question::Model(_) | Question::Http(_), _, Some(world)) => world.ask(question, earlier).await,
                _ => Ok(Reply::Refused(Refused::Denied("the run grants nothing of the kind".to_owned()))),
            },
        }
    }
}

impl World for Witness {
    fn quota(&self) -> Quota {
        self.quota
    }

    fn ask<'a>(&'a self, question: &'a Question, _earlier: u32) -> WorldFuture<'a, Reply> {
        Box::pin(async move {
            // What a meter refuses it refuses again on a replay: nothing is written down, however often it is asked.
            let permitted = self.known().used.permit(question, &self.quota);
            let (question, earlier) = match permitted {
                Ok(permitted) => permitted,
                Err(refused) => return Ok(Reply::Refused(refused)),
            };
            let reply = self.answer(&question, earlier).await?;
            let mut known = self.known();
            if let Reply::Model(reply) = &reply {
                known.used.model_tokens += u64::from(reply.prompt_tokens) + u64::from(reply.completion_tokens);
            }
            known.heard.push((question, reply.clone()));
            Ok(reply)
        })
    }

    fn functions(&self) -> Vec<Function> {
        self.tools.as_ref().map(RewardTools::functions).unwrap_or_default()
    }
}

/// Counting what was used against a quota.
trait Meters {
    /// Counts a question, and says how it may be asked and how many of its kind came before; an error if its quota is
    /// used up.
    fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused>;
}

impl Meters for Quota {
    fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused> {
        let mut question = question.clone();
        let (used, allowed, what) = match &mut question {
            Question::Model(request) => {
                let left = quota.model_tokens.saturating_sub(self.model_tokens);
                if left == 0 && quota.model_calls > 0 {
                    return Err(used_up(quota.model_tokens, "tokens of its model"));
                }
                request.max_tokens = request.max_tokens.min(u32::try_from(left).unwrap_or(u32::MAX));
                (&mut self.model_calls, quota.model_calls, "completions of its model")
            }
            Question::Http(_) => (&mut self.http_requests, quota.http_requests, "requests over HTTP"),
            Question::Tool(_) => (&mut self.tool_calls, quota.tool_calls, "calls of tools"),
        };
        if *used >= allowed {
            return Err(used_up(allowed.into(), what));
        }
        let earlier = *used;
        *used += 1;
        Ok((question, earlier))
    }
}

fn used_up(allowed: u64, what: &str) -> Refused {
    Refused::Denied(format!("this episode has used up its {allowed} {what}"))
}
