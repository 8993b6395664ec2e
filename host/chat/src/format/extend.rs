//! Growth of a context: the tokens from the end of the policy's last reply to the beginning of its next one.
//!
//! A context continues if the conversation up to the last reply's prompt is rendered as it was then. What the template
//! writes around the reply itself may differ: the prompt may open a thought that the template leaves out of earlier
//! replies, and the sampled tokens follow the prompt that the policy saw.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use gymkhana_record::Function;
use serde_json::{Map, Value as Json};

use super::{ChatFormat, EarlierThoughts, no_switches};
use crate::encoder::{Placed, Sourced};
use crate::error::ChatError;
use crate::message::Message;
use crate::rendering::{self, Author, Passage, ReplyForm, Setting};
use crate::thoughts::Begun;

/// A conversation at its last conversion to tokens.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The rendered text.
    text: Arc<str>,
    /// Number of bytes up to the end of the last message: what follows belongs to the policy's turn.
    fixed: usize,
    begun: Begun,
    disabled_marks: u32,
}

impl Default for Rendered {
    fn default() -> Self {
        Self { text: Arc::default(), fixed: 0, begun: Begun::No, disabled_marks: 0 }
    }
}

impl Rendered {
    /// The text, which the template wrote. Replies with sampled tokens may stand in it as a private character.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing was rendered yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Number of marks in the texts that this conversion added, which are plain text there: the tokens differ from those of
    /// the whole text under the model's tokenizer at these marks alone.
    #[must_use]
    pub fn disabled_marks(&self) -> u32 {
        self.disabled_marks
    }

    /// Whether the prompt has opened a thought that the reply continues.
    #[must_use]
    pub fn begun(&self) -> Begun {
        self.begun
    }
}

/// The tokens by which a context grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extension {
    /// Tokens to append to the segment.
    Append(Vec<u32>),
    /// An earlier message changed: the tokens of a new segment.
    Restart(Vec<u32>),
}

/// The growth of a context with the places of the texts that the policy observed.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The tokens by which the context grows.
    pub extension: Extension,
    /// The rendered conversation.
    pub rendered: Rendered,
    /// Places of the texts of users and tools among the tokens of the extension, in their order. A token belongs to the
    /// text in which it begins.
    pub observed: Vec<Range<usize>>,
}

/// How a context grows.
#[derive(Clone, Copy)]
struct Growth<'g> {
    /// Whether the last reply ended with a stop token.
    sampled_stop: bool,
    /// Whether the places of observed texts are wanted.
    places: bool,
    /// Variables of one request for the template.
    switches: &'g Map<String, Json>,
}

