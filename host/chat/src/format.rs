//! Conversion of conversations to tokens and back, through the model's own chat template.
//!
//! Two rules shape this module. Each turn is appended and earlier tokens are never rendered again, so the trained
//! tokens are the sampled ones. And text from outside the policy is tokenised as plain text: the template is rendered
//! with a placeholder for every such text; the template's own pieces are tokenised with the control tokens, and the
//! texts of the placeholders by a tokenizer without control tokens.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use minijinja::Environment;
use serde_json::{Value as Json, json};
use tokenizers::{Model, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Tokenizer};

use gymkhana_record::Function;

use crate::byte_table::TokenBytes;
use crate::error::ChatError;
use crate::message::{Message, ReplyPiece, Role};
use crate::prompt_cache::{Memo, ToolList, ToolLists};
use crate::template::{self, Placeholders, TemplatePiece, placeholder};
use crate::thoughts::{Begun, ThoughtMarks};
use crate::tokenizer_limits;
use crate::tool_call::ToolFormat;

/// The texts of a model folder from which its chat format is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatFiles {
    /// `tokenizer.json`.
    pub tokenizer: String,
    /// `tokenizer_config.json`.
    pub config: String,
    /// `chat_template.jinja`; older folders keep it as `chat_template` in the configuration.
    pub template: Option<String>,
}

/// A model's tokenizer, chat template and tool-call format.
pub struct ChatFormat {
    /// Has the control tokens: for the template's own pieces and for decoding.
    control: Arc<Tokenizer>,
    /// Has no control tokens: for every text from outside.
    plain: Tokenizer,
    /// The ids that plain text must never become.
    control_ids: HashSet<u32>,
    /// The control tokens' texts, to find them in the descriptions of functions.
    control_texts: Vec<String>,
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    tool_format: ToolFormat,
    /// The marks of thoughts in replies; none if replies are not split.
    thoughts: Option<ThoughtMarks>,
    /// Stop tokens by the template and the configuration.
    template_stop: Vec<u32>,
    /// Those and the stop tokens of the tool-call format.
    stop: Vec<u32>,
    /// The bytes of each token, for tokenizers that a table can decode.
    token_bytes: Option<TokenBytes>,
    tool_lists: ToolLists,
    /// The tokens of the template's own pieces.
    pieces: Memo<String, Arc<[u32]>>,
}

/// A conversation at its last conversion to tokens.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The rendered text, with placeholders.
    text: Arc<str>,
    begun: Begun,
}

impl Default for Rendered {
    fn default() -> Self {
        Self { text: Arc::default(), begun: Begun::No }
    }
}

impl Rendered {
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
    /// The template changed earlier text: the tokens of a new segment.
    Restart(Vec<u32>),
}

/// The growth of a context with the places of the texts that the policy observed.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The tokens by which the context grows.
    pub extension: Extension,
    /// The rendered conversation.
    pub rendered: Rendered,
    /// Places of the texts of users and tools among the tokens of the extension, in their order.
    pub observed: Vec<Range<usize>>,
}

/// Tokens, and the places of observed texts among them.
#[derive(Default)]
struct Encoded {
    tokens: Vec<u32>,
    observed: Vec<Range<usize>>,
}

