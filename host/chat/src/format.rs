//! From conversations to tokens and back, through the model's own chat template.
//!
//! Two rules shape this module. A turn is appended and earlier tokens are never rendered again, so that what was
//! sampled is what is trained. And text from outside the policy is tokenised as plain text: the template is
//! rendered with a placeholder for every such text, the template's own pieces are tokenised with the control
//! tokens, and what belongs into the placeholders by a tokenizer that has none.

use std::collections::HashSet;
use std::sync::Arc;

use minijinja::Environment;
use serde_json::{Value as Json, json};
use tokenizers::{Model, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Tokenizer};

use gymkhana_record::Function;

use crate::byte_table::TokenBytes;
use crate::message::{Message, Role};
use crate::prompt_cache::{Memo, ToolList, ToolLists};
use crate::template::{self, Placeholders, placeholder};

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

/// A model's tokenizer or template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A file is not what it should be.
    #[error("the model's {file} cannot be used: {reason}")]
    Malformed {
        /// The file's name.
        file: &'static str,
        /// Why.
        reason: String,
    },
    /// There is no chat template.
    #[error(
        "the model has no chat template: put one into chat_template.jinja or `chat_template` of tokenizer_config.json"
    )]
    NoTemplate,
    /// The template refused a conversation.
    #[error("the chat template cannot render this conversation")]
    Render(#[source] minijinja::Error),
    /// A template does not keep to what appending needs.
    #[error("the chat template does not show the policy's replies where its generation prompt announces them")]
    NoReply,
    /// The tokenizer refused a text.
    #[error("the tokenizer refuses a text: {0}")]
    Tokenize(String),
    /// A plain text became a control token all the same.
    #[error("the tokenizer turns plain text into the control token {0}; its vocabulary holds control tokens as text")]
    Forged(u32),
}

/// A model's tokenizer and chat template.
pub struct ChatFormat {
    /// Knows the control tokens: for the template's own pieces and for decoding.
    control: Tokenizer,
    /// Knows none: for every text from outside.
    plain: Tokenizer,
    /// The ids that plain text must never become.
    control_ids: HashSet<u32>,
    /// The control tokens' texts, to find them in the descriptions of functions.
    control_texts: Vec<String>,
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
    stop: Vec<u32>,
    /// What tokens spell, where a table can say it.
    token_bytes: Option<TokenBytes>,
    tool_lists: ToolLists,
    /// The tokens of the template's own pieces.
    pieces: Memo<String, Arc<[u32]>>,
}

/// What a conversation looked like when it was last put into tokens.
#[derive(Debug, Clone, Default)]
pub struct Rendered(Arc<str>);

/// The tokens by which a context grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extension {
    /// Append these to the segment.
    Append(Vec<u32>),
    /// The template changed what it had said before: start a new segment with these.
    Restart(Vec<u32>),
}