impl ChatFormat {
    /// The tokens by which a context grows up to the policy's next turn, and the rendered conversation.
    ///
    /// `sampled_stop` is true if the last reply ended with a stop token that is in the segment already.
    ///
    /// # Errors
    /// [`ChatError::Schema`] for a function with malformed parameters, [`ChatError::Template`] if the template fails or
    /// exceeds a limit, [`ChatError::Tokenize`] or [`ChatError::Forged`] for a text that the tokenizer cannot encode.
    pub fn extend<'m>(
        &self,
        before: &Rendered,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &[Function],
        sampled_stop: bool,
    ) -> Result<(Extension, Rendered), ChatError> {
        self.extend_with(before, messages, functions, sampled_stop, no_switches())
    }

    /// As [`ChatFormat::extend`], with variables of one request for the template.
    ///
    /// # Errors
    /// As [`ChatFormat::extend`].
    pub fn extend_with<'m>(
        &self,
        before: &Rendered,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &[Function],
        sampled_stop: bool,
        switches: &Map<String, Json>,
    ) -> Result<(Extension, Rendered), ChatError> {
        let grown = self.grow(before, messages, functions, Growth { sampled_stop, places: false, switches })?;
        Ok((grown.extension, grown.rendered))
    }

    /// As [`ChatFormat::extend`], with the places of the texts of users and tools.
    ///
    /// # Errors
    /// As [`ChatFormat::extend`].
    pub fn extend_observed<'m>(
        &self,
        before: &Rendered,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &[Function],
        sampled_stop: bool,
    ) -> Result<Observed, ChatError> {
        self.grow(before, messages, functions, Growth { sampled_stop, places: true, switches: no_switches() })
    }

    fn grow<'m>(
        &self,
        before: &Rendered,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &[Function],
        growth: Growth<'_>,
    ) -> Result<Observed, ChatError> {
        let Growth { sampled_stop, places, switches } = growth;
        let given = self.adapted(messages, functions)?;
        let messages = &given.messages;
        let tools = self.tools(given.functions)?;
        let setting = Setting { own_switches: switches, ..self.setting(true, self.reply_form()) };
        let template = self.template(!given.functions.is_empty());
        let now = rendering::render(template, &tools, messages.iter().map(AsRef::as_ref), &setting)?;
        let view = View { format: self, messages, now: &now, places };
        let (extension, part) = match self.reply_end(before, &now, messages) {
            Some(end) => view.appended(end, sampled_stop)?.into_extension(Extension::Append),
            None => view.restarted()?.into_extension(Extension::Restart),
        };
        let tail = now.text.get(now.fixed()..).unwrap_or_default();
        let begun = self.thoughts.as_ref().map_or(Begun::No, |marks| marks.begun(tail));
        let fixed = now.fixed();
        let rendered = Rendered { text: now.text.into(), fixed, begun, disabled_marks: part.disabled };
        Ok(Observed { extension, rendered, observed: part.observed })
    }

    /// The form in which replies are given to the template.
    fn reply_form(&self) -> ReplyForm {
        match self.earlier_thoughts {
            EarlierThoughts::Template => ReplyForm::Parts,
            EarlierThoughts::Keep => self.shown.replies,
        }
    }

    /// Offset of the end of the reply that followed the earlier rendering; `None` if a message before it changed.
    fn reply_end(&self, before: &Rendered, now: &rendering::Rendered, messages: &[Cow<'_, Message>]) -> Option<usize> {
        if before.text.is_empty() || now.text.get(..before.fixed)? != &before.text[..before.fixed] {
            return None;
        }
        let next = now.passages.iter().position(|passage| passage.range.end > before.fixed)?;
        let first = &now.passages[next];
        let Author::Reply(number) = first.author else { return None };
        let reply = messages.get(number)?;
        if first.range.start < before.fixed {
            return None;
        }
        if self.earlier_thoughts == EarlierThoughts::Template {
            // The template wrote the reply as the policy sampled it, or the context begins again.
            let written = now.text.strip_prefix(&*before.text)?.strip_prefix(reply.text.as_str())?;
            return Some(now.text.len() - written.len());
        }
        let form = if is_stand_in(reply, self) { ReplyForm::StandIn } else { self.reply_form() };
        self.end_of(now, next, form)
    }

    /// Offset behind all that the template writes for the reply whose first passage has this number, up to the token that
    /// ends the turn; `None` if such a token is missing behind a reply that the template wrote itself.
    pub(super) fn end_of(&self, now: &rendering::Rendered, first: usize, form: ReplyForm) -> Option<usize> {
        let passages = now.passages.get(first..)?;
        let all = passages.iter().take_while(|passage| passage.author == passages[0].author).count();
        if form == ReplyForm::StandIn {
            return Some(passages[all.checked_sub(1)?].range.end);
        }
        // Marks of the call's own format may stand between its last text and the token that ends the turn.
        let stops: Vec<String> = self.stop.iter().filter_map(|id| self.encoder.tokenizer().id_to_token(*id)).collect();
        let stop_behind = |count: usize| {
            let end = passages[count.checked_sub(1)?].range.end;
            let next = passages.get(count).map_or(now.text.len(), |passage| passage.range.start);
            let behind = &now.text[end..next];
            Some(end + stops.iter().filter_map(|stop| behind.find(stop)).min()?)
        };
        // An answer may begin with the name of its call, a text of the reply that stands there again.
        let is_repeated = |place: &usize| {
            let (before, source) = (&passages[..*place], passages[*place].source);
            before.iter().rev().any(|passage| passage.source == source)
        };
        (1..all).filter(is_repeated).chain([all]).find_map(stop_behind)
    }
}

/// A rendering that becomes tokens.
struct View<'v, 'm> {
    format: &'v ChatFormat,
    messages: &'v [Cow<'m, Message>],
    now: &'v rendering::Rendered,
    /// Whether the places of observed texts are wanted.
    places: bool,
}

