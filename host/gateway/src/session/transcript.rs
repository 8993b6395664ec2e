//! The transcript of a session: what the program said to the policy, and what the policy said.

use std::collections::HashSet;

use gymkhana_chat::Role;
use gymkhana_record::{Call, Part, PolicyTurn, Turn};

use crate::dialect::{ApiError, ErrorClass, InputMessage, ModelReply};
use crate::graph::Key;

/// The one seat that a program plays.
const SEAT: u32 = 0;

/// The transcript so far.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    turns: Vec<Turn>,
    policy_turns: Vec<PolicyTurn>,
    /// Messages that the transcript holds. An edited history repeats most of its messages.
    known: HashSet<Key>,
    bytes: u64,
}

impl Transcript {
    /// Counts the messages of a request that are new.
    ///
    /// # Errors
    /// If all messages together exceed `limit`.
    pub(super) fn charge(&mut self, messages: &[InputMessage], limit: u64) -> Result<(), ApiError> {
        let new = messages.iter().filter(|message| !self.known.contains(&Key::of_message(message)));
        let bytes: usize = new.map(|message| message.text.len() + call_bytes(message)).sum();
        let total = self.bytes.saturating_add(bytes as u64);
        if total > limit {
            let message = format!(
                "the episode's messages would have {total} bytes, but the record may hold {limit}\nhint: raise \
                 `limits.episode_mib`, or send less"
            );
            return Err(ApiError::new(ErrorClass::TooLarge, message));
        }
        self.bytes = total;
        Ok(())
    }

    /// Adds messages of the program to the policy. Messages of the assistant that the policy did not sample are no
    /// observations. An `edited` history repeats most of its messages, which are not added again.
    pub(super) fn hear(&mut self, messages: &[InputMessage], edited: bool) {
        for message in messages {
            let is_new = self.known.insert(Key::of_message(message));
            let content = vec![Part::Text(message.text.clone())];
            let turn = match message.role {
                Role::System | Role::Assistant => continue,
                Role::User => Turn::Observation { seat: SEAT, content },
                Role::Tool => {
                    let id = message.call_id.clone().unwrap_or_default();
                    Turn::Answer { seat: SEAT, id, content, failed: false }
                }
            };
            if is_new || !edited {
                self.turns.push(turn);
            }
        }
    }

    /// Adds a reply of the policy.
    pub(super) fn speak(&mut self, number: u32, reply: &ModelReply) {
        let transcript = self.turns.len() as u32;
        self.policy_turns.push(PolicyTurn {
            seat: SEAT,
            turn: number,
            transcript,
            steps: 0,
            state: None,
            probe_score: None,
            note: None,
        });
        if !reply.text.is_empty() || reply.calls.is_empty() {
            self.turns.push(Turn::Message { seat: SEAT, content: vec![Part::Text(reply.text.clone())] });
        }
        for call in &reply.calls {
            let call = Call { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() };
            self.turns.push(Turn::Call { seat: SEAT, call, cost: 0.0 });
        }
    }

    pub(super) fn into_parts(self) -> (Vec<Turn>, Vec<PolicyTurn>) {
        (self.turns, self.policy_turns)
    }
}

fn call_bytes(message: &InputMessage) -> usize {
    message.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum()
}
