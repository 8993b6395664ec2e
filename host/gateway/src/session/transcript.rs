//! The transcript of a session: what the program said to the policy, and what the policy said.

use std::collections::HashSet;

use gymkhana_chat::Role;
use gymkhana_record::{Call, Part, PolicyTurn, Turn, set_call_cost};

use crate::dialect::{ApiError, ErrorClass, InputMessage, PolicyReply};
use crate::graph::{HistoryKey, canonical};

/// The one seat that a program plays.
const SEAT: u32 = 0;

/// The transcript so far.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    turns: Vec<Turn>,
    policy_turns: Vec<PolicyTurn>,
    /// Messages that the transcript holds. An edited history repeats most of its messages.
    known: HashSet<HistoryKey>,
    bytes: u64,
    /// Calls of the policy that nothing has answered: id, name and arguments.
    pending: Vec<Call>,
    /// Ids of calls that a tool of the run has answered. The program repeats the answer to the policy.
    performed: HashSet<String>,
    /// Number of the environment's steps so far.
    steps: u32,
    /// Number of entries that the journal holds.
    logged: usize,
}

impl Transcript {
    /// Bytes of all messages with those of a request that are new, by their keys.
    ///
    /// # Errors
    /// If they exceed `limit`.
    pub(super) fn bytes_with(
        &self,
        messages: &[InputMessage],
        keys: &[HistoryKey],
        limit: u64,
    ) -> Result<u64, ApiError> {
        let new = messages.iter().zip(keys).filter(|(_, key)| !self.known.contains(key));
        let bytes: usize = new.map(|(message, _)| message.bytes()).sum();
        let total = self.bytes.saturating_add(bytes as u64);
        if total > limit {
            let message = format!(
                "the episode's messages would have {total} bytes, but the record may hold {limit}\nhint: raise \
                 `limits.episode_mib`, or send less"
            );
            return Err(ApiError::new(ErrorClass::TooLarge, message));
        }
        Ok(total)
    }

    /// Sets the bytes of all messages.
    pub(super) fn charge(&mut self, total: u64) {
        self.bytes = total;
    }

    /// Adds messages of the program to the policy. Messages of the assistant that the policy did not sample are not
    /// observations. An `edited` history repeats most of its messages, which are not added again.
    pub(super) fn add_messages(&mut self, messages: &[InputMessage], keys: &[HistoryKey], edited: bool) {
        for (message, key) in messages.iter().zip(keys) {
            let is_new = self.known.insert(*key);
            let content = vec![Part::Text(message.text.clone())];
            let turn = match message.role {
                Role::System | Role::Assistant => continue,
                Role::User => Turn::Observation { seat: SEAT, content },
                Role::Tool => {
                    let id = message.call_id.clone().unwrap_or_default();
                    self.pending.retain(|call| call.id != id);
                    if self.performed.contains(&id) {
                        continue;
                    }
                    Turn::Answer { seat: SEAT, id, content, failed: false }
                }
            };
            if is_new || !edited {
                self.turns.push(turn);
            }
        }
    }

    /// Adds a reply of the policy, of which the first tokens are thoughts.
    pub(super) fn speak(&mut self, number: u32, reply: &PolicyReply, thought_tokens: u32) {
        let transcript = self.turns.len() as u32;
        self.policy_turns.push(PolicyTurn {
            seat: SEAT,
            turn: number,
            transcript,
            steps: self.steps,
            state: None,
            probe_score: None,
            thought_tokens,
            note: None,
        });
        if let Some(text) = reply.reasoning.clone().filter(|text| !text.is_empty()) {
            self.turns.push(Turn::Thought { seat: SEAT, text });
        }
        if !reply.text.is_empty() || reply.calls.is_empty() {
            self.turns.push(Turn::Message { seat: SEAT, content: vec![Part::Text(reply.text.clone())] });
        }
        for call in &reply.calls {
            let call = Call { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() };
            self.pending.push(call.clone());
            self.turns.push(Turn::Call { seat: SEAT, call, cost: 0.0 });
        }
    }

    /// Takes the id of the policy's first call of this function with these arguments that nothing has answered.
    pub(super) fn take_pending(&mut self, name: &str, arguments: &str) -> Option<String> {
        let arguments = canonical(arguments);
        let is_it = |call: &Call| is_named(&call.name, name) && canonical(&call.arguments) == arguments;
        let place = self.pending.iter().position(is_it)?;
        Some(self.pending.remove(place).id)
    }

    /// Returns a call that was taken and not performed.
    pub(super) fn put_back(&mut self, call: Call) {
        self.pending.insert(0, call);
    }

    /// Adds what the call of this id added to the transcript, and returns the position of its first entry. `cost` is the
    /// call's, and `steps` the number of the environment's steps so far.
    pub(super) fn perform(&mut self, id: &str, cost: f64, turns: Vec<Turn>, steps: u32) -> u32 {
        set_call_cost(&mut self.turns, id, cost);
        let begin = self.turns.len() as u32;
        self.turns.extend(turns);
        self.performed.insert(id.to_owned());
        self.steps = steps;
        begin
    }

    /// The entries since the last call of this function, and the last turn of the policy.
    pub(super) fn unlogged(&mut self) -> (&[Turn], Option<&PolicyTurn>) {
        let begin = std::mem::replace(&mut self.logged, self.turns.len());
        (&self.turns[begin..], self.policy_turns.last())
    }

    pub(super) fn into_parts(self) -> (Vec<Turn>, Vec<PolicyTurn>) {
        (self.turns, self.policy_turns)
    }
}

/// Whether a program that calls `tool` may pass on a call of `called`: some put a prefix before the names of tools.
fn is_named(called: &str, tool: &str) -> bool {
    let prefix = called.strip_suffix(tool);
    prefix.is_some_and(|prefix| prefix.chars().next_back().is_none_or(|sign| !sign.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_before_the_name_of_a_tool_makes_no_difference() {
        for (called, tool, same) in [
            ("add", "add", true),
            ("mcp__gymkhana__add", "add", true),
            ("gymkhana.add", "add", true),
            ("readd", "add", false),
            ("add", "mcp_add", false),
        ] {
            assert_eq!(is_named(called, tool), same, "{called} {tool}");
        }
    }
}
