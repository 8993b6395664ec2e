//! Conversations as the chat template renders them, with the author of each passage.
//!
//! A reply of the policy is a stand-in of one character, whose place the sampled tokens take, unless the template is to
//! write its thoughts and calls. All other messages are rendered with their true texts.

mod conversation;
mod function_list;
mod shape;

use std::ops::Range;

use gymkhana_template::{RenderLimits, Rendering, Template, Value};
use serde_json::{Map, Value as Json};

use crate::error::ChatError;
use crate::message::Message;
use conversation::NumberedConversation;
pub(crate) use conversation::{ReplyForm, TemplateForm};
pub(crate) use function_list::{FunctionList, FunctionLists};
use shape::Shape;

/// The author of a passage from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The run: instructions and functions.
    Run,
    /// A user or a tool.
    Observed,
    /// The policy: the message of this number.
    Reply(usize),
}

/// A passage of a rendering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passage {
    /// Its bytes.
    pub range: Range<usize>,
    /// Its author.
    pub author: Author,
    /// Number of the text that it was made from.
    pub source: u32,
}

/// A rendered conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub text: String,
    /// The passages from outside, in order. The text between them is the template's own.
    pub passages: Vec<Passage>,
}

impl Rendered {
    /// Offset of the end of the last passage from outside.
    pub fn fixed(&self) -> usize {
        self.passages.last().map_or(0, |passage| passage.range.end)
    }
}

/// What a rendering is made with, besides the conversation.
pub(crate) struct Setting<'s> {
    /// Variables of the run, such as `enable_thinking`.
    pub switches: &'s Map<String, Json>,
    /// The tokenizer's named tokens, such as `bos_token`: name and text.
    pub named_tokens: &'s [(String, String)],
    /// Whether the rendering ends with the beginning of the policy's turn.
    pub prompt: bool,
    /// Variables of one request, which win; renderings with them are not cached.
    pub own_switches: &'s Map<String, Json>,
    /// The form in which replies with sampled tokens are given to the template.
    pub form: ReplyForm,
    /// The form of ids and contents.
    pub given: TemplateForm,
}

/// Renders a conversation. Renderings that do not depend on the messages' texts are cached with the tools.
///
/// # Errors
/// [`ChatError::Template`] if the template fails, [`ChatError::TemplateLimit`] if it exceeds a limit.
pub(crate) fn render<'m>(
    template: &Template,
    tools: &'m FunctionList,
    messages: impl IntoIterator<Item = &'m Message>,
    setting: &Setting<'_>,
) -> Result<Rendered, ChatError> {
    let conversation = NumberedConversation::new(&tools.texts, messages, setting.form, setting.given);
    let signature = conversation.signature(setting.prompt).filter(|_| setting.own_switches.is_empty());
    if let Some(shape) = signature.as_ref().and_then(|signature| tools.shapes.known(signature)) {
        return Ok(shape.fill(&conversation));
    }
    let mut variables = vec![
        ("messages".to_owned(), conversation.messages()),
        ("tools".to_owned(), tools.value()),
        ("documents".to_owned(), Value::none()),
        ("add_generation_prompt".to_owned(), Value::bool(setting.prompt)),
    ];
    variables.extend(setting.named_tokens.iter().map(|(name, text)| (name.clone(), Value::own(text))));
    let switches = setting.switches.iter().chain(setting.own_switches);
    variables.extend(switches.map(|(name, value)| (name.clone(), Value::from_json(value))));
    let rendering = template.render(variables, &limits(conversation.bytes()))?;
    let is_fixed = rendering.inspected_sources.iter().all(|source| conversation.is_of_tools(*source));
    match signature {
        Some(signature) if is_fixed => {
            let shape = Shape::of(&rendering);
            let rendered = shape.fill(&conversation);
            tools.shapes.keep(signature, shape.into());
            Ok(rendered)
        }
        _ => Ok(rendered(&rendering, &conversation)),
    }
}

/// Limits of a rendering of texts with this number of bytes, each of which a template may read and write several times.
fn limits(texts: usize) -> RenderLimits {
    let (usual, texts) = (RenderLimits::default(), texts.saturating_sub(1 << 20));
    RenderLimits {
        steps: usual.steps.saturating_add(texts as u64),
        written_bytes: usual.written_bytes.saturating_add(texts.saturating_mul(2)),
        held_bytes: usual.held_bytes.saturating_add(texts.saturating_mul(32)),
        ..usual
    }
}

/// A rendering with the authors of its passages. Neighbouring passages of one author stay separate.
fn rendered(rendering: &Rendering, conversation: &NumberedConversation<'_>) -> Rendered {
    let mut rendered = Rendered { text: rendering.text.as_str().to_owned(), passages: vec![] };
    let mut start = 0;
    for run in rendering.text.runs() {
        if let gymkhana_template::Origin::Source(source) = run.origin {
            let author = conversation.author(source);
            rendered.passages.push(Passage { range: start..run.end, author, source });
        }
        start = run.end;
    }
    rendered
}

#[cfg(test)]
mod tests;
