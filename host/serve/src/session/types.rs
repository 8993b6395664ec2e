//! Requests of a session and their answers, in no protocol's form.

use std::time::Duration;

use gymkhana_driver::Reply;
use gymkhana_record::{
    Call, Content, Ending, EpisodeId, Failure, Function, NamedValue, PluginScore, SeatFunctions, TaskRef, WrittenCall,
    text_of,
};
use serde_json::Value as Json;

use crate::error::{Owner, ServeError};

/// What a session is opened for.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionTarget {
    /// Episodes of an environment, with all tools of the server.
    /// [`ClientSession::reset`](super::ClientSession::reset) begins each.
    Environment {
        /// Its name, short or with its namespace; `None` for the only one.
        name: Option<String>,
        /// Options instead of those of the configuration; empty for those alone.
        options: Vec<NamedValue>,
    },
    /// The tools without an environment. The session begins at once:
    /// [`ClientSession::call`](super::ClientSession::call) works without a reset, and a reset begins again with fresh
    /// tools.
    Tools {
        /// Seed of the tools; drawn if there is none.
        seed: Option<u64>,
    },
}

/// A turn of the seat to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRequest {
    /// The seat that the client means; `None` for the one to move. Another seat's turn is refused.
    pub seat: Option<u32>,
    /// Text and calls.
    pub reply: Reply,
    /// The number of the turn that this is, from 0 in each episode; `None` if the protocol does not number turns. A turn
    /// that is repeated with its number gets the first answer again.
    pub turn: Option<u64>,
}

impl TurnRequest {
    /// A message.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        Self { seat: None, reply: Reply { thoughts: None, message: text.into(), calls: vec![] }, turn: None }
    }

    /// One call. Arguments that are not an object are a malformed call, which the agent pays for.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: &Json) -> Self {
        let call = match arguments {
            Json::Object(_) => WrittenCall::Sound { name: name.into(), arguments: arguments.to_string() },
            other => WrittenCall::malformed(&other.to_string(), "the arguments are not a JSON object"),
        };
        Self { seat: None, reply: Reply { thoughts: None, message: String::new(), calls: vec![call] }, turn: None }
    }

    /// The same for this seat.
    #[must_use]
    pub fn by(self, seat: u32) -> Self {
        Self { seat: Some(seat), ..self }
    }

    /// The same as this turn of the episode.
    #[must_use]
    pub fn as_turn(self, turn: u64) -> Self {
        Self { turn: Some(turn), ..self }
    }
}

/// The start of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetResult {
    /// The task.
    pub task: TaskRef,
    /// The seed, with which another session begins the same episode.
    pub seed: u64,
    /// First observations: seat and content.
    pub observations: Vec<(u32, Content)>,
    /// Functions of each seat: the environment's and the tools'.
    pub offered: Vec<SeatFunctions>,
    /// Seat to move.
    pub seat: u32,
}

impl ResetResult {
    /// Functions of the seat to move.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        let own = self.offered.iter().find(|offered| offered.seat == self.seat);
        own.map_or(&[], |own| own.functions.as_slice())
    }

    /// Text of the first observations of a seat.
    #[must_use]
    pub fn text(&self, seat: u32) -> String {
        joined(&self.observations, seat)
    }
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    /// The call as the host numbered it; name and arguments are empty for a call that was malformed.
    pub call: Call,
    /// The answer.
    pub content: Content,
    /// The party that made the call fail; `None` if it did not.
    pub failed: Option<Owner>,
}

impl CallAnswer {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.content)
    }

    /// The answer as a JSON object, if it is the text of one.
    #[must_use]
    pub fn structured(&self) -> Option<Json> {
        let text = self.text();
        let looks = text.trim_start().starts_with('{');
        looks.then(|| serde_json::from_str(&text).ok()).flatten().filter(Json::is_object)
    }
}

