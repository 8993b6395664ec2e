//! One seat's context: its conversation as messages and as the tokens that its policy saw.
//!
//! A segment only ever grows. Where a strategy, an edit or the template shows something else than before, a new segment
//! begins; replies that stand in it are shown as the tokens that were sampled, and not sampled again: each sampled
//! token is learnt in the one segment in which it was sampled.

mod edits;
mod strategy;

use std::sync::Arc;

use gymkhana_record::{Function, Sampled, Segment, SegmentError};

use gymkhana_chat::{ChatError, ChatFormat, Extension, Message, Rendered, Role};
use gymkhana_policy::Conversation;

use strategy::Next;
pub use strategy::{ContextError, ContextStrategy, Summary, Window};

/// A message of the context, and to which of the seat's turns it belongs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    message: Message,
    /// The reply that it is, or after which it was heard; none for what came before all replies, the task.
    turn: Option<u32>,
    /// A placeholder stands for it.
    left_out: bool,
}

impl Entry {
    fn is_reply(&self) -> bool {
        self.message.role == Role::Assistant
    }
}

/// What the policy is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// To do something.
    Action,
    /// To write down for itself what it needs, as the context will begin anew.
    Note,
}

/// A seat's conversation.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) conversation: Conversation,
    pub(crate) functions: Vec<Function>,
    strategy: Arc<ContextStrategy>,
    seat: u32,
    entries: Vec<Entry>,
    rendered: Rendered,
    segments: Vec<Segment>,
    sampled_stop: bool,
    /// Everything heard is in tokens: the policy may speak.
    prompted: bool,
    asked: Asked,
    /// What the policy would see, were what the last turn brought hidden.
    masked: Option<Vec<u32>>,
    /// How many turns the policy has taken, notes to itself included.
    pub(crate) turns: u32,
}

/// What a context grows by.
struct Growth {
    tokens: Vec<u32>,
    /// They begin a segment.
    fresh: bool,
    rendered: Rendered,
    /// How long the segment becomes.
    total: usize,
}

