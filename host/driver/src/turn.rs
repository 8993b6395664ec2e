//! A turn of a seat: its message or calls go to the environment and the tools, and the transcript grows.
//!
//! The transcript follows the order of the calls and not the order in which answers arrive, so that a record does not
//! depend on scheduling.

use std::time::Instant;

use gymkhana_record::{Call, CallSite, Content, Ending, LogEntry, Part, Turn, WrittenCall, text_of};
use gymkhana_sandbox::{Action, Advice, StepResult};
use serde::{Deserialize, Serialize};
use tracing::{Instrument, info_span};

use crate::episode::{Episode, milliseconds};
use crate::hooks::{Hooks, TimedCall};
use crate::tools::session::ToolAnswer;

/// Text and calls of a seat in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Thoughts before the message. The record and rewards that ask for them see them, environments and other seats do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thoughts: Option<String>,
    /// Text outside the calls.
    pub message: String,
    /// Calls, in their order.
    pub calls: Vec<WrittenCall>,
}

/// The id of the call that follows this number of calls in its episode.
#[must_use]
pub fn call_id(calls: u32) -> String {
    format!("call-{calls}")
}

impl From<Advice> for Reply {
    /// The turn that an oracle advises.
    fn from(advice: Advice) -> Self {
        match advice {
            Advice::Message(message) => Self { thoughts: None, message, calls: vec![] },
            Advice::Calls(calls) => {
                let written = |call: Call| WrittenCall::Sound { name: call.name, arguments: call.arguments };
                Self { thoughts: None, message: String::new(), calls: calls.into_iter().map(written).collect() }
            }
        }
    }
}

/// A call of a program that was not performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallRefusal {
    /// The limit of calls is reached.
    #[error("the episode's {0} calls are used up")]
    Calls(u32),
    /// The record has no room for the call.
    #[error("the episode has no room for the call")]
    Room,
}

/// A call with its id.
enum NumberedCall {
    /// A call that names a function.
    Sound(Call),
    /// A call that could not be parsed, with the reason that answers it.
    Malformed { id: String, reason: String },
}

impl NumberedCall {
    fn sound(&self) -> Option<&Call> {
        match self {
            Self::Sound(call) => Some(call),
            Self::Malformed { .. } => None,
        }
    }
}

impl Episode {
    /// Takes a turn of the seat to move. Returns the ending if the episode ends with it. `max_calls` limits the number
    /// of calls of all seats in the episode.
    pub async fn take_turn<H: Hooks>(&mut self, hooks: &mut H, reply: Reply, max_calls: u32) -> Option<Ending> {
        let seat = self.data.seat;
        if let Some(results) = self.data.results.get_mut(seat as usize) {
            results.clear();
        }
        if let Some(text) = reply.thoughts.filter(|text| !text.is_empty()) {
            self.record(hooks, Turn::Thought { seat, text });
        }
        if reply.calls.is_empty() {
            return self.say(hooks, vec![Part::Text(reply.message)]).await.err();
        }
        if !reply.message.is_empty() {
            self.record(hooks, Turn::Message { seat, content: vec![Part::Text(reply.message)] });
        }
        if self.data.calls as usize + reply.calls.len() > max_calls as usize {
            return Some(Ending::CallLimit);
        }
        self.answer_calls(hooks, seat, reply.calls).await
    }

    /// Says a message for the seat to move.
    ///
    /// # Errors
    /// The ending, if the episode ended. A failure of the environment is added to the episode's failures.
    pub async fn say<H: Hooks>(&mut self, hooks: &mut H, content: Content) -> Result<(), Ending> {
        let turn = Turn::Message { seat: self.data.seat, content: content.clone() };
        self.record(hooks, turn);
        self.step(hooks, Action::Message(&content)).await
    }

