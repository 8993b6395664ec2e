//! Calls as published chat templates render them (`tests/golden/chat/tool_calls.json`), and examples from
//! documentation.

use gymkhana_record::Function;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::super::{ToolFormat, WrittenCall};
use super::sound;

const GOLDENS: &str = include_str!("../../../../../tests/golden/chat/tool_calls.json");

#[derive(Deserialize)]
struct Golden {
    template: String,
    format: ToolFormat,
    reply: String,
    message: String,
    calls: Vec<GoldenCall>,
}

#[derive(Deserialize)]
struct GoldenCall {
    name: String,
    arguments: Json,
}

fn function(name: &str, properties: &Json) -> Function {
    Function {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties}).to_string(),
        cost: 0.0,
    }
}

fn functions() -> [Function; 3] {
    [
        function("add", &json!({"a": {"type": "integer"}, "b": {"type": "number"}})),
        function(
            "write_file",
            &json!({
                "path": {"type": "string"}, "text": {"type": "string"},
                "options": {"type": "object"}, "force": {"type": "boolean"},
            }),
        ),
        function("now", &json!({})),
    ]
}

#[test]
fn calls_of_published_templates_are_read_back() {
    let goldens: Vec<Golden> = serde_json::from_str(GOLDENS).unwrap();
    for golden in &goldens {
        let reply = golden.format.parse(&golden.reply, &functions());
        let expected: Vec<WrittenCall> =
            golden.calls.iter().map(|call| sound(&call.name, &call.arguments.to_string())).collect();
        assert_eq!(reply.calls, expected, "{}: {}", golden.template, golden.reply);
        // Reasoning templates show an empty thought beside the message.
        let message = reply.message.trim_start_matches("<think>\n\n</think>").trim();
        assert_eq!(message, golden.message, "{}: {}", golden.template, golden.reply);
    }
    let rendered = [
        ToolFormat::Hermes,
        ToolFormat::Llama3Json,
        ToolFormat::Mistral,
        ToolFormat::Qwen3CoderXml,
        ToolFormat::DeepSeek,
    ];
    for format in rendered {
        assert!(goldens.iter().any(|golden| golden.format == format), "no published template has {format}");
    }
}

#[test]
fn a_template_reveals_its_format() {
    // The marks of the templates from which the golden file was made, each with those that it shares with others.
    for (marks, format) in [
        ("<tool_call>\\n{\"name\": <function-name>", Some(ToolFormat::Hermes)),
        ("<|start_header_id|>ipython<|end_header_id|> \"parameters\"", Some(ToolFormat::Llama3Json)),
        ("Environment: ipython <|python_tag|>", Some(ToolFormat::Llama3Json)),
        ("[AVAILABLE_TOOLS] [TOOL_CALLS] [", Some(ToolFormat::Mistral)),
        ("<tool_call>\\n<function=' + name + '>\\n<parameter=", Some(ToolFormat::Qwen3CoderXml)),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>\\n```json", Some(ToolFormat::DeepSeek)),
        ("answer with a code block:\\n```json", Some(ToolFormat::FencedJson)),
        ("<|im_start|>assistant", None),
    ] {
        assert_eq!(ToolFormat::detect(marks), format, "{marks}");
    }
}

#[test]
fn llama_separates_calls_by_semicolons_behind_its_tag() {
    let text = "Wait.<|python_tag|>{\"name\": \"a\", \"parameters\": {\"x\": \"; {\"}}; {\"type\": \"function\", \
                \"name\": \"b\", \"arguments\": {}}";
    let reply = ToolFormat::Llama3Json.parse(text, &[]);
    assert_eq!(reply.message, "Wait.");
    assert_eq!(reply.calls, [sound("a", "{\"x\":\"; {\"}"), sound("b", "{}")]);
}

#[test]
fn text_around_untagged_calls_is_the_message() {
    let text =
        "I use {braces}. {\"name\": \"a\", \"parameters\": {}} And {\"x\": {\"name\": \"b\", \"parameters\": {}}}.";
    let reply = ToolFormat::Llama3Json.parse(text, &[]);
    assert_eq!(reply.message, "I use {braces}.  And {\"x\": {\"name\": \"b\", \"parameters\": {}}}.");
    assert_eq!(reply.calls, [sound("a", "{}")]);
}

