//! Constructors and accessors of splits, results of steps and actions.

use crate::environment::exports::gymkhana::plugin::environment::{
    Action, ActionBody, Observation, SeatReward, SplitInfo, StepResult,
};
use crate::{Call, Content, Value, named, text, text_of};

impl SplitInfo {
    /// Split of `tasks` tasks.
    #[must_use]
    pub fn of(name: impl Into<String>, tasks: u64) -> Self {
        Self { name: name.into(), tasks: Some(tasks) }
    }

    /// Split whose tasks are generated without limit.
    #[must_use]
    pub fn endless(name: impl Into<String>) -> Self {
        Self { name: name.into(), tasks: None }
    }
}

impl StepResult {
    /// Empty result: the episode continues with seat 0 to move.
    #[must_use]
    pub fn new() -> Self {
        Self {
            observations: Vec::new(),
            rewards: Vec::new(),
            terminated: false,
            truncated: false,
            extras: Vec::new(),
            next_seat: 0,
        }
    }

    /// Result with one observation, for seat 0.
    #[must_use]
    pub fn observe(words: impl Into<String>) -> Self {
        Self::new().show(0, text(words))
    }

    /// Adds an observation.
    #[must_use]
    pub fn show(mut self, seat: u32, content: Content) -> Self {
        self.observations.push(Observation { seat, content });
        self
    }

    /// Adds a reward for seat 0.
    #[must_use]
    pub fn reward(self, reward: f64) -> Self {
        self.reward_to(0, reward)
    }

    /// Adds a reward for a seat.
    #[must_use]
    pub fn reward_to(mut self, seat: u32, reward: f64) -> Self {
        self.rewards.push(SeatReward { seat, reward });
        self
    }

    /// Ends the episode: won, lost or otherwise decided.
    #[must_use]
    pub fn end(mut self) -> Self {
        self.terminated = true;
        self
    }

    /// Truncates the episode, for example at a turn limit.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.truncated = true;
        self
    }

    /// Adds a fact for records and rewards, such as `success`. Policies never see it.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extras.push(named(name, value));
        self
    }

    /// Sets the seat to move.
    #[must_use]
    pub fn next_seat(mut self, seat: u32) -> Self {
        self.next_seat = seat;
        self
    }
}

impl Default for StepResult {
    fn default() -> Self {
        Self::new()
    }
}

impl Action {
    /// Message of a seat.
    #[must_use]
    pub fn say(seat: u32, words: impl Into<String>) -> Self {
        Self { seat, body: ActionBody::Message(text(words)) }
    }

    /// Text of the message; empty for a call.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.body {
            ActionBody::Message(content) | ActionBody::Other(content) => text_of(content),
            ActionBody::Call(_) => String::new(),
        }
    }

    /// Function call; `None` for a message.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        match &self.body {
            ActionBody::Call(call) => Some(call),
            ActionBody::Message(_) | ActionBody::Other(_) => None,
        }
    }
}