    /// Answers the calls of a turn: tools concurrently, then the owner and the environment in the calls' order.
    async fn answer_calls<H: Hooks>(&mut self, hooks: &mut H, seat: u32, written: Vec<WrittenCall>) -> Option<Ending> {
        let calls: Vec<NumberedCall> = written.into_iter().map(|call| self.number(hooks, seat, call)).collect();
        // Tools answer the seats to which they are offered.
        let offered = |call: &&Call| self.data.offers(seat, &call.name);
        let sound: Vec<Option<&Call>> = calls.iter().map(|call| call.sound().filter(offered)).collect();
        let since = Instant::now();
        let answers = self.toolbox.answer(hooks, &sound).await;
        self.data.timing.tool_ms += milliseconds(since);
        let mut ending = None;
        for (call, answer) in calls.into_iter().zip(answers) {
            ending = self.end_turn(hooks, seat, call, answer, ending).await;
        }
        ending
    }

    /// Answers a call that a program makes for the seat to move, outside the policy's turns. `listed` says that the
    /// transcript holds the call already, as a call of the policy. Returns the ending if the environment ended the
    /// episode with it.
    ///
    /// # Errors
    /// If the episode has no call or no room left. Nothing is called or recorded then.
    pub async fn answer_call<H: Hooks>(
        &mut self,
        hooks: &mut H,
        call: Call,
        listed: bool,
        max_calls: u32,
    ) -> Result<Option<Ending>, CallRefusal> {
        let seat = self.data.seat;
        if self.data.calls >= max_calls {
            return Err(CallRefusal::Calls(max_calls));
        }
        if !listed {
            self.data.budget.charge(&call).map_err(|_| CallRefusal::Room)?;
        }
        self.data.calls += 1;
        if !listed {
            let cost = self.cost_of(seat, &call.name);
            self.record(hooks, Turn::Call { seat, call: call.clone(), cost });
        }
        let since = Instant::now();
        let offered = Some(&call).filter(|call| self.data.offers(seat, &call.name));
        let answer = self.toolbox.answer(hooks, &[offered]).await.pop().flatten();
        self.data.timing.tool_ms += milliseconds(since);
        Ok(self.end_turn(hooks, seat, NumberedCall::Sound(call), answer, self.data.ending).await)
    }

    /// Adds the answer to a call to the transcript: the tool's answer, the owner's, or that of the environment, which
    /// steps. `ending` is that of an earlier call; returns the ending after this one.
    async fn end_turn<H: Hooks>(
        &mut self,
        hooks: &mut H,
        seat: u32,
        call: NumberedCall,
        answer: Option<ToolAnswer>,
        ending: Option<Ending>,
    ) -> Option<Ending> {
        let (id, answer) = match (call, answer) {
            (NumberedCall::Malformed { id, reason }, _) => (id, ToolAnswer::failed(reason)),
            (NumberedCall::Sound(call), Some(answer)) => (call.id, answer),
            (NumberedCall::Sound(call), None) => match hooks.answer(seat, &call) {
                Some(Ok(done)) => (call.id, ToolAnswer::success(done)),
                Some(Err(reason)) => (call.id, ToolAnswer::failed(reason)),
                None => match self.refusal(seat, &call, ending) {
                    Some(reason) => (call.id, ToolAnswer::failed(reason)),
                    // The first observation of this seat is the answer; `step` records it.
                    None => return self.step(hooks, Action::Call(&call)).await.err(),
                },
            },
        };
        let answer = answer.with_budget(&mut self.data.budget);
        let logs = answer.logs.into_iter().map(|entry| LogEntry { seat: Some(seat), ..entry }).collect();
        self.data.log(logs);
        self.data.failures.extend(answer.failure);
        self.data.costs.extend(answer.cost);
        self.data.exchanges.extend(answer.exchanges);
        self.add_result(seat, text_of(&answer.content));
        self.record(hooks, Turn::Answer { seat, id, content: answer.content, failed: answer.failed });
        ending
    }

    /// Cost of a call of this function, in its author's unit.
    fn cost_of(&self, seat: u32, function: &str) -> f64 {
        let function = self.data.functions(seat).iter().find(|offered| offered.name == function);
        function.map_or(0.0, |function| function.cost)
    }

