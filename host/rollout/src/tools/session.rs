//! An episode's tool sessions: they open at the first call, and calls of different tools run concurrently.
//!
//! A tool that traps or exceeds a limit answers with an error: its session restarts without its state, and the episode
//! continues, so that an agent cannot escape a bad reward by crashing a tool. A fault of the host drops the episode.

use std::sync::Arc;

use futures::future::join_all;

use gymkhana_record::{
    Boundary, Call, CallCost, CallSite, Content, Cost, Exchange, Failure, FailureKind, Function, NamedValue, Part, Seed,
};
use gymkhana_sandbox::{CallError, OptionalInterface, Outbound, Plugin, Spent, ToolSession};
use tracing::{Instrument, info_span};

use crate::Rollout;
use crate::metrics::WaitKind;
use crate::plugins::Tool;
use crate::replay::overrides::ReplayOverrides;
use crate::replay::recorder::ExchangeRecorder;

/// A call that a policy wrote, with its id.
pub(crate) enum NumberedCall {
    /// A call that names a function.
    Sound(Call),
    /// A call that could not be parsed.
    Malformed {
        /// The text of the call, as [`Call::malformed`] records it.
        call: Call,
        /// The parser's error, which answers the call.
        reason: String,
    },
}

impl NumberedCall {
    /// The call as the transcript records it.
    pub(crate) fn recorded(&self) -> &Call {
        match self {
            Self::Sound(call) | Self::Malformed { call, .. } => call,
        }
    }

    /// The call, if it could be parsed.
    pub(crate) fn sound(&self) -> Option<&Call> {
        match self {
            Self::Sound(call) => Some(call),
            Self::Malformed { .. } => None,
        }
    }
}

/// Answer to a call.
pub(crate) struct ToolAnswer {
    pub(crate) content: Content,
    pub(crate) failed: bool,
    pub(crate) failure: Option<Failure>,
    /// Cost of the call; `None` if the tool was not called.
    pub(crate) cost: Option<CallCost>,
    /// Outbound calls of the tool.
    pub(crate) exchanges: Vec<Exchange>,
}

/// Final views of the tools.
#[derive(Default)]
pub(crate) struct FinalViews {
    /// Fields, as `tool.field`.
    pub(crate) views: Vec<NamedValue>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) costs: Vec<CallCost>,
    pub(crate) exchanges: Vec<Exchange>,
}

impl ToolAnswer {
    /// A successful answer.
    pub(crate) fn said(text: String) -> Self {
        Self { content: vec![Part::Text(text)], failed: false, failure: None, cost: None, exchanges: vec![] }
    }

    /// An error answer with this reason.
    pub(crate) fn failed(reason: String) -> Self {
        Self { content: vec![Part::Text(reason)], failed: true, failure: None, cost: None, exchanges: vec![] }
    }
}

/// The tools of one episode.
pub(crate) struct Toolbox<'a> {
    rollout: &'a Rollout,
    sessions: Vec<Session>,
}

/// One tool's session in one episode.
pub(crate) struct Session {
    tool: Arc<Tool>,
    /// Recorder of outbound calls, if the tool can make any.
    recorder: Option<Arc<ExchangeRecorder>>,
    overrides: Arc<ReplayOverrides>,
    setup: Option<Vec<u8>>,
    seed: Seed,
    live: Option<ToolSession>,
    /// Number of restarts.
    restarts: u32,
    /// Usage of failed sessions.
    spent: Spent,
}

impl<'a> Toolbox<'a> {
    pub(crate) fn new(
        rollout: &'a Rollout,
        overrides: &Arc<ReplayOverrides>,
        seed: Seed,
        setup: &[(String, Vec<u8>)],
    ) -> Self {
        let sessions = rollout.plugins.tools.iter().map(|tool| Session::new(tool, overrides, seed, setup));
        Self { rollout, sessions: sessions.collect() }
    }

    /// Derives all randomness from this seed, from the next call on.
    pub(crate) fn reseed(&mut self, seed: Seed) {
        for session in &mut self.sessions {
            session.seed = tool_seed(seed, session.tool.bound.plugin.name());
            if let Some(live) = &mut session.live {
                live.reseed(session.seed.child(session.restarts));
            }
        }
    }

    /// Replaces the overrides and makes real outbound calls from now on.
    pub(crate) fn inject(&mut self, overrides: &Arc<ReplayOverrides>) {
        for session in &mut self.sessions {
            session.overrides = Arc::clone(overrides);
            if let Some(recorder) = &session.recorder {
                recorder.ask_the_world();
            }
        }
    }

    /// Whether every open session can be copied.
    pub(crate) fn can_be_copied(&self) -> bool {
        let copied = |session: &Session| session.tool.bound.plugin.offers(OptionalInterface::ToolSnapshot);
        self.sessions.iter().filter(|session| session.live.is_some()).all(copied)
    }

