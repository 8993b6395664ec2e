//! The list of formats: their names, parsers and writers.

use std::str::FromStr;

use gymkhana_record::Function;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::custom::{CustomFields, CustomMarks};
use super::marked::{self, fenced, table as marks};
use super::tags::{self, table as tag_table};
use super::{CallPiece, NewCall, ParsedReply, deepseek, gemma, harmony, llama, mistral, named, python};

/// Defines the formats with their names and descriptions.
macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The format in which a model writes tool calls.
        ///
        /// It is serialised as its name, and a user's own marks as a table: see [`CustomMarks`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum ToolFormat {
            $($(#[$doc])* $variant,)*
            /// JSON between a user's own marks.
            Custom(CustomMarks),
        }

        impl ToolFormat {
            /// All formats with a name.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in the run file, which is also the serialised form. `custom` for a user's own marks.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Custom(_) => "custom",
                }
            }
        }
    };
}

formats! {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen2.5, Qwen3, Granite 4.
    #[default]
    Hermes = "hermes",
    /// `{"name": …, "parameters": {…}}`, optionally behind `<|python_tag|>`: Llama 3.1, 3.2, 3.3.
    Llama3Json = "llama3-json",
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}]` or `[TOOL_CALLS]name[ARGS]{…}`: Mistral, Ministral, Devstral.
    Mistral = "mistral",
    /// `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: Qwen3-Coder, Qwen3.5.
    Qwen3CoderXml = "qwen3-coder-xml",
    /// `<｜tool▁calls▁begin｜>…<｜tool▁calls▁end｜>`: DeepSeek-V3, V3.1 and R1.
    DeepSeek = "deepseek",
    /// A Markdown code block of JSON with a name and arguments: models without a format of their own.
    FencedJson = "fenced-json",
    /// `<tool_call>name`, `<arg_key>` and `<arg_value>`: GLM 4.5 to 5.
    Glm = "glm",
    /// Channels with a recipient, `<|channel|>commentary to=functions.name …<|call|>`: gpt-oss.
    Harmony = "harmony",
    /// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2.
    Kimi = "kimi",
    /// `[name(a=1, b="x")]`: Llama 3.2 and 4.
    Pythonic = "pythonic",
    /// `<function_calls>` around lines of `name(a=1)`: Olmo 3.
    Olmo3 = "olmo3",
    /// `<|tool_call_start|>[name(a=1)]<|tool_call_end|>`: LFM2.
    Lfm2 = "lfm2",
    /// `<minimax:tool_call><invoke name="…"><parameter name="…">`: MiniMax M2.
    MinimaxXml = "minimax-xml",
    /// The same tags with the mark `｜DSML｜`: DeepSeek V3.2 and V4.
    DeepSeekDsml = "deepseek-dsml",
    /// A list behind marks, or without marks, `[{"name": …, "arguments": {…}}]`: xLAM.
    JsonList = "json-list",
    /// `<|tool_call|>[{…}]`: Granite 3.
    Granite = "granite",
    /// `<|tool_call|>{…}<|/tool_call|>`: Phi-4-mini.
    Phi4Mini = "phi4-mini",
    /// `functools[{…}]`: Firefunction, Phi-4-mini behind vLLM.
    Functools = "functools",
    /// `<TOOLCALL>[{…}]</TOOLCALL>`: Nemotron Nano v2.
    Nemotron = "nemotron",
    /// `<tool_calls>[{…}]</tool_calls>`: Hunyuan, Jamba, Apriel, MiniMax M1.
    ToolCalls = "tool-calls",
    /// `<function_call> {…}`: Granite 20B for function calling.
    FunctionCall = "function-call",
    /// `<|tool_call>call:name{a:1,b:<|"|>x<|"|>}<tool_call|>`: Gemma 4.
    Gemma = "gemma",
    /// `<start_function_call>call:name{a:<escape>x<escape>}<end_function_call>`: FunctionGemma.
    FunctionGemma = "function-gemma",
    /// `<|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>`: Command R7B, Command A.
    Command = "command",
    /// The tags of `qwen3-coder-xml` in `<seed:tool_call>`: Seed-OSS.
    SeedXml = "seed-xml",
    /// `<function=name>{…}</function>`: Llama 3.1's own form.
    LlamaFunction = "llama-function",
    /// `<|tools_prefix|>[{"name": {…}}]<|tools_suffix|>`: Apertus.
    Apertus = "apertus",
    /// `<|action_start|><|plugin|>{…}<|action_end|>`: InternLM.
    InternLm = "internlm",
    /// `<steptml:invoke name="…">` between marks like DeepSeek's: Step 3.
    Step3 = "step3",
    /// `<longcat_tool_call>{…}</longcat_tool_call>`: LongCat.
    LongCat = "longcat",
    /// The tags of `glm` with the prefix `longcat_`: LongCat 2.
    LongCatTags = "longcat-tags",
    /// `<function name="…"><param name="…">`: MiniCPM 5.
    MiniCpm5 = "minicpm5",
    /// The tags of `glm` in `<tool_calls>`, with `<tool_sep>` behind the name: Hunyuan 3.
    Hunyuan3 = "hunyuan3",
    /// A message of the role `function call`: GigaChat 3.
    GigaChat3 = "gigachat3",
    /// The tags of `deepseek-dsml` with the mark `｜GCML｜`: GigaChat 3.5.
    GigaChat35 = "gigachat35",
}

