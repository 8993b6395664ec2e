//! An episode that an agent program plays: the program calls the policy through the gateway, and its answer is the one
//! action of the environment.
//!
//! A replay starts no program: what the program said and did comes from the record, and the environment and the rewards
//! are called again.

mod tools;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use gymkhana_driver::Reply;
use gymkhana_gateway::control::SessionOffer;
use gymkhana_gateway::program::{Launch, ProgramEnd, StartError};
use gymkhana_gateway::server::OpenSession;
use gymkhana_gateway::session::{
    ConversationIds, Outcome, Performed, ProgramTools, SamplingRule, Served, Session, SessionLimits, SessionLog,
    SessionSettings, SpentLimit, Toolbox,
};
use gymkhana_policy::Policy;
use gymkhana_record::{
    AgentCall, AgentRun, Boundary, CallSite, Ending, EpisodeRecord, Failure, FailureKind, Part, Turn,
};
use serde_json::{Value as Json, json};

use crate::RolloutError;
use crate::episode::finish::so_far;
use crate::episode::live_bytes::TURN_WAIT;
use crate::episode::state::{EpisodeState, hooks};
use crate::harness::AgentHarness;
use crate::replay::agent_play::AgentPlay;
use tools::EpisodeTools;

impl EpisodeState<'_> {
    /// Plays the episode by the program of the run and writes the record.
    pub(crate) async fn to_end_by_agent(
        mut self: Box<Self>,
        harness: &AgentHarness,
        policy: &dyn Policy,
    ) -> Result<EpisodeRecord, RolloutError> {
        self.held.grow_to(self.episode.data.budget.used());
        self.policy.begun += self.rollout.live.room(TURN_WAIT).await;
        let mut open = self.open_session(harness);
        let program = self.program(harness, &open);
        let rollout = self.rollout;
        let journal = harness.external.as_ref().and_then(|external| external.journal());
        let log = journal.map(|journal| SessionLog::begin(journal, &self.begun()));
        let logged = log.is_some();
        let mut session = Session::new(&rollout.chat, policy, self.session_settings(harness)).logged(log);
        let tools = &mut EpisodeTools::of(&mut self, logged);
        let tools = ProgramTools { requests: &mut open.tool_requests, toolbox: tools };
        // The process group of the program is gone when this returns.
        let served = session.serve_with(&mut open.requests, tools, program).await;
        // No further request is answered before the environment steps.
        drop(open);
        let outcome = session.into_outcome()?;
        self.episode.data.timing.policy_ms += outcome.policy_time.as_secs_f64() * 1e3;
        let mut play = concluded(outcome, served, harness.settings.time);
        if let Some(ending) = self.episode.data.ending {
            play.ended_by_environment(ending);
        }
        self.conclude(play).await
    }

    /// Plays a recorded episode again with what its program contributed. Its calls of tools are performed again.
    pub(crate) async fn replay_agent(mut self: Box<Self>, mut play: AgentPlay) -> Result<EpisodeRecord, RolloutError> {
        let calls: Vec<AgentCall> = play.run.calls.clone();
        let mut tools = EpisodeTools::of(&mut self, false);
        let mut again = vec![];
        for AgentCall { call, listed, .. } in calls {
            again.push(match tools.perform(call, listed).await {
                Performed::Answered { turns, .. } => turns,
                Performed::Refused { .. } => vec![],
            });
        }
        play.replace_calls(again);
        self.conclude(play).await
    }

    /// The run of the program up to its end: a process of the host, or a harness elsewhere.
    fn program<'h>(
        &self,
        harness: &'h AgentHarness,
        open: &OpenSession,
    ) -> BoxFuture<'h, Result<ProgramEnd, StartError>> {
        let model = harness.settings.models.first().map_or("policy", String::as_str);
        let task = self.task();
        if let Some(external) = &harness.external {
            return external.play(SessionOffer {
                episode: self.policy.plan.id,
                session: open.id().to_owned(),
                openai_url: open.openai_url(),
                anthropic_url: open.anthropic_url(),
                mcp_url: open.mcp_url(),
                key: open.key().to_owned(),
                model: model.to_owned(),
                task,
                activity: open.activity(),
            });
        }
        let launch = Launch { variables: open.variables(model), task: task.to_string() };
        let mut program = harness.gateway.launch(harness.program(), launch);
        Box::pin(async move { program.ended().await })
    }

    /// The record before the program begins.
    fn begun(&self) -> EpisodeRecord {
        let data = &self.episode.data;
        EpisodeRecord {
            turn_limit: self.turn_limit(),
            opening: data.opening.clone(),
            turns: data.turns.clone(),
            environment_rewards: data.rewards.clone(),
            unsandboxed: self.rollout.plugins.unsandboxed(),
            agent: Some(AgentRun { begin: data.turns.len() as u32, ..AgentRun::default() }),
            ..so_far(self)
        }
    }

    /// A session of the gateway, with the functions of the run if the program may call them.
    fn open_session(&self, harness: &AgentHarness) -> OpenSession {
        let models = harness.settings.models.clone();
        if harness.settings.mcp {
            harness.gateway.open_with_tools(models, self.episode.data.functions(0).to_vec())
        } else {
            harness.gateway.open(models)
        }
    }

    /// The task as the program gets it.
    fn task(&self) -> Json {
        let plan = &self.policy.plan;
        let messages: Vec<Json> = self.policy.contexts.first().map_or_else(Vec::new, |context| {
            let messages = context.messages();
            messages.map(|message| json!({"role": message.role.to_string(), "content": message.text})).collect()
        });
        let of_user = messages.iter().filter(|message| message["role"] == "user");
        let prompt: Vec<&str> = of_user.filter_map(|message| message["content"].as_str()).collect();
        json!({
            "episode": plan.id.to_string(), "task": {"split": plan.task.split, "index": plan.task.index},
            "prompt": prompt.join("\n\n"), "messages": messages,
        })
    }

    fn session_settings(&self, harness: &AgentHarness) -> SessionSettings {
        let limits = &self.rollout.limits;
        let place = self.policy.plan.place;
        SessionSettings {
            sampling: if harness.settings.requested_sampling {
                SamplingRule::Requested(self.policy.plan.sampling)
            } else {
                SamplingRule::Fixed(self.policy.plan.sampling)
            },
            seed: self.policy.plan.seed.child("policy").child(0),
            limits: SessionLimits {
                turns: self.turn_limit(),
                context_tokens: limits.context_tokens,
                reply_tokens: limits.reply_tokens,
                bytes: limits.episode_bytes,
                program_time: harness.settings.time,
                episode_time: limits.time,
            },
            models: harness.settings.models.clone(),
            side_models: harness.settings.side_models.clone(),
            retry_window: harness.settings.retry_window,
            stop_texts: harness.settings.stop_texts.clone(),
            stop_cache: Arc::clone(&harness.stop_cache),
            conversations: ConversationIds::new(Arc::clone(&self.rollout.conversations), place),
        }
    }

    /// Adds what the program contributed, gives its answer to the environment, and writes the record.
    async fn conclude(mut self: Box<Self>, play: AgentPlay) -> Result<EpisodeRecord, RolloutError> {
        let AgentPlay { mut run, mut transcript, mut policy_turns, segments, failure, ending } = play;
        let data = &mut self.episode.data;
        run.begin = data.turns.len() as u32;
        policy_turns.iter_mut().for_each(|turn| turn.transcript += run.begin);
        if let Some(answer) = &run.answer {
            // The driver adds the answer, which is often the last reply.
            let is_answer = |turn: &Turn| matches!(turn, Turn::Message { content, .. } if *content == text(answer));
            drop(transcript.pop_if(|turn| is_answer(turn)));
        }
        run.turns = transcript.len() as u32;
        data.turns.extend(transcript);
        data.failures.extend(failure);
        self.policy.policy_turns = policy_turns;
        if let Some(context) = self.policy.contexts.first_mut() {
            context.replace(segments, self.policy.policy_turns.len() as u32);
        }
        let answer = run.answer.clone();
        self.policy.agent = Some(run);
        let ending = match (ending, answer) {
            (Some(ending), _) => ending,
            (None, answer) => {
                let reply = Reply { message: answer.unwrap_or_default(), calls: vec![] };
                let hooks = &mut hooks(self.rollout, &mut self.policy.contexts);
                let ended = self.episode.take_turn(hooks, reply, self.rollout.limits.calls).await;
                let fault = self.episode.data.failures.iter().any(|failure| failure.kind.is_hosts());
                // The program has answered once, and the environment wants another action.
                if fault { Ending::Dropped } else { ended.unwrap_or(Ending::TurnLimit) }
            }
        };
        self.finish(ending).await
    }
}