    /// Copies the tools in their states; randomness of the copies is derived from `seed`.
    pub(crate) async fn copy(&mut self, seed: Seed) -> Result<Self, Failure> {
        let mut sessions = Vec::with_capacity(self.sessions.len());
        for session in &mut self.sessions {
            sessions.push(session.copy(seed).await?);
        }
        Ok(Self { rollout: self.rollout, sessions })
    }

    pub(crate) fn functions(&self) -> Vec<Function> {
        self.sessions.iter().flat_map(|session| session.tool.functions.iter().cloned()).collect()
    }

    /// Answers a turn's calls, in order; `None` for functions that no tool offers. Different tools run concurrently;
    /// calls of one tool run in sequence, because they share its state.
    pub(crate) async fn answer(&mut self, calls: &[NumberedCall]) -> Vec<Option<ToolAnswer>> {
        let (directory, watch) = (&self.rollout.plugins.directory, &self.rollout.metrics);
        let works = self.sessions.iter_mut().enumerate().map(|(tool, session)| {
            let mine: Vec<(usize, &Call)> = calls
                .iter()
                .enumerate()
                .filter_map(|(place, call)| Some((place, call.sound()?)))
                .filter(|(_, call)| directory.get(&call.name) == Some(&tool))
                .collect();
            async move {
                let mut answers = Vec::with_capacity(mine.len());
                for (place, call) in mine {
                    let _timer = watch.time(WaitKind::Tool);
                    let tool = &session.tool.bound.plugin;
                    let span = info_span!("tool_call", tool = tool.name(), function = call.name, call = call.id);
                    answers.push((place, session.answer(call).instrument(span).await));
                }
                answers
            }
        });
        let mut answers: Vec<Option<ToolAnswer>> = calls.iter().map(|_| None).collect();
        for (place, answer) in join_all(works).await.into_iter().flatten() {
            answers[place] = Some(answer);
        }
        answers
    }

    /// The final views of the tools that were called and have one.
    pub(crate) async fn final_views(&mut self) -> FinalViews {
        let mut seen = FinalViews::default();
        for session in &mut self.sessions {
            let plugin = &session.tool.bound.plugin;
            let overrides = session.overrides.failure(&session.boundary(), &CallSite::FinalView);
            let Some(live) = session.live.as_mut().filter(|_| plugin.offers(OptionalInterface::FinalView)) else {
                continue;
            };
            let viewed = match overrides {
                Some(failure) => Err(failure),
                None => {
                    let viewed = live.final_view().await;
                    let cost = live.cost();
                    seen.costs.push(session.cost(CallSite::FinalView, cost));
                    seen.exchanges.extend(session.heard(&CallSite::FinalView));
                    viewed.map_err(|error| session.failure(CallSite::FinalView, error))
                }
            };
            match viewed {
                Ok(fields) => {
                    seen.views.extend(fields.into_iter().map(|field| NamedValue {
                        name: format!("{}.{}", plugin.name(), field.name),
                        value: field.value,
                    }));
                }
                Err(failure) => seen.failures.push(failure),
            }
        }
        seen
    }
}

fn boundary(plugin: &Plugin) -> Boundary {
    Boundary::Tool(plugin.name().to_owned())
}

/// The plugin with its outbound calls through the recorder, if it has one.
pub(crate) fn with_recorder(plugin: &Plugin, recorder: Option<&Arc<ExchangeRecorder>>) -> Plugin {
    match recorder {
        Some(recorder) => plugin.asking(Arc::clone(recorder) as Arc<dyn Outbound>),
        None => plugin.clone(),
    }
}

fn tool_seed(seed: Seed, tool: &str) -> Seed {
    seed.child("tool").child(tool)
}

impl Session {
    pub(crate) fn new(
        tool: &Arc<Tool>,
        overrides: &Arc<ReplayOverrides>,
        seed: Seed,
        setup: &[(String, Vec<u8>)],
    ) -> Self {
        let plugin = &tool.bound.plugin;
        let setup = setup.iter().find(|(tool, _)| tool == plugin.name()).map(|(_, bytes)| bytes.clone());
        Self {
            recorder: ExchangeRecorder::of(plugin, overrides.exchanges(&boundary(plugin))),
            seed: tool_seed(seed, plugin.name()),
            overrides: Arc::clone(overrides),
            setup,
            live: None,
            restarts: 0,
            spent: Spent::default(),
            tool: Arc::clone(tool),
        }
    }