impl ChatFormat {
    /// Builds the format of a model's files. The tool-call format is detected from the chat template, and is Hermes if
    /// the template reveals no format.
    ///
    /// # Errors
    /// [`ChatError::Malformed`] for a malformed file, [`ChatError::NoTemplate`] without a template,
    /// [`ChatError::NoReply`] for a template without the policy's replies.
    pub fn new(files: &ChatFiles) -> Result<Self, ChatError> {
        let tokenizer = parse(&files.tokenizer, "tokenizer.json")?;
        let config = parse(&files.config, "tokenizer_config.json")?;
        let malformed = |reason: String| ChatError::Malformed { file: "tokenizer.json", reason };
        let control = build(&tokenizer).map_err(malformed)?;
        let mut without = tokenizer.clone();
        without["added_tokens"] = json!([]);
        without["post_processor"] = Json::Null;
        let plain = build(&without).map_err(malformed)?;
        let token_bytes = TokenBytes::of(&control, &tokenizer);
        let added = control.get_added_tokens_decoder();
        let source = files.template.as_deref().or_else(|| config["chat_template"].as_str());
        let source = source.ok_or(ChatError::NoTemplate)?.to_owned();
        let tool_format = ToolFormat::detect(&source).unwrap_or_default();
        let tokens = added.values().map(|token| token.content.as_str());
        let thoughts = ThoughtMarks::detect(&source, tokens).unwrap_or_default();
        let environment = template::environment(source)?;
        let mut format = Self {
            control: Arc::new(control),
            plain,
            control_ids: added.keys().copied().collect(),
            control_texts: added.values().map(|token| token.content.clone()).collect(),
            environment,
            bos_token: template::token_text(&config, "bos_token"),
            eos_token: template::token_text(&config, "eos_token"),
            tool_format,
            thoughts: Some(thoughts),
            template_stop: Vec::new(),
            stop: Vec::new(),
            token_bytes,
            tool_lists: ToolLists::default(),
            pieces: Memo::default(),
        };
        format.template_stop = format.find_stop()?;
        Ok(format.with_tool_format(tool_format))
    }

    /// Replaces the detected tool-call format.
    #[must_use]
    pub fn with_tool_format(mut self, tool_format: ToolFormat) -> Self {
        self.tool_format = tool_format;
        self.stop.clone_from(&self.template_stop);
        let ends = tool_format.end_tokens().iter().filter_map(|text| self.control.token_to_id(text));
        self.stop.extend(ends.filter(|id| self.control_ids.contains(id) && !self.template_stop.contains(id)));
        self
    }

    /// Replaces the detected marks of thoughts; with `None`, thoughts stay in messages.
    #[must_use]
    pub fn with_thoughts(mut self, thoughts: Option<ThoughtMarks>) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// The marks of thoughts; none if replies are not split.
    #[must_use]
    pub fn thoughts(&self) -> Option<&ThoughtMarks> {
        self.thoughts.as_ref()
    }

    /// The format of tool calls in replies.
    #[must_use]
    pub fn tool_format(&self) -> ToolFormat {
        self.tool_format
    }

    /// Whether the tokenizer has a control or added token with this text.
    pub(crate) fn has_token(&self, text: &str) -> bool {
        self.control_texts.iter().any(|token| token == text)
    }

    /// The tokens that end the policy's turn; the first is the one that the template writes.
    #[must_use]
    pub fn stop(&self) -> &[u32] {
        &self.stop
    }

