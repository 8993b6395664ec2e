//! The transcript of one seat as events: what it heard, and what it did.

use std::collections::HashSet;

use gymkhana_record::{Call, EpisodeRecord, Turn, text_of};

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TraceEvent<'r> {
    /// An observation.
    Heard(String),
    /// The answer to a call.
    Answered {
        /// The call; none if its text could not be parsed, so that no call has an id.
        id: Option<&'r str>,
        /// The answer, or the reason of the failure.
        text: String,
        /// Whether the call failed.
        failed: bool,
    },
    /// A message, calls, or both.
    Did(AgentAction<'r>),
}

/// A message, calls, or both.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct AgentAction<'r> {
    /// The policy's reply of this number; none for an action that no policy took, such as the output of an agent program.
    pub reply: Option<u32>,
    /// Thoughts before the text and the calls.
    pub thoughts: Option<&'r str>,
    /// Text outside the calls.
    pub text: Option<String>,
    /// Calls.
    pub calls: Vec<&'r Call>,
    /// Texts in the position of calls that could not be parsed, with the ids that their answers name.
    pub malformed: Vec<(&'r str, &'r str)>,
    /// Whether the text is a summary for the policy itself.
    pub is_note: bool,
}

impl AgentAction<'_> {
    /// The text outside of the calls. Calls that could not be parsed stay in it.
    pub fn said(&self) -> String {
        let malformed = self.malformed.iter().map(|(_, text)| *text);
        let texts = self.text.as_deref().into_iter().chain(malformed).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Seats that occur in a transcript, with repeats.
pub(crate) fn seats(record: &EpisodeRecord) -> impl Iterator<Item = u32> {
    record.turns.iter().map(|turn| match turn {
        Turn::Thought { seat, .. }
        | Turn::Message { seat, .. }
        | Turn::Call { seat, .. }
        | Turn::MalformedCall { seat, .. }
        | Turn::Answer { seat, .. }
        | Turn::Observation { seat, .. } => *seat,
    })
}

/// The events of a seat.
pub(crate) fn events(record: &EpisodeRecord, seat: u32) -> Vec<TraceEvent<'_>> {
    let own_calls = record.agent.iter().flat_map(|run| &run.calls).filter(|call| !call.listed);
    let mut builder =
        EventBuilder { own_calls: own_calls.map(|call| call.call.id.as_str()).collect(), ..EventBuilder::default() };
    for (place, (turn, of)) in record.turns.iter().zip(seats(record)).enumerate() {
        builder.begin_replies(record, seat, place as u32);
        if of == seat {
            builder.add(turn);
        }
    }
    builder.begin_replies(record, seat, record.turns.len() as u32);
    builder.close();
    builder.events
}

#[derive(Default)]
struct EventBuilder<'r> {
    events: Vec<TraceEvent<'r>>,
    /// The action that further calls belong to.
    open: Option<AgentAction<'r>>,
    /// Ids of calls that the agent program made for itself.
    own_calls: HashSet<&'r str>,
    /// Ids of texts in the position of calls that could not be parsed.
    malformed: HashSet<&'r str>,
    /// Answers to these texts, which follow those to calls: formats want the latter directly after their calls.
    late: Vec<TraceEvent<'r>>,
}

impl<'r> EventBuilder<'r> {
    /// Begins the replies before this entry of the transcript.
    fn begin_replies(&mut self, record: &'r EpisodeRecord, seat: u32, place: u32) {
        for turn in record.policy_turns.iter().filter(|turn| turn.seat == seat && turn.transcript == place) {
            self.close();
            let (text, is_note) = (turn.note.clone(), turn.note.is_some());
            self.open = Some(AgentAction { reply: Some(turn.turn), text, is_note, ..AgentAction::default() });
            if is_note {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.events.append(&mut self.late);
        self.events.extend(self.open.take().map(TraceEvent::Did));
    }

    /// The open action, or a new one that no policy took.
    fn action(&mut self) -> &mut AgentAction<'r> {
        self.open.get_or_insert_with(AgentAction::default)
    }

    fn add(&mut self, turn: &'r Turn) {
        match turn {
            Turn::Thought { text, .. } => {
                // A reply has its thoughts before everything else.
                let began =
                    |open: &AgentAction<'_>| open.thoughts.is_some() || open.text.is_some() || !open.calls.is_empty();
                if self.open.as_ref().is_some_and(began) {
                    self.close();
                }
                self.action().thoughts = Some(text);
            }
            Turn::Observation { content, .. } => {
                self.close();
                self.events.push(TraceEvent::Heard(text_of(content)));
            }
            Turn::Answer { id, content, failed, .. } => {
                if self.open.is_some() {
                    self.close();
                }
                let is_malformed = self.malformed.contains(id.as_str());
                let id = (!is_malformed).then_some(id.as_str());
                let answer = TraceEvent::Answered { id, text: text_of(content), failed: *failed };
                if is_malformed { self.late.push(answer) } else { self.events.push(answer) }
            }
            Turn::Message { content, .. } => {
                // A reply has one message, before its calls.
                if self.open.as_ref().is_some_and(|open| open.text.is_some() || !open.calls.is_empty()) {
                    self.close();
                }
                self.action().text = Some(text_of(content));
            }
            Turn::Call { call, .. } => {
                let is_own = self.own_calls.contains(call.id.as_str());
                if is_own {
                    self.close();
                }
                self.action().calls.push(call);
            }
            Turn::MalformedCall { id, text, .. } => {
                self.malformed.insert(id);
                self.action().malformed.push((id, text));
            }
        }
    }
}
