//! Tools of an episode: the set that it may call, their sessions, and those of rewards.
//!
//! Calls of different tools run concurrently.

pub mod reward_tools;
pub mod session;
pub mod tool_set;

use std::sync::Arc;

use futures::future::join_all;

use gymkhana_record::{Call, Failure, NamedValue, Seed};
use tracing::{Instrument, info_span};

use crate::data::EpisodeData;
use crate::hooks::{Hooks, TimedCall};
use crate::overrides::CallOverrides;
use crate::saved::session::{NotSaved, SavedSession};
use crate::tools::session::{Session, SessionSnapshot, ToolAnswer};
use crate::tools::tool_set::ToolSet;

/// The tool sessions of one episode.
pub(crate) struct Toolbox {
    tools: Arc<ToolSet>,
    sessions: Vec<Session>,
}

/// State of all sessions.
#[derive(Clone)]
pub(crate) struct ToolboxSnapshot {
    tools: Arc<ToolSet>,
    sessions: Vec<SessionSnapshot>,
}

impl ToolboxSnapshot {
    /// The sessions in a form that can be stored, in the order of the tools.
    pub(crate) fn save(&self) -> Vec<SavedSession> {
        self.sessions.iter().map(SessionSnapshot::save).collect()
    }

    /// The sessions of a stored snapshot, with the tools that it was taken with.
    pub(crate) fn open(saved: Vec<SavedSession>, tools: &Arc<ToolSet>) -> Result<Self, NotSaved> {
        if saved.len() != tools.tools().len() {
            return Err(NotSaved::Tools { saved: saved.len(), given: tools.tools().len() });
        }
        let sessions = saved.into_iter().zip(tools.tools()).map(|(saved, tool)| SessionSnapshot::open(saved, tool));
        Ok(Self { tools: Arc::clone(tools), sessions: sessions.collect::<Result<_, _>>()? })
    }
}

impl Toolbox {
    pub(crate) fn new(
        tools: &Arc<ToolSet>,
        overrides: &Arc<CallOverrides>,
        seed: Seed,
        setup: &[(String, Vec<u8>)],
    ) -> Self {
        let sessions = tools.tools().iter().map(|tool| Session::new(tool, overrides, seed, setup)).collect();
        Self { tools: Arc::clone(tools), sessions }
    }

    pub(crate) fn tools(&self) -> &ToolSet {
        &self.tools
    }

    pub(crate) fn reseed(&mut self, seed: Seed) {
        self.sessions.iter_mut().for_each(|session| session.reseed(seed));
    }

    pub(crate) fn end_replay(&mut self, overrides: &Arc<CallOverrides>) {
        self.sessions.iter_mut().for_each(|session| session.end_replay(overrides));
    }

    pub(crate) fn can_be_copied(&self) -> bool {
        self.sessions.iter().all(Session::can_be_copied)
    }

    pub(crate) async fn snapshot(&mut self) -> Result<ToolboxSnapshot, Failure> {
        let mut sessions = Vec::with_capacity(self.sessions.len());
        for session in &mut self.sessions {
            sessions.push(session.snapshot().await?);
        }
        Ok(ToolboxSnapshot { tools: Arc::clone(&self.tools), sessions })
    }

    pub(crate) async fn restore(snapshot: &ToolboxSnapshot, seed: Seed) -> Result<Self, Failure> {
        let mut sessions = Vec::with_capacity(snapshot.sessions.len());
        for session in &snapshot.sessions {
            sessions.push(Session::restore(session, seed).await?);
        }
        Ok(Self { tools: Arc::clone(&snapshot.tools), sessions })
    }

    /// Answers the calls of a turn, in their order; `None` for calls that are malformed or belong to no tool. Tools run
    /// concurrently. The calls of one tool run one after the other, because they share its state.
    pub(crate) async fn answer<H: Hooks>(&mut self, hooks: &H, calls: &[Option<&Call>]) -> Vec<Option<ToolAnswer>> {
        let tools = &self.tools;
        let sessions = self.sessions.iter_mut().enumerate().map(|(index, session)| {
            let own = calls.iter().enumerate().filter_map(|(place, call)| Some((place, (*call)?)));
            let own: Vec<_> = own.filter(|(_, call)| tools.index_of(&call.name) == Some(index)).collect();
            async move {
                let mut answers = Vec::with_capacity(own.len());
                for (place, call) in own {
                    let _timer = hooks.time(TimedCall::Tool);
                    let tool = session.tool().name();
                    let span = info_span!("tool_call", tool, function = call.name, call = call.id);
                    answers.push((place, session.answer(call).instrument(span).await));
                }
                answers
            }
        });
        let mut answers: Vec<Option<ToolAnswer>> = calls.iter().map(|_| None).collect();
        for (place, answer) in join_all(sessions).await.into_iter().flatten() {
            answers[place] = Some(answer);
        }
        answers
    }

    /// Final views of the tools that were called and have one. Failures, costs and exchanges go to `data`.
    pub(crate) async fn final_views(&mut self, data: &mut EpisodeData) -> Vec<NamedValue> {
        let mut views = Vec::new();
        for session in &mut self.sessions {
            let Some(view) = session.final_view().await else { continue };
            data.costs.extend(view.cost);
            data.budget.add(&view.exchanges);
            data.exchanges.extend(view.exchanges);
            data.log(view.logs);
            match view.fields.and_then(|fields| session.truncate_to_budget(fields, &mut data.budget)) {
                Ok(fields) => views.extend(fields),
                Err(failure) => data.failures.push(failure),
            }
        }
        views
    }
}