#[test]
fn mistral_calls_come_with_and_without_a_list() {
    for text in [
        "[TOOL_CALLS] [{\"name\": \"a\", \"arguments\": {\"x\": \"]\"}, \"id\": \"123456789\"}]",
        "[TOOL_CALLS]a[ARGS]{\"x\": \"]\"}",
        "[TOOL_CALLS]a{\"x\": \"]\"}",
        "[TOOL_CALLS] {\"name\": \"a\", \"arguments\": {\"x\": \"]\"}}",
    ] {
        assert_eq!(ToolFormat::Mistral.parse(text, &[]).calls, [sound("a", "{\"x\":\"]\"}")], "{text}");
    }
}

#[test]
fn arguments_may_be_json_in_a_string() {
    let quoted = "\"{\\\"x\\\": 1}\"";
    for (format, text) in [
        (ToolFormat::Hermes, format!("<tool_call>{{\"name\": \"a\", \"arguments\": {quoted}}}</tool_call>")),
        (ToolFormat::Llama3Json, format!("{{\"name\": \"a\", \"parameters\": {quoted}}}")),
        (ToolFormat::Mistral, format!("[TOOL_CALLS][{{\"name\": \"a\", \"arguments\": {quoted}}}]")),
        (ToolFormat::Mistral, format!("[TOOL_CALLS]a[ARGS]{quoted}")),
        (ToolFormat::DeepSeek, format!("<｜tool▁call▁begin｜>a<｜tool▁sep｜>{quoted}<｜tool▁call▁end｜>")),
        (ToolFormat::FencedJson, format!("```json\n[{{\"name\": \"a\", \"arguments\": {quoted}}}]\n```")),
    ] {
        assert_eq!(format.parse(&text, &[]).calls, [sound("a", "{\"x\":1}")], "{text}");
    }
}

#[test]
fn qwen_coder_reads_values_by_the_schema() {
    let properties = json!({
        "text": {"type": "string"}, "count": {"type": "integer"}, "flag": {"type": "boolean"},
        "maybe": {"type": ["string", "null"]}, "list": {"type": "array"},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "one": {"oneOf": [{"type": "integer"}]},
        "choice": {"enum": ["1", "2"]}, "fixed": {"const": 3}, "nullable": {"type": "string", "nullable": true},
        "link": {"$ref": "#/properties/list"}, "loop": {"anyOf": [{"$ref": "#/properties/loop"}, {"type": "null"}]},
        "object": {"type": "object"},
    });
    let reply = |value: &str, key: &str| {
        let text = format!("<function=f>\n<parameter={key}>\n{value}\n</parameter>\n</function>");
        let reply = ToolFormat::Qwen3CoderXml.parse(&text, &[function("f", &properties)]);
        let [WrittenCall::Sound { arguments, .. }] = &reply.calls[..] else { panic!("{reply:?}") };
        serde_json::from_str::<Json>(arguments).unwrap()[key].clone()
    };
    for (key, value, expected) in [
        ("text", "42", json!("42")),
        ("text", " two\n\nlines ", json!(" two\n\nlines ")),
        ("text", "</parameter>", json!("</parameter>")),
        ("count", "42", json!(42)),
        ("count", "4.5", json!("4.5")),
        ("count", "many", json!("many")),
        ("flag", "True", json!(true)),
        ("flag", "false", json!(false)),
        ("maybe", "None", json!(null)),
        ("maybe", "true", json!("true")),
        ("list", "[1, {\"a\": \"b\"}]", json!([1, {"a": "b"}])),
        ("any", "42", json!("42")),
        ("any", "None", json!(null)),
        ("one", "42", json!(42)),
        ("choice", "1", json!("1")),
        ("fixed", "3", json!(3)),
        ("nullable", "null", json!(null)),
        ("link", "['a', None]", json!(["a", null])),
        ("loop", "None", json!(null)),
        ("object", "{'a': True, 'b': None}", json!({"a": true, "b": null})),
        ("object", "{'a': ", json!("{'a': ")),
        ("unknown", "{'a': True}", json!("{'a': True}")),
        ("unknown", "42", json!(42)),
        ("unknown", "True", json!("True")),
        ("unknown", "\"quoted\"", json!("\"quoted\"")),
    ] {
        assert_eq!(reply(value, key), expected, "{key} = {value}");
    }
}
