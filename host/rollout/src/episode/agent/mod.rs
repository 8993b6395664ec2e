//! An episode that an agent program plays: the program calls the policy through the gateway, and its answer is the one
//! action of the environment.
//!
//! A replay starts no program: what the program said and did comes from the record, and the environment and the rewards
//! are called again.

mod local;

use std::sync::Arc;
use std::time::Instant;

use gymkhana_chat::Role;
use gymkhana_driver::{BackendError, EpisodeBackend, EpisodeData, PlacedEpisode, Reply, perform};
use gymkhana_policy::Policy;
use gymkhana_record::{AgentCall, AgentRun, Ending, EpisodeRecord, Part, Turn, text_of};
use serde_json::{Value as Json, json};

use crate::agent_player::{AgentPlayed, AgentPlayer, AgentTask};
use crate::context::SeatContext;
use crate::episode::finish::{completed, ended, never_started, so_far};
use crate::episode::live_bytes::{HeldBytes, START_WAIT, TURN_WAIT};
use crate::episode::state::{EpisodePlan, EpisodeState, PolicyData, SeatPlayer, conversation};
use crate::replay::agent_play::AgentPlay;
use crate::replay::overrides::ReplayOverrides;
use crate::{Actor, Rollout, RolloutError};
use local::{LocalInstances, TimedCalls};

/// An episode that a program plays.
pub(crate) struct AgentEpisode<'a> {
    rollout: &'a Rollout,
    instances: Box<dyn PlacedEpisode + 'a>,
    policy: PolicyData,
    /// Share of the bytes of all live episodes.
    held: HeldBytes,
}

impl<'a> From<Box<EpisodeState<'a>>> for AgentEpisode<'a> {
    fn from(state: Box<EpisodeState<'a>>) -> Self {
        let EpisodeState { rollout, episode, policy, held } = *state;
        let instances = Box::new(LocalInstances { episode, hooks: TimedCalls(&rollout.metrics) });
        Self { rollout, instances, policy, held }
    }
}

/// Plays an episode whose plugin instances are somewhere else, if the agent program has a backend.
pub(crate) async fn play_with_agent_program(
    rollout: &Rollout,
    agent: &dyn AgentPlayer,
    plan: &EpisodePlan,
    actor: Actor<'_>,
) -> Option<Result<EpisodeRecord, RolloutError>> {
    let backend = agent.backend()?;
    let SeatPlayer::Policy(policy) = actor.player(0) else { return None };
    // A harness that has disconnected plays no session.
    let started = tokio::select! {
        biased;
        () = agent.given_up(plan.id) => return Some(Err(RolloutError::NoPlace("the harness has disconnected".to_owned()))),
        started = start_elsewhere(rollout, backend, plan) => started,
    };
    let (instances, begun) = match started {
        Ok(started) => started,
        Err((BackendError::NotStarted(failed), begun)) => {
            return Some(Ok(never_started(rollout, plan, failed, begun)));
        }
        Err((error, _)) => return Some(Err(RolloutError::NoPlace(error.to_string()))),
    };
    let policy_data = PolicyData::new(plan.clone(), ReplayOverrides::default(), begun);
    let mut episode = AgentEpisode { rollout, instances, policy: policy_data, held: rollout.live.share() };
    episode.open();
    Some(episode.play(agent, policy).await)
}

/// Starts an episode in one of the places; also returns the moment at which it had the place.
async fn start_elsewhere(
    rollout: &Rollout,
    backend: &dyn EpisodeBackend,
    plan: &EpisodePlan,
) -> Result<(Box<dyn PlacedEpisode>, Instant), (BackendError, Instant)> {
    rollout.live.room(START_WAIT).await;
    let place = backend.place().await.map_err(|error| (error, Instant::now()))?;
    let begun = Instant::now();
    match place.start(plan.task.clone(), plan.seed).await {
        Ok(instances) => Ok((instances, begun)),
        Err(error) => Err((error, begun)),
    }
}