impl Context {
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
            entries: system.into_iter().map(|message| Entry { message, turn: None, left_out: false }).collect(),
            rendered: Rendered::default(),
            segments: vec![],
            sampled_stop: false,
            prompted: false,
            asked: Asked::Action,
            masked: None,
            turns: 0,
        }
    }

    /// Adds what the policy will see before its next turn.
    pub(crate) fn hear(&mut self, role: Role, text: &str) {
        let turn = self.turns.checked_sub(1);
        let first = self.entries.last().is_some_and(|entry| entry.is_reply() && entry.turn == turn);
        let mark = turn.filter(|_| first && matches!(*self.strategy, ContextStrategy::Edits {})).map(edits::mark);
        let text = mark.unwrap_or_default() + text;
        self.entries.push(Entry { message: Message::of_text(role, text), turn, left_out: false });
        self.prompted = false;
    }

    /// Lets the strategy decide how the context goes on, puts it into tokens up to where the policy may speak, and
    /// gives the whole segment; none when less than one token of `limit` would be left to say. Then the policy sees
    /// nothing of it, and nor does the segment. With a `mask`, what it would be is kept as well where the mask stands in
    /// the place of all that was heard since the last reply.
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
        match self.strategy.next(&self.entries, growth.total) {
            Next::Append => {}
            Next::Begin(entries) => {
                self.begin_with(entries);
                growth = self.growth(chat, &self.entries)?;
            }
            Next::Ask(instruction) => {
                self.asked = Asked::Note;
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
        self.rendered = growth.rendered;
        if growth.fresh {
            self.segments.push(Segment::new(self.seat));
        }
        self.prompted = true;
        let last = self.segments.len() - 1;
        self.segments[last].append_given(&growth.tokens, self.turns);
        Ok(Some(&self.segments[last]))
    }

    /// The whole context with a mask in the place of all that was heard since the last reply; none where nothing was.
    fn behind(&self, chat: &ChatFormat, mask: &str) -> Result<Option<Vec<u32>>, ChatError> {
        let last = self.entries.iter().rposition(Entry::is_reply);
        let Some(heard) = last.map(|last| last + 1).filter(|heard| *heard < self.entries.len()) else {
            return Ok(None);
        };
        let mut entries = self.entries.clone();
        entries[heard..].iter_mut().for_each(|entry| mask.clone_into(&mut entry.message.text));
        let growth = self.growth(chat, &entries)?;
        let standing = self.segments.last().filter(|_| !growth.fresh).map(|segment| segment.tokens().to_vec());
        Ok(Some([standing.unwrap_or_default(), growth.tokens].concat()))
    }

    /// What the policy would see, were what the last turn brought hidden; none where it brought nothing.
    pub(crate) fn masked(&self) -> Option<&[u32]> {
        self.masked.as_deref()
    }

    fn growth(&self, chat: &ChatFormat, entries: &[Entry]) -> Result<Growth, ChatError> {
        let messages = entries.iter().map(|entry| &entry.message);
        let (extension, rendered) = chat.extend(&self.rendered, messages, &self.functions, self.sampled_stop)?;
        let (tokens, fresh) = match extension {
            Extension::Append(tokens) => (tokens, self.segments.is_empty()),
            Extension::Restart(tokens) => (tokens, true),
        };
        let total = tokens.len() + if fresh { 0 } else { self.tokens() };
        Ok(Growth { tokens, fresh, rendered, total })
    }

    /// What is in tokens so far is over: the next segment begins with these.
    fn begin_with(&mut self, entries: Vec<Entry>) {
        self.entries = entries;
        self.rendered = Rendered::default();
        self.prompted = false;
    }

    /// Whether the policy is asked for a note to itself, and not for an action.
    pub(crate) fn asks_for_note(&self) -> bool {
        self.asked == Asked::Note
    }

    /// Adds what the policy said; `stopped` says that it ended with a stop token. A note takes the place of all but
    /// the task.
    pub(crate) fn speak(&mut self, text: &str, sampled: &Sampled, stopped: bool) -> Result<(), SegmentError> {
        if let Some(segment) = self.segments.last_mut() {
            segment.append_sampled(sampled, self.turns)?;
        }
        let turn = Some(self.turns);
        self.turns += 1;
        self.sampled_stop = stopped;
        self.prompted = false;
        if self.asked == Asked::Note {
            self.asked = Asked::Action;
            let note = Message::of_text(Role::User, format!("Your summary of what came before:\n{text}"));
            let task = self.entries.iter().filter(|entry| entry.turn.is_none()).cloned();
            let entries = task.chain([Entry { message: note, turn, left_out: false }]).collect();
            self.begin_with(entries);
            return Ok(());
        }
        let spoken = &sampled.tokens[..sampled.tokens.len().saturating_sub(usize::from(stopped))];
        let message = Message { role: Role::Assistant, text: text.to_owned(), tokens: spoken.to_vec() };
        self.entries.push(Entry { message, turn, left_out: false });
        Ok(())
    }

    /// Whether the host itself answers this function, by an edit of the context.
    pub(crate) fn answers(&self, function: &str) -> bool {
        self.strategy.offers(function)
    }

    /// Makes the edit that the last reply calls for, and says what came of it.
    ///
    /// # Errors
    /// In words for the agent, if it is none that can be made.
    pub(crate) fn edit(&mut self, arguments: &str) -> Result<String, String> {
        let mut entries = self.entries.clone();
        let done = edits::edit(&mut entries, arguments, self.turns.saturating_sub(1))?;
        self.begin_with(entries);
        Ok(done)
    }

    /// How many tokens the context has that no strategy makes fewer.
    pub(crate) fn lasting_tokens(&self) -> usize {
        if self.strategy.only_grows() { self.tokens() } else { 0 }
    }

    /// How many tokens the current segment has.
    fn tokens(&self) -> usize {
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
