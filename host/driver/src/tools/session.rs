//! A tool's session in one episode: it opens at the first call and restarts after a failure.
//!
//! A tool that traps or exceeds a limit answers with an error. Its session restarts without its state and the episode
//! continues, so that an agent cannot escape a bad reward by crashing a tool. A fault of the host drops the episode.

use std::sync::Arc;

use gymkhana_record::{
    Boundary, Call, CallCost, CallSite, Content, Cost, Exchange, Failure, FailureKind, LogEntry, NamedValue, Part, Seed,
};
use gymkhana_sandbox::{CallError, OptionalInterface, Plugin, Snapshot, Spent, ToolSession};

use crate::limits::ByteBudget;
use crate::limits::log::LogRecorder;
use crate::overrides::{CallOverrides, RecordedAnswer};
use crate::recorder::{ExchangeRecorder, with_recorder};
use crate::saved::session::{NotSaved, SavedSession};
use crate::tools::tool_set::Tool;

/// Reason of a failed call whose answer the record has no room for.
const EPISODE_IS_FULL: &str = "the episode has no room for its answer";

/// Answer to a call.
pub(crate) struct ToolAnswer {
    pub(crate) content: Content,
    pub(crate) failed: bool,
    pub(crate) failure: Option<Failure>,
    /// Cost of the call; `None` if no plugin was called.
    pub(crate) cost: Option<CallCost>,
    /// Outbound calls of the tool.
    pub(crate) exchanges: Vec<Exchange>,
    /// Lines that the tool logged.
    pub(crate) logs: Vec<LogEntry>,
}

impl ToolAnswer {
    /// Answer of a successful call.
    pub(crate) fn success(text: String) -> Self {
        Self {
            content: vec![Part::Text(text)],
            failed: false,
            failure: None,
            cost: None,
            exchanges: vec![],
            logs: vec![],
        }
    }

    /// The answer if the budget has room for it, or else a failed one. What the call used is kept in both cases.
    pub(crate) fn with_budget(self, budget: &mut ByteBudget) -> Self {
        budget.add(&self.exchanges);
        budget.add(&self.failure);
        match (budget.charge(&self.content), &self.cost) {
            // Text of the host has no cost, and is short.
            (Ok(()), _) | (Err(_), None) => self,
            (Err(error), Some(cost)) => {
                let failure = Failure {
                    at: cost.at.clone(),
                    kind: error.kind,
                    call_site: cost.call_site.clone(),
                    message: error.message,
                };
                let reason = Self::failed(format!("the tool failed: {EPISODE_IS_FULL}"));
                let failure = self.failure.or(Some(failure));
                Self { failure, cost: self.cost, exchanges: self.exchanges, logs: self.logs, ..reason }
            }
        }
    }

    /// Answer of a failed call, with the reason.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self { failed: true, ..Self::success(reason.into()) }
    }
}

/// Final view of a tool, with what the call of it used.
pub(crate) struct FinalView {
    /// Fields, as `tool.field`.
    pub(crate) fields: Result<Vec<NamedValue>, Failure>,
    pub(crate) cost: Option<CallCost>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) logs: Vec<LogEntry>,
}

/// Session of a tool in one episode.
pub(crate) struct Session {
    tool: Arc<Tool>,
    /// Records the tool's outbound calls, if it can make any.
    recorder: Option<Arc<ExchangeRecorder>>,
    /// Records the tool's log.
    log: Arc<LogRecorder>,
    overrides: Arc<CallOverrides>,
    setup: Option<Vec<u8>>,
    seed: Seed,
    live: Option<ToolSession>,
    /// Calls that a replay answered from the record, for the session that continues after the replay.
    replayed: Vec<Call>,
    /// Number of restarts.
    restarts: u32,
    /// Resources that failed sessions used.
    spent: Spent,
}

/// State of a session.
#[derive(Clone)]
pub(crate) struct SessionSnapshot {
    tool: Arc<Tool>,
    recorder: Option<Arc<ExchangeRecorder>>,
    overrides: Arc<CallOverrides>,
    setup: Option<Vec<u8>>,
    restarts: u32,
    spent: Spent,
    live: Option<Snapshot>,
}

impl SessionSnapshot {
    /// The state in a form that can be stored.
    pub(crate) fn save(&self) -> SavedSession {
        SavedSession {
            tool: self.tool.name().to_owned(),
            used: self.recorder.as_ref().map(|recorder| recorder.usage()).unwrap_or_default(),
            setup: self.setup.clone(),
            restarts: self.restarts,
            spent: self.spent,
            live: self.live.clone(),
        }
    }

    /// The state of a stored session of this tool.
    pub(crate) fn open(saved: SavedSession, tool: &Arc<Tool>) -> Result<Self, NotSaved> {
        let SavedSession { tool: name, used, setup, restarts, spent, live } = saved;
        if name != tool.name() {
            return Err(NotSaved::Tool { saved: name, given: tool.name().to_owned() });
        }
        Ok(Self {
            recorder: ExchangeRecorder::resumed(&tool.bound.plugin, &used),
            overrides: Arc::default(),
            tool: Arc::clone(tool),
            setup,
            restarts,
            spent,
            live,
        })
    }
}

