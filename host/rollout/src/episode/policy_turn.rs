//! One turn of a policy: its reply is parsed, tools or the environment answer, and the seats' contexts grow.

use std::time::Instant;

use gymkhana_record::{Call, CallSite, Ending, Part, PolicyTurn, Turn, text_of};
use gymkhana_sandbox::{Action, StepResult};
use tracing::{Instrument, info_span};

use crate::RolloutError;
use crate::episode::generate::SampledReply;
use crate::episode::state::{EpisodeState, milliseconds};
use crate::metrics::WaitKind;
use crate::reward::sum;
use crate::tools::session::{NumberedCall, ToolAnswer};
use gymkhana_chat::Role;
use gymkhana_chat::WrittenCall;

impl EpisodeState<'_> {
    /// Does what the seat to move said; gives the ending if the episode ends with it.
    pub(crate) async fn take_turn(&mut self, said: &SampledReply) -> Result<Option<Ending>, RolloutError> {
        let SampledReply { sampled, stopped, probe_score } = said;
        let seat = self.data.seat;
        let text = self.rollout.chat.decode_reply(&sampled.tokens)?;
        let context = &mut self.data.contexts[seat as usize];
        let (turn, is_note) = (context.turns, context.asks_for_note());
        context.speak(&text, sampled, *stopped)?;
        let note = is_note.then(|| text.clone());
        let (transcript, steps) = (self.data.turns.len() as u32, self.data.steps);
        self.data.policy_turns.push(PolicyTurn { seat, turn, transcript, steps, probe_score: *probe_score, note });
        if is_note {
            return Ok(None);
        }
        self.data.results[seat as usize].clear();
        let functions = &self.data.contexts[seat as usize].functions;
        let reply = self.rollout.chat.parse_reply(&text, functions);
        let says = |text: String| Turn::Message { seat, content: vec![Part::Text(text)] };
        if reply.calls.is_empty() {
            self.data.turns.push(says(reply.message.clone()));
            return Ok(self.step(seat, Action::Message(&[Part::Text(reply.message)])).await.err());
        }
        if !reply.message.is_empty() {
            self.data.turns.push(says(reply.message));
        }
        self.answer_calls(seat, reply.calls).await
    }

    /// Answers a turn's calls: tools side by side, the environment's own functions in their order.
    async fn answer_calls(&mut self, seat: u32, written: Vec<WrittenCall>) -> Result<Option<Ending>, RolloutError> {
        if self.data.calls as usize + written.len() > self.rollout.limits.calls as usize {
            return Ok(Some(Ending::CallLimit));
        }
        let calls: Vec<NumberedCall> = written.into_iter().map(|written| self.number(written)).collect();
        for call in calls.iter().map(NumberedCall::recorded) {
            let cost = self.data.contexts[seat as usize].functions.iter().find(|function| function.name == call.name);
            let cost = cost.map_or(0.0, |function| function.cost);
            self.data.turns.push(Turn::Call { seat, call: call.clone(), cost });
        }
        let since = Instant::now();
        let answers = self.toolbox.answer(&calls).await;
        self.data.timing.tool_ms += milliseconds(since);
        let mut ending = None;
        for (numbered, answer) in calls.iter().zip(answers) {
            let call = numbered.recorded();
            let answer = match (numbered, answer) {
                (NumberedCall::Malformed { reason, .. }, _) => ToolAnswer::failed(reason.clone()),
                (NumberedCall::Sound(_), Some(answer)) => answer,
                (NumberedCall::Sound(_), None) if self.data.contexts[seat as usize].answers(&call.name) => {
                    match self.data.contexts[seat as usize].edit(&call.arguments) {
                        Ok(done) => ToolAnswer::said(done),
                        Err(reason) => ToolAnswer::failed(reason),
                    }
                }
                (NumberedCall::Sound(_), None) if self.is_own_function(seat, &call.name) => {
                    if ending.is_some() {
                        ToolAnswer::failed("the episode is over".to_owned())
                    } else if self.data.seat != seat {
                        ToolAnswer::failed("it is not your turn".to_owned())
                    } else {
                        // What the environment shows this seat first is the answer; `step` has recorded it.
                        ending = self.step(seat, Action::Call(call)).await.err();
                        continue;
                    }
                }
                (NumberedCall::Sound(_), None) => ToolAnswer::failed(self.unknown_function(seat, &call.name)),
            };
            self.data.failures.extend(answer.failure);
            self.data.costs.extend(answer.cost);
            self.data.exchanges.extend(answer.exchanges);
            let text = text_of(&answer.content);
            self.data.contexts[seat as usize].hear(Role::Tool, &text);
            self.data.results[seat as usize].push(text);
            self.data.turns.push(Turn::Answer {
                seat,
                id: call.id.clone(),
                content: answer.content,
                failed: answer.failed,
            });
        }
        Ok(ending)
    }

    /// Gives a written call its id; a malformed one keeps its text and the parser's error.
    fn number(&mut self, written: WrittenCall) -> NumberedCall {
        let id = format!("call-{}", self.data.calls);
        self.data.calls += 1;
        match written {
            WrittenCall::Sound { name, arguments } => NumberedCall::Sound(Call { id, name, arguments }),
            WrittenCall::Malformed { text, reason } => {
                NumberedCall::Malformed { call: Call::malformed(id, text), reason }
            }
        }
    }

    fn is_own_function(&self, seat: u32, name: &str) -> bool {
        let known = self.data.contexts[seat as usize].functions.iter().any(|function| function.name == name);
        known && !self.rollout.plugins.directory.contains_key(name)
    }

    fn unknown_function(&self, seat: u32, name: &str) -> String {
        let functions = &self.data.contexts[seat as usize].functions;
        let known: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        if known.is_empty() {
            return format!("unknown function `{name}`; this seat has 0 functions");
        }
        format!("unknown function `{name}`; known: {}", known.join(", "))
    }

    /// Acts for a seat and hands round what the environment says.
    async fn step(&mut self, seat: u32, action: Action<'_>) -> Result<(), Ending> {
        let site = CallSite::Step(self.data.steps);
        self.data.steps += 1;
        let since = Instant::now();
        let stepped = match self.data.overrides.failure(&self.rollout.environment_boundary(), &site) {
            Some(failure) => Err(failure),
            None => {
                let timer = self.rollout.metrics.time(WaitKind::Environment);
                let span = info_span!("step", number = self.data.steps - 1, seat);
                let stepped = self.environment.step(seat, action).instrument(span).await;
                drop(timer);
                let stepped = stepped.map_err(|error| self.rollout.environment_failure(site.clone(), error));
                self.pay(site);
                stepped
            }
        };
        self.data.timing.environment_ms += milliseconds(since);
        match stepped {
            Ok(stepped) => self.take_in(stepped, seat, action),
            Err(failure) => {
                self.data.failures.push(failure);
                Err(Ending::EnvironmentFailed)
            }
        }
    }

    fn take_in(&mut self, stepped: StepResult, mover: u32, action: Action<'_>) -> Result<(), Ending> {
        for rewards in &mut self.data.rewards {
            let earned = stepped.rewards.iter().filter(|(seat, _)| *seat == rewards.seat);
            rewards.rewards.push(sum(earned.map(|(_, reward)| *reward)));
        }
        let mut call = match action {
            Action::Call(call) => Some(call),
            Action::Message(_) | Action::Other(_) => None,
        };
        for (seat, content) in stepped.observations {
            let text = text_of(&content);
            match call.take_if(|_| seat == mover) {
                Some(call) => {
                    self.data.contexts[seat as usize].hear(Role::Tool, &text);
                    self.data.results[seat as usize].push(text);
                    self.data.turns.push(Turn::Answer { seat, id: call.id.clone(), content, failed: false });
                }
                None => self.show(seat, content),
            }
        }
        if let Some(call) = call {
            // The environment had nothing to say; the call is answered all the same.
            self.data.contexts[mover as usize].hear(Role::Tool, "");
            self.data.turns.push(Turn::Answer { seat: mover, id: call.id.clone(), content: vec![], failed: false });
        }
        self.data.extras = stepped.extras;
        self.data.seat = stepped.seat;
        if stepped.terminated {
            Err(Ending::Terminated)
        } else if stepped.truncated {
            Err(Ending::Truncated)
        } else {
            Ok(())
        }
    }
}
