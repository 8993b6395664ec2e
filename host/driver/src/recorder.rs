//! A plugin's outbound calls: quotas are enforced, answers are recorded, and a replay receives the recorded answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gymkhana_record::{Boundary, Call, CallSite, Exchange, Function, Question, Refused, Reply};
use gymkhana_registry::Capability;
use gymkhana_sandbox::{Outbound, OutboundError, OutboundFuture, Plugin, Quota};

use crate::limits::quota::Usage;

/// Recorded exchanges, the next first, each with whether its call is not repeated.
pub type RecordedExchanges = VecDeque<(Exchange, bool)>;

/// Tools that a reward may call.
pub trait ToolCaller: Send + Sync {
    /// Functions that can be called.
    fn functions(&self) -> Vec<Function>;

    /// Limit of calls for each member of a group.
    fn max_calls(&self) -> u32;

    /// Calls a function.
    fn call<'a>(&'a self, call: &'a Call) -> OutboundFuture<'a, Reply>;
}

/// Records the outbound calls of one plugin in one episode or one scoring.
pub struct ExchangeRecorder {
    /// Answers the calls; `None` if the run grants only tools.
    outbound: Option<Arc<dyn Outbound>>,
    tools: Option<Arc<dyn ToolCaller>>,
    quota: Quota,
    state: Mutex<RecorderState>,
}

#[derive(Clone, Default)]
struct RecorderState {
    /// Answers of a replay, including those of calls that are not repeated; `None` if calls are made.
    recorded: Option<RecordedExchanges>,
    /// Exchanges since they were last taken.
    heard: Vec<(Question, Reply)>,
    used: Usage,
    /// The plugin's state is being copied. Calls of that time do not belong to its episode and are refused.
    muted: bool,
}

/// Whether a plugin can make outbound calls, which are recorded.
fn asks(plugin: &Plugin) -> bool {
    let wants = &plugin.manifest().capabilities;
    [Capability::Model, Capability::Http, Capability::Tools].iter().any(|capability| wants.contains(capability))
}

/// The plugin with its outbound calls directed to the recorder, if there is one.
#[must_use]
pub fn with_recorder(plugin: &Plugin, recorder: Option<&Arc<ExchangeRecorder>>) -> Plugin {
    match recorder {
        Some(recorder) => plugin.with_outbound(Arc::clone(recorder) as Arc<dyn Outbound>),
        None => plugin.clone(),
    }
}

impl ExchangeRecorder {
    /// A recorder for an environment or a tool; `None` if the plugin cannot make outbound calls. `recorded` holds the
    /// answers of a replay.
    pub(crate) fn of(plugin: &Plugin, recorded: Option<RecordedExchanges>) -> Option<Arc<Self>> {
        asks(plugin).then(|| Arc::new(Self::new(plugin, recorded, None, 1)))
    }

    /// A recorder for a reward that scores `members` episodes and may call these tools.
    pub fn of_reward(
        plugin: &Plugin,
        recorded: Option<RecordedExchanges>,
        members: usize,
        tools: impl FnOnce() -> Arc<dyn ToolCaller>,
    ) -> Option<Arc<Self>> {
        let tools = plugin.manifest().capabilities.contains(&Capability::Tools).then(tools);
        asks(plugin).then(|| Arc::new(Self::new(plugin, recorded, tools, members)))
    }

    fn new(
        plugin: &Plugin,
        recorded: Option<RecordedExchanges>,
        tools: Option<Arc<dyn ToolCaller>>,
        members: usize,
    ) -> Self {
        let outbound = plugin.granted().cloned();
        let granted = outbound.as_ref().map(|outbound| outbound.quota()).unwrap_or_default();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let quota = Quota {
            model_calls: granted.model_calls.saturating_mul(members),
            model_tokens: granted.model_tokens.saturating_mul(members.into()),
            http_requests: granted.http_requests.saturating_mul(members),
            tool_calls: tools.as_ref().map_or(0, |tools| tools.max_calls().saturating_mul(members)),
        };
        Self { outbound, tools, quota, state: Mutex::new(RecorderState { recorded, ..RecorderState::default() }) }
    }