/// A part of a rendering as tokens.
#[derive(Default)]
struct RenderedPart {
    tokens: Vec<u32>,
    /// Places of observed texts among the tokens.
    observed: Vec<Range<usize>>,
    /// Number of marks in texts from outside.
    disabled: u32,
}

impl RenderedPart {
    /// Adds a part behind this one.
    fn add(&mut self, part: Self) {
        let start = self.tokens.len();
        self.observed.extend(part.observed.into_iter().map(|place| start + place.start..start + place.end));
        self.tokens.extend(part.tokens);
        self.disabled = self.disabled.saturating_add(part.disabled);
    }

    /// Moves the tokens into an extension.
    fn into_extension(mut self, kind: fn(Vec<u32>) -> Extension) -> (Extension, Self) {
        (kind(std::mem::take(&mut self.tokens)), self)
    }
}

impl View<'_, '_> {
    /// The tokens behind the end of the last reply.
    fn appended(&self, end: usize, sampled_stop: bool) -> Result<RenderedPart, ChatError> {
        let mut part = self.part(end..self.now.text.len())?;
        if sampled_stop {
            let skipped = self.stop_at_beginning(&part.tokens)?;
            part.tokens.drain(..skipped);
            part.observed.iter_mut().for_each(|place| {
                *place = place.start.saturating_sub(skipped)..place.end.saturating_sub(skipped);
            });
        }
        Ok(part)
    }

    /// Number of tokens up to the template's own stop token, if only white space stands before it.
    fn stop_at_beginning(&self, tokens: &[u32]) -> Result<usize, ChatError> {
        let format = self.format;
        let Some(stop) = tokens.iter().position(|token| format.stop.contains(token)) else { return Ok(0) };
        let before = format.decode(&tokens[..stop])?;
        Ok(if before.trim().is_empty() { stop + 1 } else { 0 })
    }

    /// The tokens of the whole conversation, with the sampled tokens of replies in their places.
    fn restarted(&self) -> Result<RenderedPart, ChatError> {
        let (mut whole, mut last) = (RenderedPart::default(), 0);
        if self.format.reply_form() != ReplyForm::Parts {
            for Passage { range, author, .. } in &self.now.passages {
                let Author::Reply(number) = author else { continue };
                let Some(reply) = self.messages.get(*number).filter(|reply| is_stand_in(reply, self.format)) else {
                    continue;
                };
                whole.add(self.part(last..range.start)?);
                whole.tokens.extend_from_slice(&reply.tokens);
                last = range.end;
            }
        }
        whole.add(self.part(last..self.now.text.len())?);
        Ok(whole)
    }

    /// Tokens of a part of the rendering.
    fn part(&self, range: Range<usize>) -> Result<RenderedPart, ChatError> {
        let passages = &self.now.passages;
        let from = passages.partition_point(|passage| passage.range.end <= range.start);
        let within = passages[from..].iter().take_while(|passage| passage.range.start < range.end);
        let local = |passage: &Passage| {
            passage.range.start.saturating_sub(range.start)..passage.range.end.min(range.end) - range.start
        };
        let outside: Vec<Range<usize>> = within.clone().map(local).collect();
        let observed = within.clone().find(|passage| passage.author != Author::Run);
        let shared = observed.map_or(range.len(), |passage| local(passage).start);
        let sourced = Sourced::new(&self.now.text[range.clone()], &outside).with_shared(shared);
        let placed = self.format.encoder.encode(sourced, self.places)?;
        let texts = within.filter(|passage| self.places && passage.author == Author::Observed).map(local);
        let observed = texts.map(|text| tokens_in(&placed, &text)).filter(|place| !place.is_empty()).collect();
        Ok(RenderedPart { tokens: placed.tokens, observed, disabled: placed.disabled })
    }
}

/// The tokens that begin in a text.
fn tokens_in(placed: &Placed, text: &Range<usize>) -> Range<usize> {
    let first = |offset: usize| placed.starts.partition_point(|start| *start < offset);
    first(text.start)..first(text.end)
}

/// Whether a reply is given to the template as a stand-in.
fn is_stand_in(reply: &Message, format: &ChatFormat) -> bool {
    let calls = reply.parts.as_ref().is_some_and(|parts| !parts.calls.is_empty());
    !reply.tokens.is_empty() && (format.reply_form() == ReplyForm::StandIn || !calls)
}