    /// The tokens by which a context grows up to the policy's next turn, and the rendered conversation.
    ///
    /// `sampled_stop` is true if the last reply ended with a stop token that is in the segment already.
    ///
    /// # Errors
    /// [`ChatError::Schema`] for a function with malformed parameters, [`ChatError::Render`] if the template fails,
    /// [`ChatError::TemplateLimit`] if it exceeds a limit, [`ChatError::Tokenize`] or [`ChatError::Forged`] for a text
    /// that the tokenizer cannot encode.
    pub fn extend<'m>(
        &self,
        before: &Rendered,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &[Function],
        sampled_stop: bool,
    ) -> Result<(Extension, Rendered), ChatError> {
        let grown = self.extend_observed(before, messages, functions, sampled_stop)?;
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
        let tools = self.tool_lists.of(functions, &self.control_texts)?;
        let (roles, placeholders) = fill_placeholders(&tools, messages);
        let text = tools.shapes.get(&roles[..], || Ok(self.render(&tools, &roles, true)?.into()))?;
        let tail = match text.strip_prefix(&*before.text) {
            Some(grown) if !before.text.is_empty() => placeholders.strip_leading(grown),
            _ => None,
        };
        let Encoded { mut tokens, mut observed } = self.encode(tail.unwrap_or(&text), &placeholders)?;
        let extension = if tail.is_some() {
            if sampled_stop && tokens.first().is_some_and(|token| self.stop.contains(token)) {
                tokens.remove(0);
                observed.iter_mut().for_each(|place| *place = place.start - 1..place.end - 1);
            }
            Extension::Append(tokens)
        } else {
            Extension::Restart(tokens)
        };
        let tail = template::behind_placeholders(&text);
        let begun = self.thoughts.as_ref().map_or(Begun::No, |marks| marks.begun(tail));
        Ok(Observed { extension, rendered: Rendered { text, begun }, observed })
    }

    /// The text of sampled tokens, control tokens included, without the stop token at its end.
    ///
    /// # Errors
    /// [`ChatError::Decode`] if the tokenizer's decoder fails.
    pub fn decode_reply(&self, tokens: &[u32]) -> Result<String, ChatError> {
        let reply = match tokens.split_last() {
            Some((last, before)) if self.stop.contains(last) => before,
            _ => tokens,
        };
        self.decode(reply)
    }

    /// The text of any tokens, control tokens included.
    ///
    /// Ids outside the vocabulary have no text: models may have more rows than their tokenizer has tokens, and may
    /// sample them.
    ///
    /// # Errors
    /// [`ChatError::Decode`] if the tokenizer's decoder fails.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, ChatError> {
        if let Some(token_bytes) = &self.token_bytes {
            return Ok(token_bytes.text(tokens));
        }
        decode_with(&self.control, tokens)
    }

    /// The tokenizer, to decode tokens while they are sampled.
    pub(crate) fn decoder(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.control)
    }

    /// Number of tokens of the tokenizer, added tokens included.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.control.get_vocab_size(true)
    }

    /// The tokens of a reply as a policy would have sampled it: `Frame` pieces are tokenised with control tokens,
    /// `Plain` pieces without. Ends with the stop token.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] or [`ChatError::Forged`] for a text that the tokenizer cannot encode.
    pub fn encode_reply(&self, pieces: &[ReplyPiece<'_>]) -> Result<Vec<u32>, ChatError> {
        let mut tokens = Vec::new();
        for piece in pieces {
            match piece {
                ReplyPiece::Frame(text) => tokens.extend(encode_with(&self.control, text)?),
                ReplyPiece::Plain(text) => tokens.extend(self.encode_plain(text)?),
            }
        }
        tokens.extend(self.stop.first());
        Ok(tokens)
    }

    /// Tokens of a text, including control tokens that it names and those that the tokenizer adds around a text.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] for a text that the tokenizer cannot encode.
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let encoding = self.control.encode_fast(text, true).map_err(|error| ChatError::Tokenize(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Tokens of a text that can never become a control token.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] for a text that the tokenizer cannot encode, [`ChatError::Forged`] if a control token
    /// came out.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let tokens = plain_tokens(&self.plain, text).map_err(|error| ChatError::Tokenize(error.to_string()))?;
        match tokens.iter().find(|token| self.control_ids.contains(token)) {
            Some(forged) => Err(ChatError::Forged(*forged)),
            None => Ok(tokens),
        }
    }

    fn encode(&self, text: &str, placeholders: &Placeholders<'_>) -> Result<Encoded, ChatError> {
        let Encoded { mut tokens, mut observed } = Encoded::default();
        for piece in placeholders.split(text) {
            let start = tokens.len();
            match piece {
                TemplatePiece::Own(own) => tokens.extend_from_slice(&self.own_tokens(own)?),
                TemplatePiece::Outside(outside) => tokens.extend(self.encode_plain(outside)?),
                TemplatePiece::Observed(text) => {
                    tokens.extend(self.encode_plain(text)?);
                    observed.push(start..tokens.len());
                }
                TemplatePiece::Sampled(sampled) => tokens.extend(sampled),
            }
        }
        Ok(Encoded { tokens, observed })
    }

    /// The tokens of a piece that the template wrote.
    fn own_tokens(&self, own: &str) -> Result<Arc<[u32]>, ChatError> {
        self.pieces.get(own, || Ok(encode_with(&self.control, own)?.into()))
    }

    /// The rendered conversation; with `prompt`, up to the policy's next turn.
    fn render(&self, tools: &ToolList, roles: &[Role], prompt: bool) -> Result<String, ChatError> {
        let messages: Vec<Json> = (tools.texts.len()..)
            .zip(roles)
            .map(|(number, role)| json!({"role": role.name(), "content": placeholder(number)}))
            .collect();
        let context = minijinja::context! {
            messages => minijinja::Value::from_serialize(&messages),
            tools => minijinja::Value::from_serialize(&tools.tools),
            add_generation_prompt => prompt,
            bos_token => self.bos_token,
            eos_token => self.eos_token,
        };
        template::render(&self.environment, &context)
    }

    /// The stop tokens: the first token that the template writes after a reply, and the end-of-sequence token.
    fn find_stop(&self) -> Result<Vec<u32>, ChatError> {
        let question = Message::of_text(Role::User, "?");
        let reply = Message::of_text(Role::Assistant, "!");
        let tools = ToolList::new(&[], &[])?;
        let (roles, placeholders) = fill_placeholders(&tools, [&question, &reply]);
        let text = self.render(&tools, &roles, false)?;
        let tail = placeholders.after_last(&text).ok_or(ChatError::NoReply)?;
        let first = self.encode(tail, &placeholders)?.tokens.first().copied();
        let eos = self.control.token_to_id(&self.eos_token);
        let mut stop: Vec<u32> = first.filter(|token| self.control_ids.contains(token)).into_iter().collect();
        stop.extend(eos.filter(|eos| !stop.contains(eos)));
        if stop.is_empty() { Err(ChatError::NoReply) } else { Ok(stop) }
    }
}

