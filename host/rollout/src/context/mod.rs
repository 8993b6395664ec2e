//! One seat's context: its conversation as messages and as the tokens that its policy saw.
//!
//! A segment only grows. If a strategy, an edit or the template changes earlier text, a new segment begins. It contains
//! kept replies as the tokens that were sampled, marked as given: each token is trained on only in the segment in which
//! it was sampled.

mod edits;
mod strategy;

use std::sync::Arc;

use gymkhana_record::{Function, Sampled, Segment, SegmentError};

use gymkhana_chat::{AnsweredCall, Begun, ChatError, ChatFormat, Extension, Message, Rendered, Role, SpokenParts};
use gymkhana_policy::Conversation;
use gymkhana_rules::ContextStrategy;

use crate::metrics::RestartReason;

use strategy::ContextAction;
pub(crate) use strategy::{earlier_thoughts, host_functions};

/// A message of the context.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContextMessage {
    message: Message,
    /// Turn of the reply, or of the reply before the message; `None` for messages before the first reply (the task).
    turn: Option<u32>,
    /// Whether a placeholder has replaced the text.
    left_out: bool,
}

impl ContextMessage {
    fn is_reply(&self) -> bool {
        self.message.role == Role::Assistant
    }
}

/// Kind of reply that the policy is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyKind {
    /// An action.
    Action,
    /// A note to itself, from which the context begins again.
    Note,
}

/// Context of one seat.
#[derive(Clone)]
pub(crate) struct SeatContext {
    pub(crate) conversation: Conversation,
    pub(crate) functions: Vec<Function>,
    strategy: Arc<ContextStrategy>,
    seat: u32,
    entries: Vec<ContextMessage>,
    rendered: Rendered,
    segments: Vec<Segment>,
    sampled_stop: bool,
    /// Whether all messages are in tokens, so that the policy can generate.
    prompted: bool,
    asked: ReplyKind,
    /// The reason of the last new segment, until it is counted.
    restart: Option<RestartReason>,
    /// Number of marks in new messages that became plain text, until they are counted.
    disabled_marks: u32,
    /// Prompt with the last turn's feedback hidden.
    masked: Option<Vec<u32>>,
    /// Number of turns of the policy, including notes to itself.
    pub(crate) turns: u32,
}

/// Tokens to append to a context.
struct ContextGrowth {
    tokens: Vec<u32>,
    /// Whether the tokens begin a new segment.
    fresh: bool,
    rendered: Rendered,
    /// Length of the segment afterwards, in tokens.
    total: usize,
}

impl SeatContext {
    pub(crate) fn new(
        seat: u32,
        conversation: Conversation,
        functions: Vec<Function>,
        system: Option<&str>,
        strategy: Arc<ContextStrategy>,
    ) -> Self {
        let system = system.map(|text| Message::of_text(Role::System, text));
        Self {
            conversation,
            functions,
            strategy,
            seat,
            entries: system
                .into_iter()
                .map(|message| ContextMessage { message, turn: None, left_out: false })
                .collect(),
            rendered: Rendered::default(),
            segments: vec![],
            sampled_stop: false,
            prompted: false,
            asked: ReplyKind::Action,
            restart: None,
            disabled_marks: 0,
            masked: None,
            turns: 0,
        }
    }

    /// Appends the answer to the call of this id.
    pub(crate) fn hear_answer(&mut self, id: &str, text: &str) {
        let parts = self.entries.iter().rev().filter_map(|entry| entry.message.parts.as_ref());
        let call = parts.flat_map(|parts| &parts.calls).find(|call| call.id == id);
        let answered = call.map(|call| AnsweredCall { id: call.id.clone(), name: call.name.clone() });
        self.hear(Role::Tool, text);
        if let Some(entry) = self.entries.last_mut() {
            entry.message.answers = answered;
        }
    }

    /// Appends a message that the policy sees before its next turn.
    pub(crate) fn hear(&mut self, role: Role, text: &str) {
        let turn = self.turns.checked_sub(1);
        let first = self.entries.last().is_some_and(|entry| entry.is_reply() && entry.turn == turn);
        let mark = turn.filter(|_| first && matches!(*self.strategy, ContextStrategy::Edits {})).map(edits::mark);
        let text = mark.unwrap_or_default() + text;
        self.entries.push(ContextMessage { message: Message::of_text(role, text), turn, left_out: false });
        self.prompted = false;
    }

    /// Applies the context strategy, renders the messages up to the next reply, and returns the whole segment. `None`
    /// if fewer than one of `limit` tokens is left for the reply; the messages are not added to the segment then. With
    /// a `mask`, also keeps the prompt in which the mask replaces every message since the last reply.
    pub(crate) fn prompt(
        &mut self,
        chat: &ChatFormat,
        limit: usize,
        mask: Option<&str>,
    ) -> Result<Option<&Segment>, ChatError> {
        if self.prompted {
            return Ok(self.segments.last());
        }
        let mut growth = self.growth(chat, &self.entries)?;
        match strategy::next_action(&self.strategy, &self.entries, growth.total) {
            ContextAction::Append => {}
            ContextAction::Begin(entries) => {
                self.begin_with(entries);
                growth = self.growth(chat, &self.entries)?;
            }
            ContextAction::Ask(instruction) => {
                self.asked = ReplyKind::Note;
                self.hear(Role::User, &instruction);
                growth = self.growth(chat, &self.entries)?;
            }
        }
        self.masked = match mask {
            Some(mask) => self.behind(chat, mask)?,
            None => None,
        };
        if growth.total >= limit {
            return Ok(None);
        }
        if growth.fresh && !self.segments.is_empty() {
            let by_strategy = self.rendered.is_empty();
            self.restart = Some(if by_strategy { RestartReason::Strategy } else { RestartReason::Template });
        }
        self.disabled_marks = self.disabled_marks.saturating_add(growth.rendered.disabled_marks());
        self.rendered = growth.rendered;
        if growth.fresh {
            self.segments.push(Segment::new(self.seat));
        }
        self.prompted = true;
        let last = self.segments.len() - 1;
        self.segments[last].append_given(&growth.tokens, self.turns);
        Ok(Some(&self.segments[last]))
    }

