//! Detection of formats: from a chat template, and of call-like text in a reply.

use super::ToolFormat;
use super::json::{is_call, resembles_call as resembles_json, split_value};
use super::marked::table as marks;
use super::scan::split_at_mark;
use super::{deepseek, gemma, harmony, llama, mistral, named, python, tags};

/// A format and the marks by which a template reveals it: all marks of one of the sets.
type DetectionRow = (ToolFormat, &'static [&'static [&'static str]]);

/// The formats by the marks in a template. A template may quote a simpler format beside its own, so the most specific
/// marks come first.
const ROWS: [DetectionRow; 36] = [
    (ToolFormat::DeepSeekDsml, &[&["｜DSML｜"]]),
    (ToolFormat::GigaChat35, &[&["｜GCML｜"]]),
    (ToolFormat::Step3, &[&["<steptml:"]]),
    (ToolFormat::DeepSeek, &[&[deepseek::CALLS_BEGIN]]),
    (ToolFormat::Mistral, &[&[mistral::TOOL_CALLS]]),
    (ToolFormat::Harmony, &[&[harmony::CHANNEL, harmony::MESSAGE, harmony::CALL]]),
    // The first templates of Kimi K2 show no calls, but authors of messages that no other model has.
    (ToolFormat::Kimi, &[&[named::KIMI.section.0], &[named::KIMI.begin], &["<|im_system|>", "<|im_middle|>"]]),
    (ToolFormat::Hunyuan3, &[&["<arg_key>", "<tool_sep>"]]),
    (ToolFormat::Glm, &[&["<arg_key>"]]),
    (ToolFormat::SeedXml, &[&["<seed:tool_call>"]]),
    (ToolFormat::MinimaxXml, &[&["<minimax:tool_call>"]]),
    (ToolFormat::MiniCpm5, &[&["<function name=", "<param name="]]),
    (ToolFormat::Gemma, &[&[gemma::GEMMA.open]]),
    (ToolFormat::FunctionGemma, &[&[gemma::FUNCTION_GEMMA.open]]),
    (ToolFormat::Command, &[&[marks::COMMAND.open]]),
    (ToolFormat::Lfm2, &[&["<|tool_call_start|>"], &["<|tool_list_start|>"]]),
    (ToolFormat::Apertus, &[&[marks::APERTUS.open]]),
    (ToolFormat::InternLm, &[&["<|action_start|>"]]),
    (ToolFormat::LongCatTags, &[&["<longcat_arg_key>"]]),
    (ToolFormat::LongCat, &[&[marks::LONGCAT.open]]),
    (ToolFormat::GigaChat3, &[&["function call", "<|role_sep|>"], &["<|function_call|>"]]),
    (ToolFormat::Nemotron, &[&[marks::NEMOTRON.open]]),
    (ToolFormat::Phi4Mini, &[&[marks::PHI4.close], &["<|/tool|>"]]),
    (ToolFormat::Granite, &[&[marks::GRANITE.open]]),
    (ToolFormat::Functools, &[&["functools"]]),
    (ToolFormat::Qwen3CoderXml, &[&["<function=", "<parameter="]]),
    (ToolFormat::Hermes, &[&[marks::HERMES.open]]),
    (ToolFormat::ToolCalls, &[&[marks::TOOL_CALLS.open]]),
    (ToolFormat::Olmo3, &[&["<function_calls>"]]),
    (ToolFormat::FunctionCall, &[&[marks::FUNCTION_CALL.open]]),
    (ToolFormat::LlamaFunction, &[&["<function="]]),
    (ToolFormat::Pythonic, &[&["[func_name1("], &["func_name1(params_name1"]]),
    (
        ToolFormat::Llama3Json,
        &[&[llama::PYTHON_TAG], &["<|start_header_id|>", "ipython"], &["<|header_start|>", "ipython"]],
    ),
    (ToolFormat::FencedJson, &[&["```json"]]),
    (ToolFormat::Pythonic, &[&["<|python_start|>"]]),
    (ToolFormat::JsonList, &[&["[{\"name\":"]]),
];

/// Marks of formats that no parser reads: Kimi K3. Such a template may list functions in a code block of JSON, which is
/// not the form of its calls.
const UNREAD: [&[&str]; 1] = [&["<|open|>", "<|close|>", "<|sep|>"]];

impl ToolFormat {
    /// Detects the format from the text of a chat template; `None` if the template holds no known mark.
    #[must_use]
    pub fn detect(template: &str) -> Option<Self> {
        format_of(template)
    }

    /// Whether a text holds a mark of any format, or JSON or Python that looks like a call. A run warns of a format that
    /// reads no call in such replies.
    #[must_use]
    pub fn resembles_call(text: &str) -> bool {
        resembles_call(text)
    }
}

/// The format that a template reveals.
fn format_of(template: &str) -> Option<ToolFormat> {
    let reveals = |words: &[&str]| words.iter().all(|word| template.contains(word));
    if UNREAD.iter().any(|words| reveals(words)) {
        return None;
    }
    let row = ROWS.iter().find(|(_, texts)| texts.iter().any(|words| reveals(words)));
    row.map(|(format, _)| *format)
}

/// Marks that stand in calls and hardly in other text.
fn marks() -> Vec<&'static str> {
    let mut all = vec![deepseek::CALLS_BEGIN, "<｜tool▁call▁begin｜>", mistral::TOOL_CALLS, llama::PYTHON_TAG];
    all.extend([
        "to=functions.",
        "<invoke name=",
        "<arg_key>",
        "<longcat_arg_key>",
        "<parameter=",
        "<function=",
        "<function name=",
    ]);
    all.extend([named::KIMI.section.0, named::KIMI.begin, gemma::GEMMA.open, gemma::FUNCTION_GEMMA.open]);
    let read = [
        marks::READ_HERMES,
        marks::READ_LISTS,
        marks::READ_COMMAND,
        marks::READ_APERTUS,
        marks::READ_INTERNLM,
        marks::READ_LONGCAT,
        marks::READ_GIGACHAT,
    ];
    all.extend(read.iter().flat_map(|reading| reading.marks).map(|marks| marks.open));
    all.extend(python::MARKS.map(|(open, _)| open));
    let tagged =
        [&tags::table::DSML, &tags::table::GCML, &tags::table::STEP, &tags::table::SEED, &tags::table::MINIMAX];
    all.extend(tagged.iter().flat_map(|tags| tags.sections).map(|(open, _)| *open));
    all.retain(|mark| !mark.is_empty());
    all
}

/// Most places in a reply at which JSON and Python are looked for.
const MAX_TRIES: usize = 32;

/// Whether a text holds a mark of any format, or JSON or Python that looks like a call.
fn resembles_call(text: &str) -> bool {
    if split_at_mark(text, &marks()).is_some() {
        return true;
    }
    let mut rest = text;
    for _ in 0..MAX_TRIES {
        let Some((before, ..)) = split_at_mark(rest, &["{", "["]) else { return false };
        let here = &rest[before.len()..];
        let json = split_value(here).map_or_else(|| resembles_json(here), |(value, _)| is_call(value));
        if json || python::starts_call(here) {
            return true;
        }
        rest = here.get(1..).unwrap_or_default();
    }
    false
}