fn boundary(plugin: &Plugin) -> Boundary {
    Boundary::Tool(plugin.name().to_owned())
}

impl Session {
    /// A session that opens at its first call. `seed` is the root of all tools' seeds, `setup` the data that the
    /// environment prepared for each tool.
    pub(crate) fn new(
        tool: &Arc<Tool>,
        overrides: &Arc<CallOverrides>,
        seed: Seed,
        setup: &[(String, Vec<u8>)],
    ) -> Self {
        let plugin = &tool.bound.plugin;
        let setup = setup.iter().find(|(name, _)| name == plugin.name()).map(|(_, bytes)| bytes.clone());
        Self {
            recorder: ExchangeRecorder::of(plugin, overrides.exchanges(&boundary(plugin))),
            log: LogRecorder::of(plugin),
            seed: seed.child(plugin.name()),
            overrides: Arc::clone(overrides),
            setup,
            live: None,
            replayed: vec![],
            restarts: 0,
            spent: Spent::default(),
            tool: Arc::clone(tool),
        }
    }

    pub(crate) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Derives all later random numbers from this root of the tools' seeds.
    pub(crate) fn reseed(&mut self, seed: Seed) {
        self.seed = seed.child(self.tool.name());
        if let Some(live) = &mut self.live {
            live.reseed(self.seed.child(self.restarts));
        }
    }

    /// Ends a replay: later calls use these overrides, and outbound calls are made.
    pub(crate) fn end_replay(&mut self, overrides: &Arc<CallOverrides>) {
        self.overrides = Arc::clone(overrides);
        if let Some(recorder) = &self.recorder {
            recorder.end_replay();
        }
    }

    /// Whether the session can be copied: it is not open, or the tool offers snapshots.
    pub(crate) fn can_be_copied(&self) -> bool {
        let unused = self.live.is_none() && self.replayed.is_empty();
        unused || self.tool.bound.plugin.offers(OptionalInterface::ToolSnapshot)
    }

    pub(crate) async fn snapshot(&mut self) -> Result<SessionSnapshot, Failure> {
        let mute = |muted| self.recorder.iter().for_each(|recorder| recorder.mute(muted));
        mute(true);
        let live = match &mut self.live {
            Some(live) => live.snapshot().await.map(Some),
            None => Ok(None),
        };
        mute(false);
        self.log.discard();
        let live = live.map_err(|error| self.failure(CallSite::Fork, error))?;
        Ok(SessionSnapshot {
            tool: Arc::clone(&self.tool),
            recorder: self.recorder.as_deref().map(ExchangeRecorder::copy),
            overrides: Arc::clone(&self.overrides),
            setup: self.setup.clone(),
            restarts: self.restarts,
            spent: self.spent,
            live,
        })
    }

    pub(crate) async fn restore(snapshot: &SessionSnapshot, seed: Seed) -> Result<Self, Failure> {
        let SessionSnapshot { tool, recorder, overrides, setup, restarts, spent, live } = snapshot;
        let mut session = Self {
            tool: Arc::clone(tool),
            recorder: recorder.as_deref().map(ExchangeRecorder::copy),
            log: LogRecorder::of(&tool.bound.plugin),
            overrides: Arc::clone(overrides),
            setup: setup.clone(),
            seed: seed.child(tool.name()),
            live: None,
            replayed: vec![],
            restarts: *restarts,
            spent: *spent,
        };
        let Some(live) = live else { return Ok(session) };
        let mute = |muted| session.recorder.iter().for_each(|recorder| recorder.mute(muted));
        mute(true);
        let plugin = session.log.attach(&with_recorder(&tool.bound.plugin, session.recorder.as_ref()));
        let restored = ToolSession::restore(&plugin, live, session.seed.child(session.restarts)).await;
        mute(false);
        session.log.discard();
        session.live = Some(restored.map_err(|error| session.failure(CallSite::Fork, error))?);
        Ok(session)
    }

    /// Answers one call; the answer contains any failure.
    pub(crate) async fn answer(&mut self, call: &Call) -> ToolAnswer {
        let site = CallSite::tool(&call.id);
        if let Some(answer) = self.recorded_answer(call) {
            return answer;
        }
        let replaced = self.overrides.cost(&self.boundary(), &site);
        let (answer, cost) = self.try_call(call, &site).await;
        let cost = cost.map(|cost| self.cost(site.clone(), cost));
        let exchanges = self.take_exchanges(&site);
        let logs = self.take_log(&site);
        let error = match answer {
            Ok(answer) => return ToolAnswer { cost, exchanges, logs, ..answer },
            Err(error) => error,
        };
        let lost = error.kind != FailureKind::Refused;
        if lost {
            if let Some(failed) = self.live.take() {
                self.spent = failed.spent();
            }
            if let Some(replaced) = replaced {
                // The call is not repeated, but later calls have as little fuel left as they had.
                self.spent.fuel += replaced.fuel.unwrap_or(0);
            }
            self.restarts += 1;
        }
        // The words depend on the kind only, so that they are the same on every machine and on a replay.
        let reason = match error.kind {
            FailureKind::Trap => "it crashed",
            FailureKind::Budget | FailureKind::Fuel | FailureKind::Deadline => "it ran out of time",
            FailureKind::Memory => "it ran out of memory",
            FailureKind::ResultSize => "its answer was too large",
            FailureKind::EpisodeSize => EPISODE_IS_FULL,
            FailureKind::Malformed => "its answer was malformed",
            FailureKind::Refused => error.message.as_str(),
            // The episode is dropped, so a policy does not read this.
            FailureKind::Neighbour | FailureKind::Capacity | FailureKind::Fault => "the host could not run it",
        };
        let loss = if lost { "; its state is lost" } else { "" };
        let failed = ToolAnswer::failed(format!("the tool failed: {reason}{loss}"));
        ToolAnswer { failure: Some(self.failure(site, error)), cost, exchanges, logs, ..failed }
    }

