//! The form in which each format writes calls: that of the published chat template.

use super::super::{CallPiece, NewCall, ParsedReply, ToolFormat};
use super::{sound, written};

/// Two calls in every format.
const EXAMPLES: [(ToolFormat, &str); 35] = [
    (
        ToolFormat::Hermes,
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\n</tool_call>\n\
         <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
    ),
    (
        ToolFormat::Llama3Json,
        "{\"name\": \"add\", \"parameters\": {\"a\": 1, \"b\": \"x\"}}; {\"name\": \"now\", \"parameters\": {}}",
    ),
    (
        ToolFormat::Mistral,
        "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}, \
         {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        ToolFormat::Qwen3CoderXml,
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</parameter>\n</function>\n\
         </tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
    ),
    (
        ToolFormat::DeepSeek,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1, \"b\": \"x\"}\n```\
         <｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>\
         <｜tool▁calls▁end｜>",
    ),
    (
        ToolFormat::FencedJson,
        "```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\n```\n\
         ```json\n{\"name\": \"now\", \"arguments\": {}}\n```",
    ),
    (
        ToolFormat::Glm,
        "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n<arg_value>x\
         </arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
    ),
    (
        ToolFormat::Harmony,
        "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1, \"b\": \"x\"}<|call|>\
         <|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}",
    ),
    (
        ToolFormat::Kimi,
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>\
         {\"a\": 1, \"b\": \"x\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}\
         <|tool_call_end|><|tool_calls_section_end|>",
    ),
    (ToolFormat::Pythonic, "[add(a=1, b=\"x\"), now()]"),
    (ToolFormat::Olmo3, "<function_calls>\nadd(a=1, b=\"x\")\nnow()\n</function_calls>"),
    (ToolFormat::Lfm2, "<|tool_call_start|>[add(a=1, b=\"x\"), now()]<|tool_call_end|>"),
    (
        ToolFormat::MinimaxXml,
        "<minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"a\">1</parameter>\n\
         <parameter name=\"b\">x</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
    ),
    (
        ToolFormat::DeepSeekDsml,
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"add\">\n\
         <｜DSML｜parameter name=\"a\" string=\"false\">1</｜DSML｜parameter>\n\
         <｜DSML｜parameter name=\"b\" string=\"true\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n\
         <｜DSML｜invoke name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        ToolFormat::JsonList,
        "[{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}, {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        ToolFormat::Granite,
        "<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}, \
         {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        ToolFormat::Phi4Mini,
        "<|tool_call|>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}<|/tool_call|>\
         <|tool_call|>{\"name\": \"now\", \"arguments\": {}}<|/tool_call|>",
    ),
    (
        ToolFormat::Functools,
        "functools[{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}, \
         {\"name\": \"now\", \"arguments\": {}}]",
    ),
    (
        ToolFormat::Nemotron,
        "<TOOLCALL>[{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}, \
         {\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
    ),
    (
        ToolFormat::ToolCalls,
        "<tool_calls>[{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}, \
         {\"name\": \"now\", \"arguments\": {}}]</tool_calls>",
    ),
    (
        ToolFormat::FunctionCall,
        "<function_call> {\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\n\
         <function_call> {\"name\": \"now\", \"arguments\": {}}",
    ),
    (ToolFormat::Gemma, "<|tool_call>call:add{a:1,b:<|\"|>x<|\"|>}<tool_call|><|tool_call>call:now{}<tool_call|>"),
    (
        ToolFormat::FunctionGemma,
        "<start_function_call>call:add{a:1,b:<escape>x<escape>}<end_function_call>\
         <start_function_call>call:now{}<end_function_call>",
    ),
    (
        ToolFormat::Command,
        "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"add\", \"parameters\": \
         {\"a\": 1, \"b\": \"x\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]\
         <|END_ACTION|>",
    ),
    (
        ToolFormat::SeedXml,
        "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n<parameter=b>x</parameter>\n</function>\n\
         </seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
    ),
    (ToolFormat::LlamaFunction, "<function=add>{\"a\": 1, \"b\": \"x\"}</function><function=now>{}</function>"),
    (ToolFormat::Apertus, "<|tools_prefix|>[{\"add\": {\"a\": 1, \"b\": \"x\"}}, {\"now\": {}}]<|tools_suffix|>"),
    (
        ToolFormat::InternLm,
        "<|action_start|><|plugin|>\n{\"name\": \"add\", \"parameters\": {\"a\": 1, \"b\": \"x\"}}<|action_end|>\n\
         <|action_start|><|plugin|>\n{\"name\": \"now\", \"parameters\": {}}<|action_end|>",
    ),
    (
        ToolFormat::Step3,
        "<｜tool_calls_begin｜><｜tool_call_begin｜><steptml:invoke name=\"add\"><steptml:parameter name=\"a\">1\
         </steptml:parameter><steptml:parameter name=\"b\">x</steptml:parameter></steptml:invoke><｜tool_call_end｜>\
         <｜tool_call_begin｜><steptml:invoke name=\"now\"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
    ),
    (
        ToolFormat::LongCat,
        "<longcat_tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}</longcat_tool_call>\n\
         <longcat_tool_call>{\"name\": \"now\", \"arguments\": {}}</longcat_tool_call>",
    ),
    (
        ToolFormat::LongCatTags,
        "<longcat_tool_call>add\n<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n\
         <longcat_arg_key>b</longcat_arg_key>\n<longcat_arg_value>x</longcat_arg_value>\n</longcat_tool_call>\n\
         <longcat_tool_call>now\n</longcat_tool_call>",
    ),
    (
        ToolFormat::MiniCpm5,
        "<function name=\"add\"><param name=\"a\">1</param><param name=\"b\">x</param></function>\
         <function name=\"now\"></function>",
    ),
    (
        ToolFormat::Hunyuan3,
        "<tool_calls>\n<tool_call>add<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n\
         <arg_key>b</arg_key>\n<arg_value>x</arg_value>\n</tool_call>\n<tool_call>now<tool_sep>\n</tool_call>\n\
         </tool_calls>",
    ),
    (
        ToolFormat::GigaChat3,
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\
         <|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"now\", \"arguments\": {}}",
    ),
    (
        ToolFormat::GigaChat35,
        "<｜GCML｜tool_calls>\n<｜GCML｜invoke name=\"add\">\n\
         <｜GCML｜parameter name=\"a\" string=\"false\">1</｜GCML｜parameter>\n\
         <｜GCML｜parameter name=\"b\" string=\"true\">x</｜GCML｜parameter>\n</｜GCML｜invoke>\n\
         <｜GCML｜invoke name=\"now\">\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>",
    ),
];

#[test]
fn a_format_writes_one_example() {
    let calls =
        [NewCall { name: "add", arguments: "{\"a\": 1, \"b\": \"x\"}" }, NewCall { name: "now", arguments: "{}" }];
    assert_eq!(EXAMPLES.map(|(format, _)| format), ToolFormat::ALL);
    for (format, text) in EXAMPLES {
        assert_eq!(written(format, &calls), text, "{format}");
        let expected = ParsedReply {
            message: String::new(),
            calls: vec![sound("add", "{\"a\":1,\"b\":\"x\"}"), sound("now", "{}")],
        };
        assert_eq!(format.parse(text, &[]), expected, "{format}");
        assert_eq!(format.write(&[]), [], "{format}");
    }
}

/// Names and arguments are plain text in every format, so that they cannot become control tokens.
#[test]
fn names_and_arguments_are_never_frames() {
    let arguments = "{\"k1\": \"secret\", \"k2\": {\"k3\": [\"secret\"]}}";
    let calls = [NewCall { name: "myname", arguments }, NewCall { name: "myname", arguments: "[\"secret\"]" }];
    for format in ToolFormat::ALL {
        for piece in format.write(&calls) {
            if let CallPiece::Frame(text) = piece {
                let outside = ["secret", "myname", "k1", "k2", "k3"].into_iter().find(|word| text.contains(word));
                assert_eq!(outside, None, "{format}: {text}");
            }
        }
    }
}

/// The values of a call as Qwen3-Coder's template writes them.
#[test]
fn values_of_tags_are_those_of_the_template() {
    let calls = [NewCall { name: "f", arguments: "{\"options\": {\"mode\": \"a\"}, \"force\": true, \"x\": null}" }];
    let text = written(ToolFormat::Qwen3CoderXml, &calls);
    for value in ["\n{\"mode\": \"a\"}\n", "\nTrue\n", "\nNone\n"] {
        assert!(text.contains(value), "{text}");
    }
    let digits = [NewCall { name: "f", arguments: "{\"x\": 123456789012345678901234}" }];
    for format in ToolFormat::ALL {
        assert!(written(format, &digits).contains("123456789012345678901234"), "{format}");
    }
}