    /// A recorder for a copy of the episode, with the same usage and position.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let state = RecorderState { heard: vec![], ..self.state().clone() };
        Arc::new(Self { outbound: self.outbound.clone(), tools: None, quota: self.quota, state: Mutex::new(state) })
    }

    /// A recorder for an environment or a tool that has used this much of its quota.
    pub(crate) fn resumed(plugin: &Plugin, used: &Usage) -> Option<Arc<Self>> {
        let recorder = Self::of(plugin, None);
        if let Some(recorder) = &recorder {
            recorder.state().used = used.clone();
        }
        recorder
    }

    /// Used part of the plugin's quota.
    pub(crate) fn usage(&self) -> Usage {
        self.state().used.clone()
    }

    /// Refuses calls while a state is copied, because a replay does not copy it again.
    pub(crate) fn mute(&self, muted: bool) {
        self.state().muted = muted;
    }

    /// Ends the replay: later calls are made.
    pub(crate) fn end_replay(&self) {
        self.state().recorded = None;
    }

    /// Takes the exchanges since the last call of this method, which belong to this call of the plugin.
    pub fn take(&self, at: &Boundary, site: &CallSite) -> Vec<Exchange> {
        let heard = std::mem::take(&mut self.state().heard);
        let exchange = |(question, reply)| Exchange { at: at.clone(), call_site: site.clone(), question, reply };
        heard.into_iter().map(exchange).collect()
    }

    /// Recorded exchanges that a replay has not reached yet.
    #[must_use]
    pub fn left(&self) -> Option<RecordedExchanges> {
        self.state().recorded.clone()
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers from the record, from outside or from a tool.
    async fn answer(&self, question: &Question, earlier: u32) -> Result<Reply, OutboundError> {
        let recorded = self.state().recorded.as_mut().map(VecDeque::pop_front);
        match recorded {
            Some(Some((exchange, _))) => Ok(exchange.reply),
            Some(None) => {
                Err(OutboundError("replay diverged: the plugin made more outbound calls than recorded".to_owned()))
            }
            None => match (question, &self.tools, &self.outbound) {
                (Question::Tool(call), Some(tools), _) => tools.call(call).await,
                (Question::Model(_) | Question::Http(_), _, Some(outbound)) => outbound.ask(question, earlier).await,
                _ => Ok(Reply::Refused(Refused::Denied("the run does not grant this kind of call".to_owned()))),
            },
        }
    }
}

impl Outbound for ExchangeRecorder {
    fn quota(&self) -> Quota {
        self.quota
    }

    fn ask<'a>(&'a self, question: &'a Question, _earlier: u32) -> OutboundFuture<'a, Reply> {
        Box::pin(async move {
            // A refusal is repeated on a replay, so it is not recorded.
            let permitted = self.state().permit(question, &self.quota);
            let (question, earlier) = match permitted {
                Ok(permitted) => permitted,
                Err(refused) => return Ok(Reply::Refused(refused)),
            };
            let reply = self.answer(&question, earlier).await?;
            let mut state = self.state();
            let reply = state.used.accept(reply);
            state.heard.push((question, reply.clone()));
            Ok(reply)
        })
    }

    fn functions(&self) -> Vec<Function> {
        self.tools.as_ref().map(|tools| tools.functions()).unwrap_or_default()
    }
}

impl RecorderState {
    /// Counts a question against the quota, after those of calls that are not repeated.
    fn permit(&mut self, question: &Question, quota: &Quota) -> Result<(Question, u32), Refused> {
        if self.muted {
            return Err(Refused::Denied("outbound calls are refused while a state is copied".to_owned()));
        }
        while let Some((skipped, _)) =
            self.recorded.as_mut().and_then(|left| left.pop_front_if(|(_, skipped)| *skipped))
        {
            self.used.repeat(&skipped.question, &skipped.reply, quota);
        }
        self.used.permit(question, quota)
    }
}