impl AgentEpisode<'_> {
    /// The conversation before the program begins, with the observations of an episode that was started elsewhere.
    fn open(&mut self) {
        let data = self.instances.data();
        let (functions, strategy) = (data.functions(0).to_vec(), Arc::clone(&self.rollout.context));
        let conversation = conversation(self.rollout, &self.policy.plan, 0);
        let mut context = SeatContext::new(0, conversation, functions, self.rollout.system_of(0), strategy);
        for turn in &data.turns {
            if let Turn::Observation { content, .. } = turn {
                context.hear(Role::User, &text_of(content));
            }
        }
        self.policy.contexts.push(context);
    }

    /// Plays the episode by the program of the run and writes the record.
    pub(crate) async fn play(
        mut self,
        agent: &dyn AgentPlayer,
        policy: &dyn Policy,
    ) -> Result<EpisodeRecord, RolloutError> {
        // A worker's number is not more than a record may hold.
        self.held.grow_to(self.data().budget.used().min(self.rollout.limits.episode_bytes));
        self.policy.begun += self.rollout.live.room(TURN_WAIT).await;
        let rollout = self.rollout;
        let task = AgentTask {
            text: self.task(),
            turns: self.turn_limit(),
            begun: agent.keeps_journal().then(|| self.begun()),
            plan: &self.policy.plan,
            limits: &rollout.limits,
            chat: &rollout.chat,
            policy,
            conversations: &rollout.conversations,
            episode: &mut *self.instances,
        };
        let AgentPlayed { mut play, policy_time } = agent.play(task).await?;
        let data = self.instances.data_mut();
        data.timing.policy_ms += policy_time.as_secs_f64() * 1e3;
        if let Some(ending) = data.ending {
            play.ended_by_environment(ending);
        }
        Ok(self.conclude(play).await)
    }

    /// Plays a recorded episode again with what its program contributed. Its calls of tools are performed again.
    pub(crate) async fn replay(mut self, mut play: AgentPlay) -> EpisodeRecord {
        let calls: Vec<AgentCall> = play.run.calls.clone();
        let most = self.rollout.limits.calls;
        let mut again = vec![];
        for AgentCall { call, listed, .. } in calls {
            // A call without an answer adds nothing.
            again.push(perform(&mut *self.instances, call, listed, most).await.unwrap_or_default());
        }
        play.replace_calls(again);
        self.conclude(play).await
    }

    fn data(&self) -> &EpisodeData {
        self.instances.data()
    }

    /// Most turns of the policy.
    fn turn_limit(&self) -> u32 {
        self.policy.plan.turns.unwrap_or(self.rollout.limits.turns)
    }

    /// The record before the program begins.
    fn begun(&self) -> EpisodeRecord {
        let data = self.data();
        EpisodeRecord {
            turn_limit: self.turn_limit(),
            opening: data.opening.clone(),
            turns: data.turns.clone(),
            environment_rewards: data.rewards.clone(),
            unsandboxed: self.rollout.plugins.unsandboxed(),
            agent: Some(AgentRun { begin: data.turns.len() as u32, ..AgentRun::default() }),
            ..so_far(self.rollout, &self.policy, data)
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

    /// Adds what the program contributed, gives its answer to the environment, and writes the record.
    async fn conclude(mut self, play: AgentPlay) -> EpisodeRecord {
        let AgentPlay { mut run, mut transcript, mut policy_turns, segments, failure, ending } = play;
        let data = self.instances.data_mut();
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
        let ending = match ending {
            Some(ending) => ending,
            None => self.give(answer.unwrap_or_default()).await,
        };
        self.finish(ending).await
    }

    /// Gives the program's answer to the environment.
    async fn give(&mut self, answer: String) -> Ending {
        let reply = Reply { thoughts: None, message: answer.clone(), calls: vec![] };
        match self.instances.act(reply).await {
            Ok(_) if self.data().failures.iter().any(|failure| failure.kind.is_hosts()) => Ending::Dropped,
            // The program has answered once, and the environment wants another action.
            Ok(ended) => ended.unwrap_or(Ending::TurnLimit),
            Err(_) => {
                let data = self.instances.data_mut();
                data.turns.push(Turn::Message { seat: data.seat, content: text(&answer) });
                Ending::Dropped
            }
        }
    }

    /// Reads the final views and writes the record.
    async fn finish(self, ending: Ending) -> EpisodeRecord {
        let turn_limit = self.turn_limit();
        // The bytes are held until the record is complete.
        let Self { rollout, instances, policy, held: _held } = self;
        let record = EpisodeRecord { turn_limit, ..ended(rollout, &policy.plan, ending, vec![]) };
        let record = instances.finish(ending, policy.begun, record).await;
        completed(rollout, policy, record)
    }
}

fn text(answer: &str) -> Vec<Part> {
    vec![Part::Text(answer.to_owned())]
}
