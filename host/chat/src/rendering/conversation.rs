//! A conversation as the values that a template takes, with a number for each text from outside.

use std::borrow::Cow;

use gymkhana_template::{Class, Value};
use serde_json::Value as Json;

use super::Author;
use crate::memo::Bytes;
use crate::message::{AnsweredCall, Message, Role, SpokenCall};

/// The text in place of a reply with sampled tokens: a private character, which no mark of a template contains.
const STAND_IN: &str = "\u{F8F0}";

/// The form in which replies with sampled tokens are given to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReplyForm {
    /// As a stand-in of one character.
    StandIn,
    /// Replies with calls as message and calls, others as a stand-in.
    Calls,
    /// As thoughts, message and calls.
    Parts,
}

/// A text from outside.
struct OutsideText<'m> {
    text: Cow<'m, str>,
    author: Author,
}

/// A message with the number of its first text.
struct Numbered<'m> {
    message: &'m Message,
    first: u32,
    form: MessageForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageForm {
    /// The text alone.
    Text,
    /// A stand-in.
    StandIn,
    /// Message and calls.
    Calls,
    /// Thoughts, message and calls.
    Parts,
}

/// A conversation.
pub(super) struct NumberedConversation<'m> {
    sources: Vec<OutsideText<'m>>,
    messages: Vec<Numbered<'m>>,
    /// Number of sources of the tools, which come first.
    of_tools: u32,
    given: TemplateForm,
}

/// The form in which ids and contents are given to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TemplateForm {
    /// Ids of calls have nine letters and digits.
    pub plain_ids: bool,
    /// Contents are lists of parts, of which the only one is the text.
    pub parts: bool,
    /// Arguments of calls are JSON text.
    pub text_arguments: bool,
}

/// What decides about the shape of a rendering: roles, forms and classes of texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ShapeKey(Vec<u8>);

impl Bytes for ShapeKey {
    fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl<'m> NumberedConversation<'m> {
    pub(super) fn new(
        tools: &'m [String],
        messages: impl IntoIterator<Item = &'m Message>,
        form: ReplyForm,
        given: TemplateForm,
    ) -> Self {
        let sources = tools.iter().map(|text| OutsideText { text: text.into(), author: Author::Run }).collect();
        let mut conversation = Self { sources, messages: vec![], of_tools: number(tools.len()), given };
        for (index, message) in messages.into_iter().enumerate() {
            conversation.push(index, message, form);
        }
        conversation
    }

    fn push(&mut self, index: usize, message: &'m Message, form: ReplyForm) {
        let first = number(self.sources.len());
        let author = match message.role {
            Role::System => Author::Run,
            Role::User | Role::Tool => Author::Observed,
            Role::Assistant => Author::Reply(index),
        };
        let form = match (&message.parts, form) {
            _ if message.role != Role::Assistant => MessageForm::Text,
            (Some(_), ReplyForm::Parts) => MessageForm::Parts,
            (Some(_), _) if message.tokens.is_empty() => MessageForm::Parts,
            (Some(parts), ReplyForm::Calls) if !parts.calls.is_empty() => MessageForm::Calls,
            _ if message.tokens.is_empty() => MessageForm::Text,
            _ => MessageForm::StandIn,
        };
        let given_id = if self.given.plain_ids { plain_id } else { nonempty_id };
        let mut add = |text: Cow<'m, str>| self.sources.push(OutsideText { text, author });
        match (form, &message.parts) {
            (MessageForm::StandIn, _) => add(STAND_IN.into()),
            (MessageForm::Calls | MessageForm::Parts, Some(parts)) => {
                add(parts.message.as_str().into());
                add(parts.thoughts.as_deref().unwrap_or_default().into());
                for SpokenCall { id, name, arguments } in &parts.calls {
                    add(given_id(id));
                    add(name.into());
                    add(arguments.into());
                }
            }
            _ => add(message.text.as_str().into()),
        }
        if let Some(AnsweredCall { id, name }) = &message.answers {
            self.sources.push(OutsideText { text: given_id(id), author: Author::Run });
            self.sources.push(OutsideText { text: name.into(), author: Author::Run });
        }
        self.messages.push(Numbered { message, first, form });
    }

    /// Bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        self.sources.iter().map(|source| source.text.len()).sum()
    }