/// The roles of the messages, and the texts of the placeholders: first the functions' texts, then the messages'.
fn fill_placeholders<'a, 'm: 'a>(
    tools: &'a ToolList,
    messages: impl IntoIterator<Item = &'m Message>,
) -> (Vec<Role>, Placeholders<'a>) {
    let mut placeholders = Placeholders::default();
    tools.texts.iter().for_each(|text| placeholders.put(text));
    let mut roles = Vec::new();
    for message in messages {
        match message.role {
            Role::Assistant => placeholders.put_reply(&message.text, &message.tokens),
            Role::System => placeholders.put(&message.text),
            Role::User | Role::Tool => placeholders.put_observed(&message.text),
        }
        roles.push(message.role);
    }
    (roles, placeholders)
}

fn build(tokenizer: &Json) -> Result<Tokenizer, String> {
    tokenizer_limits::check(tokenizer)?;
    Tokenizer::from_bytes(tokenizer.to_string()).map_err(|error| error.to_string())
}

fn encode_with(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, ChatError> {
    let encoding = tokenizer.encode_fast(text, false).map_err(|error| ChatError::Tokenize(error.to_string()))?;
    Ok(encoding.get_ids().to_vec())
}

/// The text of tokens, control tokens included.
pub(crate) fn decode_with(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String, ChatError> {
    tokenizer.decode(tokens, false).map_err(|error| ChatError::Decode(error.to_string()))
}

/// The tokens of a text under a tokenizer without added tokens. Equals the ids of its `encode`, without the strings and
/// offsets that `encode` makes for each token and that take most of its time.
fn plain_tokens(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, tokenizers::Error> {
    let mut pieces = PreTokenizedString::from(text);
    if let Some(normalizer) = tokenizer.get_normalizer() {
        pieces.normalize(|piece| normalizer.normalize(piece))?;
    }
    if let Some(splitter) = tokenizer.get_pre_tokenizer() {
        splitter.pre_tokenize(&mut pieces)?;
    }
    pieces.tokenize(|piece| tokenizer.get_model().tokenize(piece.get()))?;
    let splits = pieces.get_splits(OffsetReferential::Original, OffsetType::None);
    Ok(splits.into_iter().filter_map(|(_, _, tokens)| tokens.as_ref()).flatten().map(|token| token.id).collect())
}

fn parse(text: &str, file: &'static str) -> Result<Json, ChatError> {
    serde_json::from_str(text).map_err(|error| ChatError::Malformed { file, reason: error.to_string() })
}

#[cfg(test)]
pub(crate) mod tests;