    /// Gives a call its id and adds it to the transcript.
    fn number<H: Hooks>(&mut self, hooks: &mut H, seat: u32, written: WrittenCall) -> NumberedCall {
        let id = call_id(self.data.calls);
        self.data.calls += 1;
        match written {
            WrittenCall::Sound { name, arguments } => {
                let cost = self.cost_of(seat, &name);
                let call = Call { id, name, arguments };
                self.record(hooks, Turn::Call { seat, call: call.clone(), cost });
                NumberedCall::Sound(call)
            }
            WrittenCall::Malformed { text, reason } => {
                self.record(hooks, Turn::MalformedCall { seat, id: id.clone(), text });
                NumberedCall::Malformed { id, reason }
            }
        }
    }

    /// Reason why the environment does not answer this call; `None` if it does.
    fn refusal(&self, seat: u32, call: &Call, ending: Option<Ending>) -> Option<String> {
        let functions = self.data.functions(seat);
        if self.data.offers(seat, &call.name) {
            return if ending.is_some() {
                Some("the episode is over".to_owned())
            } else if self.data.seat != seat {
                Some("it is not your turn".to_owned())
            } else {
                None
            };
        }
        if functions.is_empty() {
            return Some(format!("unknown function `{}`; this seat has 0 functions", call.name));
        }
        let known: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        Some(format!("unknown function `{}`; known: {}", call.name, known.join(", ")))
    }

    fn add_result(&mut self, seat: u32, text: String) {
        if let Some(results) = self.data.results.get_mut(seat as usize) {
            results.push(text);
        }
    }

    /// Performs an action of the seat to move.
    ///
    /// # Errors
    /// The ending, if the episode ended. A failure of the environment is added to the episode's failures.
    pub async fn step<H: Hooks>(&mut self, hooks: &mut H, action: Action<'_>) -> Result<(), Ending> {
        let (seat, number) = (self.data.seat, self.data.steps);
        let site = CallSite::Step(number);
        self.data.steps += 1;
        let since = Instant::now();
        let stepped = match self.overridden(&site) {
            Some(failure) => Err(failure),
            None => {
                let timer = hooks.time(TimedCall::Environment);
                let stepped = self.environment.step(seat, action).instrument(info_span!("step", number, seat)).await;
                drop(timer);
                self.account(&site, Some(seat));
                let room = |stepped: StepResult| {
                    let budget = &mut self.data.budget;
                    budget.charge(&(&stepped.observations, &stepped.extras)).map(|()| stepped)
                };
                stepped.and_then(room).map_err(|error| self.failure(site, error))
            }
        };
        self.data.timing.environment_ms += milliseconds(since);
        let ending = match stepped {
            Ok(stepped) => {
                hooks.stepped(&stepped);
                self.accept(hooks, stepped, seat, action)
            }
            Err(failure) => {
                self.data.failures.push(failure);
                Some(Ending::EnvironmentFailed)
            }
        };
        self.data.ending = ending;
        ending.map_or(Ok(()), Err)
    }

    /// Adds the result of a step to the transcript. The first observation of the mover answers its call.
    fn accept<H: Hooks>(
        &mut self,
        hooks: &mut H,
        stepped: StepResult,
        mover: u32,
        action: Action<'_>,
    ) -> Option<Ending> {
        for rewards in &mut self.data.rewards {
            let earned = stepped.rewards.iter().filter(|(seat, _)| *seat == rewards.seat);
            rewards.rewards.push(earned.map(|(_, reward)| *reward).fold(0.0, |sum, reward| sum + reward));
        }
        let mut call = match action {
            Action::Call(call) => Some(call),
            Action::Message(_) | Action::Other(_) => None,
        };
        for (seat, content) in stepped.observations {
            match call.take_if(|_| seat == mover) {
                Some(call) => {
                    self.add_result(seat, text_of(&content));
                    self.record(hooks, Turn::Answer { seat, id: call.id.clone(), content, failed: false });
                }
                None => self.observe(hooks, seat, content),
            }
        }
        if let Some(call) = call {
            // The environment showed nothing to this seat; the call still needs an answer.
            self.record(hooks, Turn::Answer { seat: mover, id: call.id.clone(), content: vec![], failed: false });
        }
        self.data.extras = stepped.extras;
        if stepped.terminated {
            Some(Ending::Terminated)
        } else if stepped.truncated {
            Some(Ending::Truncated)
        } else {
            self.data.seat = stepped.seat;
            None
        }
    }
}
