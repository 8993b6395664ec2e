//! Detection of formats from templates, and of call-like text in replies.

use super::super::{NewCall, ToolFormat};
use super::written;

#[test]
fn a_template_reveals_its_format() {
    // Parts of published templates, each with marks that it shares with others.
    for (template, format) in [
        ("For each function call …\n<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>", ToolFormat::Glm),
        ("<tool_calls><tool_call>' + name + '<tool_sep><arg_key>", ToolFormat::Hunyuan3),
        (
            "<|start|>assistant to=functions.' + name + '<|channel|>commentary json<|message|>' + '<|call|>",
            ToolFormat::Harmony,
        ),
        ("<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>", ToolFormat::Kimi),
        ("<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}", ToolFormat::Kimi),
        ("Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]", ToolFormat::Pythonic),
        ("<|header_start|>ipython<|header_end|> <|python_start|>", ToolFormat::Llama3Json),
        ("wrapped in <function_calls></function_calls> XML tags", ToolFormat::Olmo3),
        ("List of tools: <|tool_list_start|>[", ToolFormat::Lfm2),
        ("{%- set toolcall_begin_token = '<minimax:tool_call>' -%} <invoke name=", ToolFormat::MinimaxXml),
        ("{%- set dsml_token = \"｜DSML｜\" -%} <{{ dsml_token }}function_calls>", ToolFormat::DeepSeekDsml),
        ("｜GCML｜tool_calls>", ToolFormat::GigaChat35),
        ("<｜tool_calls_begin｜> <steptml:invoke name=", ToolFormat::Step3),
        ("<function name=\"…\"><param name=\"…\">", ToolFormat::MiniCpm5),
        ("<seed:tool_call>\\n<function=example_function_name>\\n<parameter=", ToolFormat::SeedXml),
        ("<|tool_call>call:' + function['name'] + '{", ToolFormat::Gemma),
        ("<start_function_call>call:", ToolFormat::FunctionGemma),
        ("write <|START_ACTION|> followed by a list … ```json", ToolFormat::Command),
        ("<|tools_prefix|>[", ToolFormat::Apertus),
        ("<|action_start|><|plugin|>", ToolFormat::InternLm),
        ("<longcat_tool_call>", ToolFormat::LongCat),
        ("<longcat_tool_call>name\n<longcat_arg_key>", ToolFormat::LongCatTags),
        ("'role': 'function call' … role_sep=\"<|role_sep|>\\n\"", ToolFormat::GigaChat3),
        ("<AVAILABLE_TOOLS>[ … <TOOLCALL>[", ToolFormat::Nemotron),
        ("<|tool_call|>{\"name\": \"foo\"}<|/tool_call|>", ToolFormat::Phi4Mini),
        ("start with <|tool_call|> followed by a JSON list", ToolFormat::Granite),
        ("prefix function calls with functools marker", ToolFormat::Functools),
        ("<tool_calls>[{\"name\":", ToolFormat::ToolCalls),
        ("please output \"<function_call> {", ToolFormat::FunctionCall),
        ("<function=example_function_name>{\"example_name\": \"example_value\"}</function>", ToolFormat::LlamaFunction),
        ("Answer with [{\"name\": \"tool\", \"arguments\": {}}]", ToolFormat::JsonList),
    ] {
        assert_eq!(ToolFormat::detect(template), Some(format), "{template}");
    }
}

/// Kimi K3 lists functions in a code block of JSON, and calls them in tags that no parser reads.
#[test]
fn an_unread_format_is_not_taken_for_another() {
    let template = "'<|open|>' + tag + '<|sep|>' '<|close|>' # Tools\n```json";
    assert_eq!(ToolFormat::detect(template), None);
}

#[test]
fn written_calls_of_every_format_look_like_calls() {
    let calls = [NewCall { name: "add", arguments: "{\"a\": 1}" }];
    for format in ToolFormat::ALL {
        assert!(ToolFormat::resembles_call(&written(format, &calls)), "{format}");
        assert!(ToolFormat::resembles_call(&format!("I call it.\n{}", written(format, &calls))), "{format}");
    }
}

#[test]
fn other_text_does_not_look_like_a_call() {
    for text in [
        "",
        "The answer is 42.",
        "{\"answer\": 42}",
        "[1, 2] and f(x) = {x; y}",
        "```json\n{\"name\": \"Ada\", \"age\": 36}\n```",
        "[link](https://example.org) <b>bold</b> <|end|>",
        "import functools",
    ] {
        assert!(!ToolFormat::resembles_call(text), "{text}");
    }
}