    /// The text of a source.
    pub(super) fn text(&self, source: u32) -> &str {
        self.sources.get(source as usize).map_or("", |source| &source.text)
    }

    /// The author of a source.
    pub(super) fn author(&self, source: u32) -> Author {
        self.sources.get(source as usize).map_or(Author::Run, |source| source.author)
    }

    /// Whether a source belongs to the tools.
    pub(super) fn is_of_tools(&self, source: u32) -> bool {
        source < self.of_tools
    }

    /// The signature; none if a message has calls, whose arguments are of any shape.
    pub(super) fn signature(&self, prompt: bool) -> Option<ShapeKey> {
        let mut bytes = Vec::with_capacity(1 + self.messages.len());
        bytes.push(u8::from(prompt));
        for Numbered { message, first, form } in &self.messages {
            let is_split = matches!(form, MessageForm::Calls | MessageForm::Parts);
            let parts = message.parts.as_ref().filter(|_| is_split);
            if parts.is_some_and(|parts| !parts.calls.is_empty()) {
                return None;
            }
            bytes.extend([message.role as u8, *form as u8]);
            let texts = if is_split { 2 } else { 1 } + if message.answers.is_some() { 2 } else { 0 };
            bytes.push(texts << 1 | u8::from(parts.is_some_and(|parts| parts.thoughts.is_some())));
            bytes.extend((0..u32::from(texts)).map(|text| Class::of(self.text(first + text)) as u8));
        }
        Some(ShapeKey(bytes))
    }

    /// The list of messages for the template.
    pub(super) fn messages(&self) -> Value {
        Value::list(self.messages.iter().map(|numbered| self.message(numbered)))
    }

    fn value(&self, source: u32) -> Value {
        Value::outside(self.text(source), source)
    }

    fn message(&self, numbered: &Numbered<'m>) -> Value {
        let Numbered { message, first, form } = numbered;
        let text = self.value(*first);
        let content = if self.given.parts {
            Value::list([Value::dict([("type", Value::own("text")), ("text", text)])])
        } else {
            text
        };
        let mut entries = vec![("role", Value::own(message.role.name())), ("content", content)];
        if message.answers.is_some() {
            entries.push(("tool_call_id", self.value(first + 1)));
            entries.push(("name", self.value(first + 2)));
        }
        let parts = message.parts.as_ref().filter(|_| matches!(form, MessageForm::Calls | MessageForm::Parts));
        if let Some(parts) = parts {
            if *form == MessageForm::Parts && parts.thoughts.is_some() {
                entries.push(("reasoning_content", self.value(first + 1)));
                // The name that GPT-OSS reads; transformers gives both names too.
                entries.insert(0, ("thinking", self.value(first + 1)));
            }
            if !parts.calls.is_empty() {
                let calls = (0..).zip(&parts.calls).map(|(place, call)| self.call(call, first + 2 + 3 * place));
                entries.push(("tool_calls", Value::list(calls)));
            }
        }
        Value::dict(entries)
    }

    /// A call whose id, name and arguments are the sources from this number on.
    fn call(&self, call: &SpokenCall, source: u32) -> Value {
        let arguments = match serde_json::from_str::<Json>(&call.arguments) {
            Ok(arguments @ Json::Object(_)) if !self.given.text_arguments => {
                Value::from_json_outside(&arguments, |_| source + 2)
            }
            _ => self.value(source + 2),
        };
        let function = Value::dict([("name", self.value(source + 1)), ("arguments", arguments)]);
        Value::dict([("id", self.value(source)), ("type", Value::own("function")), ("function", function)])
    }
}

/// The id as it is; of an empty one a digest.
fn nonempty_id(id: &str) -> Cow<'_, str> {
    if id.is_empty() { plain_id(id) } else { id.into() }
}

/// An id of nine letters and digits, which all templates accept: the id itself if it is one, else a digest of it.
fn plain_id(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.into();
    }
    // FNV-1a: the ids of one conversation differ, and nothing depends on more than that.
    let hash = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:09x}", hash & 0xf_ffff_ffff).into()
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