    /// The reason of a new segment that was not counted yet.
    pub(crate) fn take_restart(&mut self) -> Option<RestartReason> {
        self.restart.take()
    }

    /// The number of disabled marks that were not counted yet.
    pub(crate) fn take_disabled_marks(&mut self) -> u32 {
        std::mem::take(&mut self.disabled_marks)
    }

    /// Prompt in which the mask replaces every message since the last reply; `None` if there is no such message.
    fn behind(&self, chat: &ChatFormat, mask: &str) -> Result<Option<Vec<u32>>, ChatError> {
        let last = self.entries.iter().rposition(ContextMessage::is_reply);
        let Some(heard) = last.map(|last| last + 1).filter(|heard| *heard < self.entries.len()) else {
            return Ok(None);
        };
        let mut entries = self.entries.clone();
        entries[heard..].iter_mut().for_each(|entry| mask.clone_into(&mut entry.message.text));
        let growth = self.growth(chat, &entries)?;
        let standing = self.segments.last().filter(|_| !growth.fresh).map(|segment| segment.tokens().to_vec());
        Ok(Some([standing.unwrap_or_default(), growth.tokens].concat()))
    }

    /// Prompt with the last turn's feedback hidden; `None` if the turn had no feedback.
    pub(crate) fn masked(&self) -> Option<&[u32]> {
        self.masked.as_deref()
    }

    fn growth(&self, chat: &ChatFormat, entries: &[ContextMessage]) -> Result<ContextGrowth, ChatError> {
        let messages = entries.iter().map(|entry| &entry.message);
        let (extension, rendered) = chat.extend(&self.rendered, messages, &self.functions, self.sampled_stop)?;
        let (tokens, fresh) = match extension {
            Extension::Append(tokens) => (tokens, self.segments.is_empty()),
            Extension::Restart(tokens) => (tokens, true),
        };
        let total = tokens.len() + if fresh { 0 } else { self.tokens() };
        Ok(ContextGrowth { tokens, fresh, rendered, total })
    }

    /// Ends the segment: the next one begins with these entries.
    fn begin_with(&mut self, entries: Vec<ContextMessage>) {
        self.entries = entries;
        self.rendered = Rendered::default();
        self.prompted = false;
    }

    /// Whether the prompt of the next reply has opened a thought.
    pub(crate) fn begun(&self) -> Begun {
        self.rendered.begun()
    }

    /// Whether the policy is asked for a note to itself instead of an action.
    pub(crate) fn asks_for_note(&self) -> bool {
        self.asked == ReplyKind::Note
    }

    /// Appends the policy's reply; `stopped` tells whether it ended with a stop token. A note, whose `text` has no
    /// thoughts, replaces everything but the task. `parts` are those of a reply whose calls could all be read.
    pub(crate) fn speak(
        &mut self,
        text: &str,
        parts: Option<SpokenParts>,
        sampled: &Sampled,
        stopped: bool,
    ) -> Result<(), SegmentError> {
        if let Some(segment) = self.segments.last_mut() {
            segment.append_sampled(sampled, self.turns)?;
        }
        let turn = Some(self.turns);
        self.turns += 1;
        self.sampled_stop = stopped;
        self.prompted = false;
        if self.asked == ReplyKind::Note {
            self.asked = ReplyKind::Action;
            let note = Message::of_text(Role::User, format!("Your summary of what came before:\n{text}"));
            let task = self.entries.iter().filter(|entry| entry.turn.is_none()).cloned();
            let entries = task.chain([ContextMessage { message: note, turn, left_out: false }]).collect();
            self.begin_with(entries);
            return Ok(());
        }
        let spoken = &sampled.tokens[..sampled.tokens.len().saturating_sub(usize::from(stopped))];
        let message = Message { parts: parts.map(Box::new), ..Message::reply(text, spoken.to_vec()) };
        self.entries.push(ContextMessage { message, turn, left_out: false });
        Ok(())
    }

    /// Whether the host answers this function, by an edit of the context.
    pub(crate) fn answers(&self, function: &str) -> bool {
        strategy::offers(&self.strategy, function)
    }

    /// Applies the edit that the last reply requests, and returns the text for the agent.
    ///
    /// # Errors
    /// A text for the agent, if the edit is invalid.
    pub(crate) fn edit(&mut self, arguments: &str) -> Result<String, String> {
        let mut entries = self.entries.clone();
        let done = edits::edit(&mut entries, arguments, self.turns.saturating_sub(1))?;
        self.begin_with(entries);
        Ok(done)
    }

    /// Number of tokens that no strategy can remove.
    pub(crate) fn lasting_tokens(&self) -> usize {
        if self.strategy.only_grows() { self.tokens() } else { 0 }
    }

    /// Number of tokens in the current segment.
    fn tokens(&self) -> usize {
        self.segments.last().map_or(0, Segment::len)
    }

    /// The messages so far.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        self.entries.iter().map(|entry| &entry.message)
    }

    /// Replaces the segments by those of an agent program, which took this number of turns.
    pub(crate) fn replace(&mut self, segments: Vec<Segment>, turns: u32) {
        self.segments = segments;
        self.turns = turns;
    }

    /// Segments so far.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All segments of the finished episode.
    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }
}