/// The parser and the writer of a format.
enum FormatCodec {
    Marked(marked::Reading<'static>, marked::Marks<'static>),
    Tags(&'static tags::Tags),
    Python(&'static python::Notation),
    Named(&'static named::Marks),
    Gemma(&'static gemma::Marks),
    Own(fn(&str) -> ParsedReply, fn(&[NewCall<'_>]) -> Vec<CallPiece>),
    Custom(CustomMarks),
}

impl ToolFormat {
    /// Splits a reply into its message and its calls.
    ///
    /// `functions` are those the policy may call. Formats whose arguments are untyped text use them: the functions'
    /// schemas turn the text into JSON.
    #[must_use]
    pub fn parse(self, text: &str, functions: &[Function]) -> ParsedReply {
        match self.form() {
            FormatCodec::Marked(reading, _) => marked::parse(text, &reading),
            FormatCodec::Tags(tags) => tags::parse(text, tags, functions),
            FormatCodec::Python(_) => python::parse(text),
            FormatCodec::Named(marks) => named::parse(text, marks),
            FormatCodec::Gemma(marks) => gemma::parse(text, marks, functions),
            FormatCodec::Own(parse, _) => parse(text),
            FormatCodec::Custom(custom) => {
                marked::parse(text, &marked::Reading { marks: &[custom.marks()], dropped: &[], bare: false })
            }
        }
    }

    /// Writes calls as the model would. Empty for no calls.
    #[must_use]
    pub fn write(self, calls: &[NewCall<'_>]) -> Vec<CallPiece> {
        if calls.is_empty() {
            return vec![];
        }
        match self.form() {
            FormatCodec::Marked(_, marks) => marked::write(calls, &marks),
            FormatCodec::Tags(tags) => tags::write(calls, tags),
            FormatCodec::Python(notation) => python::write(calls, notation),
            FormatCodec::Named(marks) => named::write(calls, marks),
            FormatCodec::Gemma(marks) => gemma::write(calls, marks),
            FormatCodec::Own(_, write) => write(calls),
            FormatCodec::Custom(custom) => marked::write(calls, &custom.marks()),
        }
    }

    fn form(self) -> FormatCodec {
        let list = |written| FormatCodec::Marked(marks::READ_LISTS, written);
        match self {
            Self::Hermes => FormatCodec::Marked(marks::READ_HERMES, marks::HERMES),
            Self::Llama3Json => FormatCodec::Own(llama::parse, llama::write),
            Self::Mistral => FormatCodec::Own(mistral::parse, mistral::write),
            Self::Qwen3CoderXml => FormatCodec::Tags(&tag_table::QWEN),
            Self::DeepSeek => FormatCodec::Own(deepseek::parse, deepseek::write),
            Self::FencedJson => FormatCodec::Own(fenced::parse, fenced::write),
            Self::Glm => FormatCodec::Tags(&tag_table::GLM),
            Self::Harmony => FormatCodec::Own(harmony::parse, harmony::write),
            Self::Kimi => FormatCodec::Named(&named::KIMI),
            Self::Pythonic => FormatCodec::Python(&python::BARE),
            Self::Olmo3 => FormatCodec::Python(&python::OLMO),
            Self::Lfm2 => FormatCodec::Python(&python::LFM2),
            Self::MinimaxXml => FormatCodec::Tags(&tag_table::MINIMAX),
            Self::DeepSeekDsml => FormatCodec::Tags(&tag_table::DSML),
            Self::JsonList => list(marks::JSON_LIST),
            Self::Granite => list(marks::GRANITE),
            Self::Phi4Mini => list(marks::PHI4),
            Self::Functools => list(marks::FUNCTOOLS),
            Self::Nemotron => list(marks::NEMOTRON),
            Self::ToolCalls => list(marks::TOOL_CALLS),
            Self::FunctionCall => list(marks::FUNCTION_CALL),
            Self::Gemma => FormatCodec::Gemma(&gemma::GEMMA),
            Self::FunctionGemma => FormatCodec::Gemma(&gemma::FUNCTION_GEMMA),
            Self::Command => FormatCodec::Marked(marks::READ_COMMAND, marks::COMMAND),
            Self::SeedXml => FormatCodec::Tags(&tag_table::SEED),
            Self::LlamaFunction => FormatCodec::Named(&named::LLAMA_FUNCTION),
            Self::Apertus => FormatCodec::Marked(marks::READ_APERTUS, marks::APERTUS),
            Self::InternLm => FormatCodec::Marked(marks::READ_INTERNLM, marks::INTERNLM),
            Self::Step3 => FormatCodec::Tags(&tag_table::STEP),
            Self::LongCat => FormatCodec::Marked(marks::READ_LONGCAT, marks::LONGCAT),
            Self::LongCatTags => FormatCodec::Tags(&tag_table::LONGCAT),
            Self::MiniCpm5 => FormatCodec::Tags(&tag_table::MINICPM),
            Self::Hunyuan3 => FormatCodec::Tags(&tag_table::HUNYUAN),
            Self::GigaChat3 => FormatCodec::Marked(marks::READ_GIGACHAT, marks::GIGACHAT),
            Self::GigaChat35 => FormatCodec::Tags(&tag_table::GCML),
            Self::Custom(custom) => FormatCodec::Custom(custom),
        }
    }

    /// Control tokens that end a turn with calls and that neither the template nor the configuration reveals.
    #[must_use]
    pub fn end_tokens(self) -> &'static [&'static str] {
        match self {
            // https://github.com/meta-llama/llama-models, models/llama3_1/prompt_format.md: "end of message".
            Self::Llama3Json | Self::LlamaFunction => &["<|eom_id|>"],
            Self::Harmony => &[harmony::CALL],
            // The generation configuration of GLM-4.5 lists the mark of the tools' answers.
            Self::Glm => &["<|observation|>"],
            Self::Gemma => &[gemma::GEMMA.answer],
            Self::FunctionGemma => &[gemma::FUNCTION_GEMMA.answer],
            // The answers of tools follow in the same turn.
            Self::Apertus => &[marks::APERTUS.close],
            _ => &[],
        }
    }

    /// The token that ends a turn with calls in place of the template's end of a message, if the format has one. Written
    /// calls do not include it.
    #[must_use]
    pub fn call_end(self) -> Option<&'static str> {
        (self == Self::Harmony).then_some(harmony::CALL)
    }

    /// The text that templates write between a message and its calls.
    #[must_use]
    pub fn separator(self) -> &'static str {
        match self {
            Self::DeepSeekDsml | Self::GigaChat35 | Self::Nemotron => "\n\n",
            Self::Hermes
            | Self::Qwen3CoderXml
            | Self::FencedJson
            | Self::Glm
            | Self::MinimaxXml
            | Self::SeedXml
            | Self::LongCat
            | Self::LongCatTags
            | Self::JsonList
            | Self::Olmo3
            | Self::FunctionCall => "\n",
            _ => "",
        }
    }
}

impl std::fmt::Display for ToolFormat {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The error of a name that no format has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool-call format `{name}`; the formats are {}", known())]
pub struct UnknownToolFormat {
    /// The name.
    pub name: String,
}

fn known() -> String {
    ToolFormat::ALL.map(ToolFormat::name).join(", ")
}

impl FromStr for ToolFormat {
    type Err = UnknownToolFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let format = Self::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| UnknownToolFormat { name: name.to_owned() })
    }
}

impl Serialize for ToolFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Custom(custom) => custom.serialize(serializer),
            named => serializer.serialize_str(named.name()),
        }
    }
}

impl<'de> Deserialize<'de> for ToolFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FormatVisitor)
    }
}

struct FormatVisitor;

impl<'de> Visitor<'de> for FormatVisitor {
    type Value = ToolFormat;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the name of a tool-call format, or a table with `kind`, `open` and `close`")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        name.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let fields = CustomFields::deserialize(MapAccessDeserializer::new(map))?;
        CustomMarks::try_from(fields).map(ToolFormat::Custom).map_err(de::Error::custom)
    }
}
