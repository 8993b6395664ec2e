//! The agent program of a run: an unmodified program that plays the policy's episodes through the gateway.

mod outcome;
mod tools;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use gymkhana_driver::EpisodeBackend;
use gymkhana_record::{EpisodeId, SegmentError};
use gymkhana_rollout::{AgentPlayed, AgentPlayer, AgentSettings, AgentTask, EpisodePlan};
use serde_json::Value as Json;

use crate::control::{Control, ExternalPrograms, SessionOffer};
use crate::program::{AgentProgram, Launch, ProgramEnd, ProgramStartError};
use crate::server::{Gateway, GatewayError, OpenSession};
use crate::session::{
    AgentSession, AgentSessionLimits, ConversationIds, ProgramTools, SamplingRule, SessionLog, SessionSettings,
    StopCache,
};
use outcome::concluded;
use tools::EpisodeTools;

/// A running gateway with the settings of the program that it serves.
pub struct AgentHarness {
    /// Programs that the host does not start; by default it starts one for each episode.
    external: Option<Arc<dyn ExternalPrograms>>,
    /// Where its episodes run; by default in this process.
    backend: Option<Arc<dyn EpisodeBackend>>,
    gateway: Gateway,
    settings: AgentSettings,
    stop_cache: Arc<StopCache>,
}

/// Starts a gateway on the loopback address for a run's agent program.
///
/// # Errors
/// If the system has no free port or no further threads.
pub fn start_agent(settings: AgentSettings) -> Result<Arc<dyn AgentPlayer>, Box<dyn Error + Send + Sync>> {
    Ok(Arc::new(AgentHarness::start(settings)?))
}

impl AgentHarness {
    /// Starts a gateway on the loopback address.
    ///
    /// # Errors
    /// If the system has no free port or no further threads.
    pub fn start(settings: AgentSettings) -> Result<Self, GatewayError> {
        let gateway = Gateway::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { external: None, backend: None, gateway, settings, stop_cache: Arc::default() })
    }

    /// Starts a gateway at which harnesses open sessions. `url` is its address as they see it, by default the bound one.
    ///
    /// # Errors
    /// If the address cannot be bound, or the system has no further threads.
    pub fn start_external(
        settings: AgentSettings,
        address: SocketAddr,
        url: Option<String>,
        control: Arc<Control>,
    ) -> Result<Self, GatewayError> {
        let gateway = Gateway::start_with(address, url, Arc::clone(&control))?;
        Ok(Self { external: Some(control), backend: None, gateway, settings, stop_cache: Arc::default() })
    }

    /// Runs its episodes there.
    #[must_use]
    pub fn with_backend(mut self, backend: Arc<dyn EpisodeBackend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Address of the gateway as programs see it.
    #[must_use]
    pub fn url(&self) -> &str {
        self.gateway.url()
    }

    /// A session of the gateway, with the functions of the run if the program may call them.
    fn open_session(&self, task: &AgentTask<'_>) -> OpenSession {
        let models = self.settings.models.clone();
        if self.settings.mcp {
            self.gateway.open_with_tools(models, task.episode.data().functions(0).to_vec())
        } else {
            self.gateway.open(models)
        }
    }

    /// The run of the program up to its end: a process of the host, or a harness elsewhere.
    fn program(
        &self,
        plan: &EpisodePlan,
        text: Json,
        open: &OpenSession,
    ) -> BoxFuture<'_, Result<ProgramEnd, ProgramStartError>> {
        let model = self.settings.models.first().map_or("policy", String::as_str);
        if let Some(external) = &self.external {
            return external.play(SessionOffer {
                episode: plan.id,
                session: open.id().to_owned(),
                openai_url: open.openai_url(),
                anthropic_url: open.anthropic_url(),
                mcp_url: open.mcp_url(),
                key: open.key().to_owned(),
                model: model.to_owned(),
                task: text,
                activity: open.activity(),
            });
        }
        let launch = Launch { variables: open.variables(model), task: text.to_string() };
        let program = AgentProgram { command: self.settings.command.clone(), env: self.settings.env.clone() };
        let mut program = self.gateway.launch(program, launch);
        Box::pin(async move { program.ended().await })
    }

    fn session_settings(&self, task: &AgentTask<'_>) -> SessionSettings {
        let AgentTask { plan, limits, .. } = task;
        SessionSettings {
            sampling: if self.settings.requested_sampling {
                SamplingRule::Requested(plan.sampling)
            } else {
                SamplingRule::Fixed(plan.sampling)
            },
            seed: plan.seed.child("policy").child(0),
            limits: AgentSessionLimits {
                turns: task.turns,
                context_tokens: limits.context_tokens,
                reply_tokens: limits.reply_tokens,
                reasoning_tokens: limits.reasoning_tokens,
                bytes: limits.episode_bytes,
                program_time: self.settings.time,
                episode_time: limits.time,
            },
            models: self.settings.models.clone(),
            side_models: self.settings.side_models.clone(),
            retry_window: self.settings.retry_window,
            stop_texts: self.settings.stop_texts.clone(),
            stop_cache: Arc::clone(&self.stop_cache),
            conversations: ConversationIds::new(Arc::clone(task.conversations), plan.place),
        }
    }

    async fn play_episode(&self, task: AgentTask<'_>) -> Result<AgentPlayed, SegmentError> {
        let mut open = self.open_session(&task);
        let settings = self.session_settings(&task);
        let AgentTask { plan, text, limits, chat, policy, begun, episode, .. } = task;
        let program = self.program(plan, text, &open);
        let journal = self.external.as_ref().and_then(|external| external.journal());
        let log = match journal.zip(begun) {
            Some((journal, begun)) => Some(SessionLog::begin(journal, &begun).await),
            None => None,
        };
        let tools = &mut EpisodeTools { episode, most: limits.calls, logged: log.is_some() };
        let mut session = AgentSession::new(chat, policy, settings).logged(log);
        let tools = ProgramTools { requests: &mut open.tool_requests, toolbox: tools };
        // The process group of the program is gone when this returns.
        let served = session.serve_with(&mut open.requests, tools, program).await;
        // No further request is answered before the environment steps.
        drop(open);
        let outcome = session.into_outcome()?;
        let policy_time = outcome.policy_time;
        Ok(AgentPlayed { play: concluded(outcome, served, self.settings.time), policy_time })
    }
}

impl AgentPlayer for AgentHarness {
    fn backend(&self) -> Option<&dyn EpisodeBackend> {
        self.backend.as_deref()
    }

    fn keeps_journal(&self) -> bool {
        self.external.as_ref().is_some_and(|external| external.journal().is_some())
    }

    fn given_up(&self, episode: EpisodeId) -> BoxFuture<'_, ()> {
        match &self.external {
            Some(external) => external.given_up(episode),
            None => Box::pin(std::future::pending()),
        }
    }

    fn play<'p>(&'p self, task: AgentTask<'p>) -> BoxFuture<'p, Result<AgentPlayed, SegmentError>> {
        Box::pin(self.play_episode(task))
    }
}
