//! Conversion of conversations to tokens and back, through the model's own chat template.
//!
//! Two rules shape this module. Each turn is appended and earlier tokens are never rendered again, so the trained
//! tokens are the sampled ones. And text from outside the policy is tokenised as plain text, whatever it holds.

mod adapt;
mod extend;
mod files;
mod probe;
mod report;
mod writing;

use std::sync::Arc;

use gymkhana_record::Function;
use gymkhana_template::Template;
use serde_json::{Map, Value as Json};
use tokenizers::Tokenizer;

use crate::encoder::{Encoder, Sourced};
use crate::error::ChatError;
use crate::message::ReplyPiece;
use crate::rendering::{FunctionList, FunctionLists, ReplyForm, Setting, TemplateForm};
use crate::thoughts::ThoughtMarks;
use crate::tool_call::ToolFormat;

pub use extend::{Extension, Observed, Rendered};
pub use files::ChatFiles;
use files::{Templates, named_tokens, parse};
pub use probe::{ResultForm, Shown};
pub use report::TemplateReport;

/// What happens to the thoughts of earlier replies in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EarlierThoughts {
    /// They stay as they were sampled.
    #[default]
    Keep,
    /// The template decides.
    Template,
}

/// Where a prompt lists the functions that the policy may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolsPlace {
    /// Where the template lists them; in the system message if it lists none.
    #[default]
    Auto,
    /// Where the template lists them, if anywhere.
    Template,
    /// In the system message.
    System,
}

/// A model's tokenizer, chat template and tool-call format.
pub struct ChatFormat {
    encoder: Encoder,
    templates: Templates,
    /// Variables of the run for the template.
    switches: Map<String, Json>,
    /// The tokenizer's named tokens, such as `bos_token`, for the template.
    named_tokens: Vec<(String, String)>,
    tool_format: ToolFormat,
    /// Whether the template or the run named the tool-call format.
    tool_format_known: bool,
    /// The marks of thoughts in replies; none if replies are not split.
    thoughts: Option<ThoughtMarks>,
    earlier_thoughts: EarlierThoughts,
    tools_place: ToolsPlace,
    /// Whether the template gets all messages as they are.
    as_given: bool,
    /// Messages that the template shows.
    shown: Shown,
    /// The form of ids and contents that the template takes.
    given: TemplateForm,
    /// Stop tokens by the template and the configuration.
    template_stop: Vec<u32>,
    /// Those and the stop tokens of the tool-call format.
    stop: Vec<u32>,
    function_lists: FunctionLists,
}

impl ChatFormat {
    /// Builds the format of a model's files. The tool-call format is detected from the chat template, and is Hermes if
    /// the template reveals no format.
    ///
    /// # Errors
    /// [`ChatError::Malformed`] for a malformed file, [`ChatError::NoTemplate`] without a template,
    /// [`ChatError::Template`] for a malformed one, [`ChatError::NoReply`] for one without the policy's replies.
    pub fn new(files: &ChatFiles) -> Result<Self, ChatError> {
        let tokenizer = parse(&files.tokenizer, "tokenizer.json")?;
        let config = parse(&files.config, "tokenizer_config.json")?;
        let malformed = |reason: String| ChatError::Malformed { file: "tokenizer.json", reason };
        let encoder = Encoder::new(&tokenizer).map_err(malformed)?;
        let templates = Templates::of(files, &config)?;
        let source = templates.source();
        let (tool_format, tool_format_known) = match ToolFormat::detect(source) {
            Some(format) => (format, true),
            None => (ToolFormat::default(), false),
        };
        let thoughts = ThoughtMarks::detect(source, encoder.mark_texts()).unwrap_or_default();
        let mut format = Self {
            encoder,
            templates,
            switches: Map::new(),
            named_tokens: named_tokens(&config),
            tool_format,
            tool_format_known,
            thoughts: Some(thoughts),
            earlier_thoughts: EarlierThoughts::default(),
            tools_place: ToolsPlace::default(),
            as_given: false,
            shown: Shown::default(),
            given: TemplateForm::default(),
            template_stop: Vec::new(),
            stop: Vec::new(),
            function_lists: FunctionLists::default(),
        };
        format.probe_contents();
        format.template_stop = format.find_stop()?;
        let others = files.ends.iter().filter(|end| !format.template_stop.contains(end)).copied();
        format.template_stop.extend(others.collect::<Vec<u32>>());
        let format = format.with_tool_format_of(tool_format);
        Ok(format.probed())
    }

    /// Replaces the detected tool-call format.
    #[must_use]
    pub fn with_tool_format(mut self, tool_format: ToolFormat) -> Self {
        self.tool_format_known = true;
        self.with_tool_format_of(tool_format).probed()
    }

    fn with_tool_format_of(mut self, tool_format: ToolFormat) -> Self {
        self.stop.clone_from(&self.template_stop);
        let ends = tool_format.end_tokens().iter().filter_map(|text| self.encoder.mark(text));
        self.stop.extend(ends.filter(|id| !self.template_stop.contains(id)));
        self.tool_format = tool_format;
        self
    }