impl ChatFormat {
    /// Builds the format of a model's files.
    ///
    /// # Errors
    /// If one of them is malformed, or if there is no template.
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
        let environment = template::environment(source).map_err(ChatError::Render)?;
        let mut format = Self {
            control,
            plain,
            control_ids: added.keys().copied().collect(),
            control_texts: added.values().map(|token| token.content.clone()).collect(),
            environment,
            bos_token: template::token_text(&config, "bos_token"),
            eos_token: template::token_text(&config, "eos_token"),
            stop: Vec::new(),
            token_bytes,
            tool_lists: ToolLists::default(),
            pieces: Memo::default(),
        };
        format.stop = format.find_stop()?;
        Ok(format)
    }

    /// The tokens that end the policy's turn.
    #[must_use]
    pub fn stop(&self) -> &[u32] {
        &self.stop
    }

    /// The tokens by which a context grows until the policy may speak, and the conversation's new look.
    ///
    /// `sampled_stop` says whether the last reply ended with a stop token that is in the segment already.
    ///
    /// # Errors
    /// If the template refuses the conversation or the tokenizer a text.
    pub fn extend<'m>(
        &self,
        before: &Rendered,
        messages: impl IntoIterator<Item = &'m Message>,
        functions: &[Function],
        sampled_stop: bool,
    ) -> Result<(Extension, Rendered), ChatError> {
        let tools = self.tool_lists.of(functions, &self.control_texts);
        let (roles, placeholders) = speakers(&tools, messages);
        let text = tools.shapes.get(&roles[..], || Ok(self.render(&tools, &roles, true)?.into()))?;
        let extension = match text.strip_prefix(&*before.0) {
            Some(grown) if !before.0.is_empty() => match placeholders.strip_leading(grown) {
                Some(tail) => {
                    let mut tokens = self.encode(tail, &placeholders)?;
                    if sampled_stop && tokens.first().is_some_and(|token| self.stop.contains(token)) {
                        tokens.remove(0);
                    }
                    Extension::Append(tokens)
                }
                None => Extension::Restart(self.encode(&text, &placeholders)?),
            },
            _ => Extension::Restart(self.encode(&text, &placeholders)?),
        };
        Ok((extension, Rendered(text)))
    }

    /// The text of sampled tokens, control tokens included, without the stop token at its end.
    ///
    /// # Errors
    /// If the tokenizer does not know a token.
    pub fn decode_reply(&self, tokens: &[u32]) -> Result<String, ChatError> {
        let spoken = match tokens.split_last() {
            Some((last, before)) if self.stop.contains(last) => before,
            _ => tokens,
        };
        self.decode(spoken)
    }

    /// The text of any tokens, control tokens included.
    ///
    /// # Errors
    /// If the tokenizer does not know a token.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, ChatError> {
        if let Some(token_bytes) = &self.token_bytes {
            return Ok(token_bytes.text(tokens));
        }
        self.control.decode(tokens, false).map_err(|error| ChatError::Tokenize(error.to_string()))
    }

    /// A tokenizer of its own for whoever shapes at tokens as they are sampled.
    pub(crate) fn decoder(&self) -> Tokenizer {
        self.control.clone()
    }

    /// How many tokens there are.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.control.get_vocab_size(true)
    }

    /// The tokens of a reply as a policy would have sampled it: `frame` pieces are tokenised with control tokens,
    /// `plain` pieces without. Ends with the stop token.
    ///
    /// # Errors
    /// If the tokenizer refuses a text.
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

    /// Tokens of a text that is meant with its control tokens, and with those that the tokenizer puts around a text.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let encoding = self.control.encode_fast(text, true).map_err(|error| ChatError::Tokenize(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Tokens of a text that can never become a control token.
    ///
    /// # Errors
    /// If the tokenizer refuses the text, or would forge a control token.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let tokens = plain_tokens(&self.plain, text).map_err(|error| ChatError::Tokenize(error.to_string()))?;
        match tokens.iter().find(|token| self.control_ids.contains(token)) {
            Some(forged) => Err(ChatError::Forged(*forged)),
            None => Ok(tokens),
        }
    }

    fn encode(&self, text: &str, placeholders: &Placeholders<'_>) -> Result<Vec<u32>, ChatError> {
        let mut tokens = Vec::new();
        for piece in placeholders.split(text) {
            match piece {
                template::Piece::Own(own) => tokens.extend_from_slice(&self.own_tokens(own)?),
                template::Piece::Outside(outside) => tokens.extend(self.encode_plain(outside)?),
                template::Piece::Sampled(sampled) => tokens.extend(sampled),
            }
        }
        Ok(tokens)
    }

    /// The tokens of a piece that the template wrote.
    fn own_tokens(&self, own: &str) -> Result<Arc<[u32]>, ChatError> {
        self.pieces.get(own, || Ok(encode_with(&self.control, own)?.into()))
    }

    /// The look of a conversation; with `prompt`, up to where the policy may speak.
    fn render(&self, tools: &ToolList, roles: &[Role], prompt: bool) -> Result<String, ChatError> {
        let messages: Vec<Json> = (tools.texts.len()..)
            .zip(roles)
            .map(|(number, role)| json!({"role": role.name(), "content": placeholder(number)}))
            .collect();
        let template = self.environment.get_template(template::NAME).map_err(ChatError::Render)?;
        template
            .render(minijinja::context! {
                messages => minijinja::Value::from_serialize(&messages),
                tools => minijinja::Value::from_serialize(&tools.tools),
                add_generation_prompt => prompt,
                bos_token => self.bos_token,
                eos_token => self.eos_token,
            })
            .map_err(ChatError::Render)
    }

    /// What the template puts behind a reply: its first token ends the policy's turn.
    fn find_stop(&self) -> Result<Vec<u32>, ChatError> {
        let question = Message::of_text(Role::User, "?");
        let reply = Message::of_text(Role::Assistant, "!");
        let tools = ToolList::new(&[], &[]);
        let (roles, placeholders) = speakers(&tools, [&question, &reply]);
        let text = self.render(&tools, &roles, false)?;
        let tail = placeholders.after_last(&text).ok_or(ChatError::NoReply)?;
        let first = self.encode(tail, &placeholders)?.first().copied();
        let eos = self.control.token_to_id(&self.eos_token);
        let mut stop: Vec<u32> = first.filter(|token| self.control_ids.contains(token)).into_iter().collect();
        stop.extend(eos.filter(|eos| !stop.contains(eos)));
        if stop.is_empty() { Err(ChatError::NoReply) } else { Ok(stop) }
    }
}

/// A piece of a reply that is written for the policy, as by an oracle.
#[derive(Debug, Clone, Copy)]
pub enum ReplyPiece<'a> {
    /// The format's own marks.
    Frame(&'a str),
    /// Words from outside.
    Plain(&'a str),
}

/// Who speaks, and what belongs into the placeholders: first the functions' texts, then the messages'.
fn speakers<'a, 'm: 'a>(
    tools: &'a ToolList,
    messages: impl IntoIterator<Item = &'m Message>,
) -> (Vec<Role>, Placeholders<'a>) {
    let mut placeholders = Placeholders::default();
    tools.texts.iter().for_each(|text| placeholders.put(text));
    let mut roles = Vec::new();
    for message in messages {
        match message.role {
            Role::Assistant => placeholders.put_reply(&message.text, &message.tokens),
            Role::System | Role::User | Role::Tool => placeholders.put(&message.text),
        }
        roles.push(message.role);
    }
    (roles, placeholders)
}

fn build(tokenizer: &Json) -> Result<Tokenizer, String> {
    Tokenizer::from_bytes(tokenizer.to_string()).map_err(|error| error.to_string())
}

fn encode_with(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, ChatError> {
    let encoding = tokenizer.encode_fast(text, false).map_err(|error| ChatError::Tokenize(error.to_string()))?;
    Ok(encoding.get_ids().to_vec())
}

/// The tokens of a text under a tokenizer without added tokens: what its `encode` gives, less the strings and offsets
/// that come with each token there and take most of the time.
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