    /// The recorded answer to a call of a tool that a replay does not call.
    fn recorded_answer(&mut self, call: &Call) -> Option<ToolAnswer> {
        if !self.tool.bound.plugin.replays_from_record() {
            return None;
        }
        let RecordedAnswer { content, failed, failure, cost } = self.overrides.answer(&call.id)?.clone();
        match failure {
            Some(_) => self.replayed.clear(),
            None => self.replayed.push(call.clone()),
        }
        Some(ToolAnswer { content, failed, failure, cost, exchanges: vec![], logs: vec![] })
    }

    /// Calls the tool, in a session that it opens if necessary. The cost is `None` if no plugin was called.
    async fn try_call(&mut self, call: &Call, site: &CallSite) -> (Result<ToolAnswer, CallError>, Option<Cost>) {
        if let Some(failure) = self.overrides.failure(&self.boundary(), site) {
            return (Err(failure.into()), None);
        }
        let (session, opening) = match &mut self.live {
            Some(session) => (session, Cost::default()),
            None => {
                let bound = &self.tool.bound;
                let seed = self.seed.child(self.restarts);
                let plugin = self.log.attach(&with_recorder(&bound.plugin, self.recorder.as_ref()));
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
        // A tool without a replay of its own gets the calls of the replayed beginning again.
        for earlier in self.replayed.drain(..) {
            if let Err(error) = session.call(&earlier).await {
                return (Err(error), Some(session.cost()));
            }
        }
        let answer = session.call(call).await;
        let cost = opening + session.cost();
        let answer = answer.map(|answer| ToolAnswer {
            content: answer.content,
            failed: answer.failed,
            failure: None,
            cost: None,
            exchanges: vec![],
            logs: vec![],
        });
        (answer, Some(cost))
    }

    /// The final view; `None` if the tool was not called or has none.
    pub(crate) async fn final_view(&mut self) -> Option<FinalView> {
        let tool = Arc::clone(&self.tool);
        let live = self.live.as_mut().filter(|_| tool.bound.plugin.offers(OptionalInterface::FinalView))?;
        if let Some(failure) = self.overrides.failure(&boundary(&tool.bound.plugin), &CallSite::FinalView) {
            return Some(FinalView { fields: Err(failure), cost: None, exchanges: vec![], logs: vec![] });
        }
        let viewed = live.final_view().await;
        let cost = live.cost();
        let named = |field: NamedValue| NamedValue { name: format!("{}.{}", tool.name(), field.name), ..field };
        Some(FinalView {
            fields: viewed
                .map(|fields| fields.into_iter().map(named).collect())
                .map_err(|error| self.failure(CallSite::FinalView, error)),
            cost: Some(self.cost(CallSite::FinalView, cost)),
            exchanges: self.take_exchanges(&CallSite::FinalView),
            logs: self.take_log(&CallSite::FinalView),
        })
    }

    /// The fields of the final view, if the record has room for them.
    pub(crate) fn truncate_to_budget(
        &self,
        fields: Vec<NamedValue>,
        budget: &mut ByteBudget,
    ) -> Result<Vec<NamedValue>, Failure> {
        budget.charge(&fields).map(|()| fields).map_err(|error| self.failure(CallSite::FinalView, error))
    }

    fn cost(&self, call_site: CallSite, cost: Cost) -> CallCost {
        CallCost { at: self.boundary(), call_site, cost }
    }

    /// Outbound calls that the tool made in a call that is over.
    fn take_exchanges(&self, site: &CallSite) -> Vec<Exchange> {
        self.recorder.as_ref().map(|recorder| recorder.take(&self.boundary(), site)).unwrap_or_default()
    }

    /// Lines that the tool logged in a call that is over.
    fn take_log(&self, site: &CallSite) -> Vec<LogEntry> {
        self.log.take(&self.boundary(), site, None)
    }

    fn boundary(&self) -> Boundary {
        boundary(&self.tool.bound.plugin)
    }

    fn failure(&self, call_site: CallSite, error: CallError) -> Failure {
        Failure { at: self.boundary(), kind: error.kind, call_site, message: error.message }
    }
}
