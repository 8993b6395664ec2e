//! One seat's context: its conversation as messages and as the tokens that its policy saw.

use gymkhana_episode::{Function, Sampled, Segment, SegmentError};

use crate::chat::{ChatError, ChatFormat, Extension, Message, Rendered, Role};
use crate::policy::Conversation;

/// A conversation that only grows. The strategy is to append; a template that rewrites what it said before
/// starts a new segment.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) conversation: Conversation,
    pub(crate) functions: Vec<Function>,
    seat: u32,
    messages: Vec<Message>,
    rendered: Rendered,
    segments: Vec<Segment>,
    sampled_stop: bool,
    /// Everything heard is in tokens: the policy may speak.
    prompted: bool,
    /// How many turns the policy has taken.
    pub(crate) turns: u32,
}

impl Context {
    pub(crate) fn new(seat: u32, conversation: Conversation, functions: Vec<Function>, system: Option<&str>) -> Self {
        let system = system.map(|text| Message { role: Role::System, text: text.to_owned() });
        Self {
            conversation,
            functions,
            seat,
            messages: system.into_iter().collect(),
            rendered: Rendered::default(),
            segments: vec![],
            sampled_stop: false,
            prompted: false,
            turns: 0,
        }
    }

    /// Adds what the policy will see before its next turn.
    pub(crate) fn hear(&mut self, role: Role, text: String) {
        self.messages.push(Message { role, text });
        self.prompted = false;
    }

    /// Puts what was heard into tokens, up to where the policy may speak, and gives the whole segment; none when
    /// less than one token of `limit` would be left to say. Then the policy sees nothing of it, and nor does the
    /// segment.
    pub(crate) fn prompt(&mut self, chat: &ChatFormat, limit: usize) -> Result<Option<&Segment>, ChatError> {
        if self.prompted {
            return Ok(self.segments.last());
        }
        let (extension, rendered) = chat.extend(&self.rendered, &self.messages, &self.functions, self.sampled_stop)?;
        self.rendered = rendered;
        let (tokens, fresh) = match extension {
            Extension::Append(tokens) => (tokens, self.segments.is_empty()),
            Extension::Restart(tokens) => (tokens, true),
        };
        let before = if fresh { 0 } else { self.tokens() };
        if before + tokens.len() >= limit {
            return Ok(None);
        }
        if fresh {
            self.segments.push(Segment::default());
        }
        self.prompted = true;
        let last = self.segments.len() - 1;
        self.segments[last].append_given(&tokens, self.seat, self.turns);
        Ok(Some(&self.segments[last]))
    }

    /// Adds what the policy said.
    pub(crate) fn speak(&mut self, text: String, sampled: &Sampled, stopped: bool) -> Result<(), SegmentError> {
        if let Some(segment) = self.segments.last_mut() {
            segment.append_sampled(sampled, self.seat, self.turns)?;
        }
        self.messages.push(Message { role: Role::Assistant, text });
        self.sampled_stop = stopped;
        self.prompted = false;
        self.turns += 1;
        Ok(())
    }

    /// How many tokens the current segment has.
    pub(crate) fn tokens(&self) -> usize {
        self.segments.last().map_or(0, Segment::len)
    }

    /// The segments so far.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All segments, when the episode is over.
    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }
}