fn text(answer: &str) -> Vec<Part> {
    vec![Part::Text(answer.to_owned())]
}

/// The contribution of a program that has ended or was ended.
fn concluded(outcome: Outcome, served: Served<Result<ProgramEnd, StartError>>, own_time: Duration) -> AgentPlay {
    let failure = |kind, message: String| Failure { at: Boundary::Agent, kind, call_site: CallSite::Agent, message };
    let mut run = AgentRun {
        repeats: outcome.counts.repeats,
        side_requests: outcome.counts.side,
        refused: outcome.counts.refused,
        ..AgentRun::default()
    };
    let mut play = (None, None);
    match served {
        Served::EpisodeTime => play.1 = Some(Ending::TimeLimit),
        Served::ProgramTime => {
            let message = format!("it gave no answer in {} seconds of its own", own_time.as_secs_f64());
            play.0 = Some(failure(FailureKind::Deadline, message));
        }
        Served::Ended(Err(error)) => play.0 = Some(failure(FailureKind::Fault, error.to_string())),
        Served::Ended(Ok(end)) => {
            (run.exit, run.stderr) = (end.status, end.stderr.clone());
            match answer(&outcome, end) {
                Ok(answer) => run.answer = Some(answer),
                Err(Unanswered::Limit(ending)) => play.1 = Some(ending),
                Err(Unanswered::Failed(kind, message)) => play.0 = Some(failure(kind, message)),
            }
        }
    }
    if let Some(message) = outcome.fault {
        let call_site = CallSite::Agent;
        play.0 = Some(Failure { at: Boundary::Model, kind: FailureKind::Fault, call_site, message });
    }
    let (failure, mut ending) = play;
    if let Some(failure) = &failure {
        run.answer = None;
        ending = Some(if failure.kind.is_hosts() { Ending::Dropped } else { Ending::AgentFailed });
    }
    let Outcome { transcript, policy_turns, segments, calls, .. } = outcome;
    run.calls = calls;
    AgentPlay { run, transcript, policy_turns, segments, failure, ending }
}

