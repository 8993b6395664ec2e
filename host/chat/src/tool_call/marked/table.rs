//! The marks around JSON calls of each format.
//!
//! Sources: the chat templates of Qwen/Qwen2.5-7B-Instruct, ibm-granite/granite-3.3-8b-instruct,
//! nvidia/NVIDIA-Nemotron-Nano-9B-v2, tencent/Hunyuan-A13B-Instruct, CohereForAI/c4ai-command-r7b-12-2024,
//! swiss-ai/Apertus-8B-Instruct-2509 and ai-sage/GigaChat3-10B-A1.8B, those of llama.cpp (`models/templates`), and the
//! tool parsers of vLLM with their tests (`granite`, `granite-20b-fc`, `phi4_mini_json`, `hunyuan_a13b`, `jamba`, `xlam`,
//! `internlm`, `longcat`, `apertus`, `gigachat3`).

use super::super::json::{ARGUMENTS, CallKeys, PARAMETERS};
use super::{CallLayout, Marks, Reading, Shape};

/// Each call directly between its marks.
const TIGHT: CallLayout = CallLayout::Each { head: "", tail: "", between: "" };

const fn marks(open: &'static str, close: &'static str, needs_close: bool, layout: CallLayout) -> Marks<'static> {
    Marks { open, close, needs_close, keys: ARGUMENTS, shape: Shape::Object, layout }
}

/// Hermes, Qwen2.5 and Qwen3: `<tool_call>{…}</tool_call>`.
pub(in super::super) const HERMES: Marks<'static> =
    marks("<tool_call>", "</tool_call>", true, CallLayout::Each { head: "\n", tail: "\n", between: "\n" });
/// A list without marks: xLAM.
pub(in super::super) const JSON_LIST: Marks<'static> = marks("", "", false, CallLayout::List);
/// Granite 3: a list behind a mark.
pub(in super::super) const GRANITE: Marks<'static> = marks("<|tool_call|>", "", false, CallLayout::List);
/// Phi-4-mini: the same mark with a closing one, around each call.
pub(in super::super) const PHI4: Marks<'static> = marks("<|tool_call|>", "<|/tool_call|>", false, TIGHT);
/// Firefunction and Phi-4-mini behind vLLM's template.
pub(in super::super) const FUNCTOOLS: Marks<'static> = marks("functools[", "", false, CallLayout::List);
/// Nemotron Nano v2.
pub(in super::super) const NEMOTRON: Marks<'static> = marks("<TOOLCALL>", "</TOOLCALL>", true, CallLayout::List);
/// Hunyuan A13B, Jamba, Apriel and MiniMax M1, which writes objects on lines instead of a list.
pub(in super::super) const TOOL_CALLS: Marks<'static> = marks("<tool_calls>", "</tool_calls>", true, CallLayout::List);
/// `<|tool_calls|>` before a list.
const TOOL_CALLS_TOKEN: Marks<'static> = marks("<|tool_calls|>", "<|/tool_calls|>", false, CallLayout::List);
/// Granite 20B for function calling: a mark before each call.
pub(in super::super) const FUNCTION_CALL: Marks<'static> =
    marks("<function_call>", "", false, CallLayout::Each { head: " ", tail: "", between: "\n" });
/// The same with a closing mark, which some models write.
const FUNCTION_CALL_CLOSED: Marks<'static> = Marks { close: "</function_call>", ..FUNCTION_CALL };
/// LongCat Flash.
pub(in super::super) const LONGCAT: Marks<'static> =
    marks("<longcat_tool_call>", "</longcat_tool_call>", true, CallLayout::Each { head: "", tail: "", between: "\n" });
/// InternLM 2.5 and 3.
pub(in super::super) const INTERNLM: Marks<'static> = Marks {
    keys: PARAMETERS,
    ..marks(
        "<|action_start|><|plugin|>",
        "<|action_end|>",
        true,
        CallLayout::Each { head: "\n", tail: "", between: "\n" },
    )
};
/// Apertus: the name is the only key.
pub(in super::super) const APERTUS: Marks<'static> =
    Marks { shape: Shape::SingleKey, ..marks("<|tools_prefix|>", "<|tools_suffix|>", true, CallLayout::List) };
/// Command R7B and Command A.
pub(in super::super) const COMMAND: Marks<'static> = Marks {
    keys: CallKeys { name: "tool_name", arguments: "parameters" },
    ..marks("<|START_ACTION|>", "<|END_ACTION|>", true, CallLayout::Numbered)
};
/// GigaChat 3: a message of the role `function call`.
const GIGACHAT_ROLE: Marks<'static> = marks("function call<|role_sep|>", GIGACHAT_END, false, TIGHT);
/// GigaChat 3 with a token of its own before a call.
const GIGACHAT_TOKEN: Marks<'static> = Marks { open: "<|function_call|>", ..GIGACHAT_ROLE };
/// A call as GigaChat 3 writes it: the message ends before it, and the end of its own message is the reply's.
pub(in super::super) const GIGACHAT: Marks<'static> = marks(
    "<|message_sep|>\n\nfunction call<|role_sep|>",
    "",
    false,
    CallLayout::Each { head: "\n", tail: "", between: "" },
);
const GIGACHAT_END: &str = "<|message_sep|>";

const fn only(marks: &'static [Marks<'static>]) -> Reading<'static> {
    Reading { marks, dropped: &[], bare: false }
}

/// What `hermes` reads.
pub(in super::super) const READ_HERMES: Reading<'static> = only(&[HERMES]);
/// What `longcat` reads.
pub(in super::super) const READ_LONGCAT: Reading<'static> = only(&[LONGCAT]);
/// What `internlm` reads.
pub(in super::super) const READ_INTERNLM: Reading<'static> = only(&[INTERNLM]);
/// What `apertus` reads.
pub(in super::super) const READ_APERTUS: Reading<'static> = only(&[APERTUS]);
/// What `gigachat3` reads.
pub(in super::super) const READ_GIGACHAT: Reading<'static> =
    Reading { marks: &[GIGACHAT_ROLE, GIGACHAT_TOKEN], dropped: &[GIGACHAT_END], bare: false };
/// What `command` reads.
pub(in super::super) const READ_COMMAND: Reading<'static> = Reading {
    marks: &[COMMAND],
    dropped: &["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"],
    bare: false,
};
/// What the formats of JSON lists read: models of one family write several of these forms.
pub(in super::super) const READ_LISTS: Reading<'static> = Reading {
    marks: &[PHI4, FUNCTOOLS, NEMOTRON, TOOL_CALLS, TOOL_CALLS_TOKEN, FUNCTION_CALL_CLOSED],
    dropped: &[],
    bare: true,
};