/// The answer to a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnAnswer {
    /// Number of the turn in its episode, from 0.
    pub turn: u64,
    /// The seat that acted.
    pub seat: u32,
    /// Answers to the calls, in their order.
    pub answers: Vec<CallAnswer>,
    /// Observations of all seats beside those answers: seat and content.
    pub observations: Vec<(u32, Content)>,
    /// Reward of each seat, as rewards of the environment count in training. The last turn's adds the reward plugins', so
    /// that the sum over an episode is its reward in training.
    pub rewards: Vec<f64>,
    /// How the episode ended; `None` while it continues.
    pub ending: Option<Ending>,
    /// Facts of the environment for records and trainers, not for agents.
    pub extras: Vec<NamedValue>,
    /// Failures of plugins and the host in this turn.
    pub failures: Vec<Failure>,
    /// Seat to move.
    pub next_seat: u32,
    /// Scores of the episode, with the turn that ended it.
    pub score: Option<EpisodeScore>,
}

impl TurnAnswer {
    /// Whether the episode is over.
    #[must_use]
    pub fn done(&self) -> bool {
        self.ending.is_some()
    }

    /// Reward of a seat in this turn.
    #[must_use]
    pub fn reward(&self, seat: u32) -> f64 {
        self.rewards.get(seat as usize).copied().unwrap_or(0.0)
    }

    /// Text that a seat sees after this turn: its answers, then its observations, on lines of their own.
    #[must_use]
    pub fn text(&self, seat: u32) -> String {
        let answers = self.answers.iter().filter(|_| seat == self.seat).map(CallAnswer::text);
        let observations = joined(&self.observations, seat);
        let texts: Vec<String> = answers.chain([observations]).filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }

    /// The failure that ended the episode, if a failure did.
    #[must_use]
    pub fn fatal(&self) -> Option<ServeError> {
        match self.ending {
            Some(Ending::EnvironmentFailed | Ending::Dropped) => self.failures.last().map(ServeError::from),
            _ => None,
        }
    }
}

/// Scores of an ended episode.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeScore {
    /// Reward of each seat, as training would use it.
    pub rewards: Vec<f64>,
    /// Whether the success rule holds.
    pub success: bool,
    /// Scores of each reward plugin.
    pub plugins: Vec<PluginScore>,
    /// Failures of reward plugins.
    pub failures: Vec<Failure>,
}

/// What the seat to move saw last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastObservation {
    /// The seat to move.
    pub seat: u32,
    /// Its last observations, in their order.
    pub contents: Vec<Content>,
    /// Number of the next turn in its episode, from 0.
    pub turn: u64,
    /// Whether the episode is over.
    pub done: bool,
}

/// What is left of a closed session that has played an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Id of the last episode's record.
    pub record: EpisodeId,
    /// How that episode ended.
    pub ending: Ending,
    /// Its scores.
    pub score: EpisodeScore,
}

/// The state of a session, for clients that ask for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Name of the environment; `tools-only` for a tool session.
    pub environment: String,
    /// Number of episodes begun.
    pub episodes: u64,
    /// The episode, running or ended; `None` before the first reset.
    pub episode: Option<EpisodeStatus>,
}

/// The state of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeStatus {
    /// Id of its record, in the folder of its environment.
    pub record: EpisodeId,
    /// The task.
    pub task: TaskRef,
    /// The seed.
    pub seed: u64,
    /// Turns taken by all seats.
    pub turns: u64,
    /// Seat to move.
    pub seat: u32,
    /// Sum of the rewards of each seat so far.
    pub rewards: Vec<f64>,
    /// How it ended; `None` while it continues.
    pub ending: Option<Ending>,
    /// Time since its start.
    pub age: Duration,
}

fn joined(observations: &[(u32, Content)], seat: u32) -> String {
    let texts: Vec<String> =
        observations.iter().filter(|(own, _)| *own == seat).map(|(_, content)| text_of(content)).collect();
    texts.join("\n")
}