    async fn copy(&mut self, seed: Seed) -> Result<Self, Failure> {
        let recorder = self.recorder.as_deref().map(ExchangeRecorder::copy);
        let plugin = &with_recorder(&self.tool.bound.plugin, recorder.as_ref());
        let seed = tool_seed(seed, plugin.name());
        let mute = |muted| [&self.recorder, &recorder].into_iter().flatten().for_each(|recorder| recorder.mute(muted));
        mute(true);
        let copied = match &mut self.live {
            None => Ok(None),
            Some(live) => match live.snapshot().await {
                Ok(snapshot) => ToolSession::restore(plugin, &snapshot, seed.child(self.restarts)).await.map(Some),
                Err(error) => Err(error),
            },
        };
        mute(false);
        let live = copied.map_err(|error| self.failure(CallSite::Fork, error))?;
        let (overrides, setup) = (Arc::clone(&self.overrides), self.setup.clone());
        let (restarts, spent) = (self.restarts, self.spent);
        Ok(Self { tool: Arc::clone(&self.tool), recorder, overrides, setup, seed, live, restarts, spent })
    }

    /// Answers one call. The answer contains failures.
    pub(crate) async fn answer(&mut self, call: &Call) -> ToolAnswer {
        let site = CallSite::tool(&call.id);
        let overrides = self.overrides.cost(&self.boundary(), &site);
        let (answer, cost) = self.try_call(call, &site).await;
        let cost = cost.map(|cost| self.cost(site.clone(), cost));
        let exchanges = self.heard(&site);
        let error = match answer {
            Ok(answer) => return ToolAnswer { cost, exchanges, ..answer },
            Err(error) => error,
        };
        let lost = error.kind != FailureKind::Refused;
        if lost {
            if let Some(failed) = self.live.take() {
                self.spent = failed.spent();
            }
            if let Some(recorded) = overrides {
                // The call is not repeated, but later calls have the same fuel left as in the recorded episode.
                self.spent.fuel += recorded.fuel.unwrap_or(0);
            }
            self.restarts += 1;
        }
        // The text depends only on the kind of failure, so it is the same on every machine and in replays.
        let reason = match error.kind {
            FailureKind::Trap => "it crashed",
            FailureKind::Budget | FailureKind::Fuel | FailureKind::Deadline => "it ran out of time",
            FailureKind::Memory => "it ran out of memory",
            FailureKind::ResultSize => "its answer was too large",
            FailureKind::Malformed => "its answer was malformed",
            FailureKind::Refused => error.message.as_str(),
            // The episode is dropped, so a policy never reads this.
            FailureKind::Neighbour | FailureKind::Capacity | FailureKind::Fault => "the host could not run it",
        };
        let loss = if lost { "; its state is lost" } else { "" };
        let failed = ToolAnswer::failed(format!("the tool failed: {reason}{loss}"));
        ToolAnswer { failure: Some(self.failure(site, error)), cost, exchanges, ..failed }
    }

    /// Calls the function, in a session that is opened if necessary. Also returns the cost if the tool was called.
    async fn try_call(&mut self, call: &Call, site: &CallSite) -> (Result<ToolAnswer, CallError>, Option<Cost>) {
        if let Some(failure) = self.overrides.failure(&self.boundary(), site) {
            return (Err(CallError::new(failure.kind, failure.message)), None);
        }
        let (session, opening) = match &mut self.live {
            Some(session) => (session, Cost::default()),
            None => {
                let bound = &self.tool.bound;
                let seed = self.seed.child(self.restarts);
                let plugin = with_recorder(&bound.plugin, self.recorder.as_ref());
                match ToolSession::open(&plugin, self.setup.as_deref(), &bound.options, seed).await {
                    Ok(mut opened) => {
                        opened.charge(self.spent);
                        let cost = opened.cost();
                        (self.live.insert(opened), cost)
                    }
                    Err(error) => return (Err(error), None),
                }
            }
        };
        let answer = session.call(call).await;
        let cost = opening + session.cost();
        let answer = answer.map(|answer| ToolAnswer {
            content: answer.content,
            failed: answer.failed,
            failure: None,
            cost: None,
            exchanges: vec![],
        });
        (answer, Some(cost))
    }

    fn cost(&self, call_site: CallSite, cost: Cost) -> CallCost {
        CallCost { at: self.boundary(), call_site, cost }
    }

    /// Outbound calls of the tool in the call that just ended.
    fn heard(&self, site: &CallSite) -> Vec<Exchange> {
        self.recorder.as_ref().map(|recorder| recorder.take(&self.boundary(), site)).unwrap_or_default()
    }

    fn boundary(&self) -> Boundary {
        boundary(&self.tool.bound.plugin)
    }

    fn failure(&self, call_site: CallSite, error: CallError) -> Failure {
        Failure { at: self.boundary(), kind: error.kind, call_site, message: error.message }
    }
}