/// The reason for which a program that has ended has no answer.
enum Unanswered {
    /// A limit of the run refused a request, and the program gave up.
    Limit(Ending),
    /// The program failed.
    Failed(FailureKind, String),
}

/// The answer of a program: its standard output, or the last reply of the policy if it wrote nothing.
fn answer(outcome: &Outcome, end: ProgramEnd) -> Result<String, Unanswered> {
    let failed = |kind, message: String| Err(Unanswered::Failed(kind, message));
    if let Some(signal) = end.signal {
        return failed(FailureKind::Trap, format!("signal {signal} ended it{}", last_line(&end.stderr)));
    }
    if end.status != Some(0) {
        match outcome.spent {
            Some(SpentLimit::Turns) => return Err(Unanswered::Limit(Ending::TurnLimit)),
            Some(SpentLimit::Context) => return Err(Unanswered::Limit(Ending::ContextLimit)),
            Some(SpentLimit::Calls) => return Err(Unanswered::Limit(Ending::CallLimit)),
            None => {}
        }
        let status = end.status.unwrap_or_default();
        return failed(FailureKind::Refused, format!("it exited with status {status}{}", last_line(&end.stderr)));
    }
    if end.overflowed {
        return failed(FailureKind::ResultSize, "its standard output is larger than 1 MiB".to_owned());
    }
    if outcome.policy_turns.is_empty() {
        let message = "it never called the model\nhint: it must use OPENAI_BASE_URL or ANTHROPIC_BASE_URL";
        return failed(FailureKind::Malformed, message.to_owned());
    }
    match String::from_utf8(end.output) {
        Ok(output) if output.trim().is_empty() => Ok(outcome.last_text.clone().unwrap_or_default()),
        Ok(output) => Ok(output.trim().to_owned()),
        Err(_) => failed(FailureKind::Malformed, "its standard output is not UTF-8".to_owned()),
    }
}

/// The last line of standard error, where most programs name the error.
fn last_line(stderr: &str) -> String {
    stderr.lines().rev().find(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {line}"))
}