    /// Replaces the detected marks of thoughts; with `None`, thoughts stay in messages.
    #[must_use]
    pub fn with_thoughts(mut self, thoughts: Option<ThoughtMarks>) -> Self {
        self.thoughts = thoughts;
        self
    }

    /// Sets what happens to the thoughts of earlier replies.
    pub fn set_earlier_thoughts(&mut self, earlier_thoughts: EarlierThoughts) {
        self.earlier_thoughts = earlier_thoughts;
    }

    /// Sets where prompts list functions.
    #[must_use]
    pub fn with_tools_place(mut self, tools_place: ToolsPlace) -> Self {
        self.tools_place = tools_place;
        self
    }

    /// Gives the template all messages and functions as they are, also those that it leaves out or refuses, as
    /// `apply_chat_template` of transformers does. By default they are moved into messages that the template shows.
    #[must_use]
    pub fn with_messages_as_given(mut self) -> Self {
        self.as_given = true;
        self
    }

    /// Gives the template variables, such as `enable_thinking`.
    #[must_use]
    pub fn with_switches(mut self, switches: Map<String, Json>) -> Self {
        self.switches = switches;
        self.function_lists = FunctionLists::default();
        self.probed()
    }

    /// Chooses one of several templates of the model.
    ///
    /// # Errors
    /// [`ChatError::NoTemplateNamed`] if the model has none of this name.
    pub fn with_template_named(mut self, name: &str) -> Result<Self, ChatError> {
        self.templates.choose(name)?;
        Ok(self.probed())
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

    /// The mark with this text.
    pub(crate) fn token(&self, text: &str) -> Option<u32> {
        self.encoder.mark(text)
    }

    /// The tokens that end the policy's turn; the first is the one that the template writes.
    #[must_use]
    pub fn stop(&self) -> &[u32] {
        &self.stop
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
        self.encoder.decode(tokens)
    }

    /// The tokenizer, to decode tokens while they are sampled.
    pub(crate) fn decoder(&self) -> Arc<Tokenizer> {
        Arc::clone(self.encoder.tokenizer())
    }

    /// Most bytes of a text that this number of tokens stands for: a longer text need not be tokenised to see that it does
    /// not fit. None for tokenizers without such a bound.
    #[must_use]
    pub fn most_bytes(&self, tokens: usize) -> Option<usize> {
        self.encoder.most_bytes(tokens)
    }

    /// Number of tokens of the tokenizer, added tokens included.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.encoder.tokenizer().get_vocab_size(true)
    }

    /// The tokens of a reply as a policy would have sampled it: `Frame` pieces are tokenised with control tokens,
    /// `Plain` pieces without. Ends with the stop token.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] or [`ChatError::Forged`] for a text that the tokenizer cannot encode.
    pub fn encode_reply(&self, pieces: &[ReplyPiece<'_>]) -> Result<Vec<u32>, ChatError> {
        let (mut text, mut outside) = (String::new(), vec![]);
        for piece in pieces {
            let start = text.len();
            match piece {
                ReplyPiece::Frame(frame) => text.push_str(frame),
                ReplyPiece::Plain(plain) => {
                    text.push_str(plain);
                    outside.push(start..text.len());
                }
            }
        }
        let mut tokens = self.encoder.tokens(Sourced::new(&text, &outside))?;
        tokens.extend(self.stop.first());
        Ok(tokens)
    }

    /// Tokens of a text, including control tokens that it names and those that the tokenizer adds around a text.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] for a text that the tokenizer cannot encode.
    pub fn encode_raw(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let encoding = self.encoder.tokenizer().encode_fast(text, true);
        Ok(encoding.map_err(|error| ChatError::Tokenize(error.to_string()))?.get_ids().to_vec())
    }

    /// Tokens of a text that can never become a control token.
    ///
    /// # Errors
    /// [`ChatError::Tokenize`] for a text that the tokenizer cannot encode, [`ChatError::Forged`] if a control token
    /// came out.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, ChatError> {
        let whole = 0..text.len();
        self.encoder.tokens(Sourced::new(text, std::slice::from_ref(&whole)))
    }

    fn template(&self, functions: bool) -> &Template {
        self.templates.of_conversation(functions)
    }

    fn tools(&self, functions: &[Function]) -> Result<Arc<FunctionList>, ChatError> {
        self.function_lists.of(functions, self.encoder.mark_texts())
    }

    fn setting(&self, prompt: bool, form: ReplyForm) -> Setting<'_> {
        Setting {
            switches: &self.switches,
            own_switches: no_switches(),
            named_tokens: &self.named_tokens,
            prompt,
            form,
            given: self.given,
        }
    }
}

/// No variables for a template.
fn no_switches() -> &'static Map<String, Json> {
    static NONE: std::sync::LazyLock<Map<String, Json>> = std::sync::LazyLock::new(Map::new);
    &NONE
}

#[cfg(test)]
mod form_tests;
#[cfg(test)]
mod templates_tests;
#[cfg(test)]
pub(crate) mod tests;
