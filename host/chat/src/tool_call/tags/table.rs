//! The tags of each format whose calls have a tag for each parameter.
//!
//! Sources: the chat templates of Qwen/Qwen3-Coder-30B-A3B-Instruct, ByteDance-Seed/Seed-OSS-36B-Instruct,
//! MiniMaxAI/MiniMax-M2, deepseek-ai/DeepSeek-V3.2, zai-org/GLM-4.5 and GLM-4.7, as llama.cpp (`models/templates`) and
//! vLLM (`examples`) keep them, and vLLM's tool parsers with their tests (`qwen3_coder`, `seed_oss`, `minimax_m2`,
//! `deepseek_v32`, `deepseek_v4`, `gigachat35`, `step3`, `minicpm5`, `glm45`, `glm47`, `hy_v3`).

use super::{NameForm, Tags, Values};

const XML: Tags = Tags {
    sections: &[],
    one_section: false,
    outer: ("", ""),
    preface: &[],
    name: NameForm::Attribute,
    function: "",
    function_end: "",
    parameter: "",
    parameter_end: "",
    values: Values { on_lines: false, python_words: false, marks_strings: false, cdata: false },
    on_lines: true,
    control_tags: false,
};

/// Qwen3-Coder and Qwen3.5. Values stand on lines of their own.
pub(in super::super) const QWEN: Tags = Tags {
    sections: &[("<tool_call>", "</tool_call>")],
    name: NameForm::Plain,
    function: "<function=",
    function_end: "</function>",
    parameter: "<parameter=",
    parameter_end: "</parameter>",
    values: Values { on_lines: true, python_words: true, marks_strings: false, cdata: false },
    ..XML
};
/// Seed-OSS: the same tags in marks of its own, with values beside their tags.
pub(in super::super) const SEED: Tags = Tags {
    sections: &[("<seed:tool_call>", "</seed:tool_call>")],
    values: Values { on_lines: false, python_words: true, marks_strings: false, cdata: false },
    ..QWEN
};
/// MiniMax M2.
pub(in super::super) const MINIMAX: Tags = Tags {
    sections: &[("<minimax:tool_call>", "</minimax:tool_call>")],
    one_section: true,
    function: "<invoke name=",
    function_end: "</invoke>",
    parameter: "<parameter name=",
    parameter_end: "</parameter>",
    ..XML
};
/// DeepSeek V3.2, whose section is `function_calls`, and V4, whose section is `tool_calls`. An attribute tells texts from
/// JSON.
pub(in super::super) const DSML: Tags = Tags {
    sections: &[
        ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
        ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    ],
    one_section: true,
    function: "<｜DSML｜invoke name=",
    function_end: "</｜DSML｜invoke>",
    parameter: "<｜DSML｜parameter name=",
    parameter_end: "</｜DSML｜parameter>",
    values: Values { on_lines: false, python_words: false, marks_strings: true, cdata: false },
    control_tags: true,
    ..XML
};
/// GigaChat 3.5, in the manner of DeepSeek V4.
pub(in super::super) const GCML: Tags = Tags {
    sections: &[("<｜GCML｜tool_calls>", "</｜GCML｜tool_calls>")],
    function: "<｜GCML｜invoke name=",
    function_end: "</｜GCML｜invoke>",
    parameter: "<｜GCML｜parameter name=",
    parameter_end: "</｜GCML｜parameter>",
    ..DSML
};
/// Step 3: a section around all calls, and marks around each.
pub(in super::super) const STEP: Tags = Tags {
    sections: &[("<｜tool_call_begin｜>", "<｜tool_call_end｜>"), ("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>")],
    outer: ("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
    preface: &["function", "<｜tool_sep｜>", "<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_call_end｜>"],
    function: "<steptml:invoke name=",
    function_end: "</steptml:invoke>",
    parameter: "<steptml:parameter name=",
    parameter_end: "</steptml:parameter>",
    on_lines: false,
    ..XML
};
/// MiniCPM 5: no section.
pub(in super::super) const MINICPM: Tags = Tags {
    function: "<function name=",
    function_end: "</function>",
    parameter: "<param name=",
    parameter_end: "</param>",
    values: Values { on_lines: false, python_words: false, marks_strings: false, cdata: true },
    on_lines: false,
    ..XML
};
/// GLM 4.5 to 5: names and values in tags, and no section.
pub(in super::super) const GLM: Tags = Tags {
    name: NameForm::Element { value: "<arg_value>", end: "</arg_key>" },
    function: "<tool_call>",
    function_end: "</tool_call>",
    parameter: "<arg_key>",
    parameter_end: "</arg_value>",
    control_tags: true,
    ..XML
};
/// Hunyuan 3: the same with a section and a mark behind the name.
pub(in super::super) const HUNYUAN: Tags =
    Tags { sections: &[("<tool_calls>", "</tool_calls>")], one_section: true, preface: &["<tool_sep>"], ..GLM };
/// LongCat 2, in the manner of GLM.
pub(in super::super) const LONGCAT: Tags = Tags {
    name: NameForm::Element { value: "<longcat_arg_value>", end: "</longcat_arg_key>" },
    function: "<longcat_tool_call>",
    function_end: "</longcat_tool_call>",
    parameter: "<longcat_arg_key>",
    parameter_end: "</longcat_arg_value>",
    ..GLM
};
