//! Malformed calls keep their text and say why.

use super::super::{ToolFormat, WrittenCall};
use super::sound;

/// The text and the reason of a reply's only call.
fn malformed(format: ToolFormat, text: &str) -> (String, String) {
    let reply = format.parse(text, &[]);
    let [WrittenCall::Malformed { text: kept, reason }] = &reply.calls[..] else {
        panic!("{format}: {text}: {reply:?}")
    };
    (kept.clone(), reason.clone())
}

#[test]
fn a_malformed_call_says_why() {
    for (format, text, why) in [
        (ToolFormat::Hermes, "<tool_call>{\"name\": \"a\", \"arguments\": [1]}</tool_call>", "not a JSON object"),
        (ToolFormat::Hermes, "<tool_call>{\"arguments\": {}}</tool_call>", "missing field `name`"),
        (ToolFormat::Hermes, "<tool_call>1+1</tool_call>", "not of the form"),
        (ToolFormat::Hermes, "<tool_call>{\"name\": \"a\"} and", "not closed by </tool_call>"),
        (ToolFormat::Hermes, "<tool_call>{\"name\": \"a\"} b</tool_call>", "trailing characters"),
        (ToolFormat::Llama3Json, "<|python_tag|>brave_search.call(query=\"x\")", "not of the form"),
        (ToolFormat::Llama3Json, "<|python_tag|>{\"answer\": 1}", "missing field `name`"),
        (ToolFormat::Llama3Json, "{\"name\": \"a\", \"parameters\": {\"x\": 1}", "EOF"),
        (
            ToolFormat::Llama3Json,
            "{\"name\": \"a\", \"parameters\": {\"x\": {\"name\": \"b\", \"parameters\": {}}",
            "EOF",
        ),
        (ToolFormat::Llama3Json, "{\"name\": \"a\", \"parameters\": 1}", "not a JSON object"),
        (ToolFormat::Mistral, "[TOOL_CALLS] []", "list of calls is empty"),
        (ToolFormat::Mistral, "[TOOL_CALLS] [{\"name\": \"a\"", "not valid JSON"),
        (ToolFormat::Mistral, "[TOOL_CALLS] now", "`{` is missing"),
        (ToolFormat::Mistral, "[TOOL_CALLS]now[ARGS]{\"a\": ", "not valid JSON"),
        (ToolFormat::Mistral, "[TOOL_CALLS]now[ARGS][1]", "not a JSON object"),
        (ToolFormat::Mistral, "[TOOL_CALLS] [1]", "not of the form"),
        (ToolFormat::DeepSeek, "<｜tool▁call▁begin｜><｜tool▁sep｜>{}<｜tool▁call▁end｜>", "no function name"),
        (ToolFormat::Qwen3CoderXml, "<tool_call>\n{\"name\": \"a\"}\n</tool_call>", "does not begin with <function="),
        (ToolFormat::Qwen3CoderXml, "<tool_call><function=a", "not closed by >"),
        (ToolFormat::Qwen3CoderXml, "<tool_call><function=></function></tool_call>", "no function name"),
        (ToolFormat::Qwen3CoderXml, "<tool_call><function=a><parameter=b>1</tool_call>", "`b` is not closed"),
        (ToolFormat::Qwen3CoderXml, "<function=a>\n", "not closed by </function>"),
        (
            ToolFormat::Qwen3CoderXml,
            "<function=a><parameter=b>1</parameter><parameter=b>2</parameter></function>",
            "`b` is given twice",
        ),
        (ToolFormat::DeepSeek, "<｜tool▁call▁begin｜>function", "has no <｜tool▁sep｜>"),
        (ToolFormat::DeepSeek, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>a<｜tool▁call▁end｜>", "no JSON object"),
        (ToolFormat::DeepSeek, "<｜tool▁call▁begin｜>a<｜tool▁sep｜>{\"x\"<｜tool▁call▁end｜>", "not valid JSON"),
        (ToolFormat::DeepSeek, "<｜tool▁call▁begin｜>a<｜tool▁sep｜>{} and", "not closed by <｜tool▁call▁end｜>"),
        (ToolFormat::FencedJson, "```json\n{\"name\": \"a\", \"arguments\": {}} and", "not closed by ```"),
        (ToolFormat::FencedJson, "```json\n{\"name\": \"a\", \"arguments\": {}\n```", "EOF"),
        (ToolFormat::FencedJson, "```json\n{\"name\": \"a\", \"arguments\": 7}\n```", "not a JSON object"),
    ] {
        let (kept, reason) = malformed(format, text);
        assert!(reason.contains(why), "{format}: {text}: {reason}");
        assert!(text.contains(&kept), "{format}: {text}: {kept}");
    }
}

#[test]
fn a_malformed_call_leaves_the_next_one_alone() {
    for (format, text) in [
        (ToolFormat::Hermes, "<tool_call>{</tool_call> then <tool_call>{\"name\": \"b\"}</tool_call>"),
        (ToolFormat::Mistral, "[TOOL_CALLS]a[ARGS]{ then [TOOL_CALLS]b[ARGS]{}"),
        (ToolFormat::Qwen3CoderXml, "<tool_call>a</tool_call> then <tool_call><function=b></function></tool_call>"),
        (
            ToolFormat::DeepSeek,
            "<｜tool▁call▁begin｜>a<｜tool▁call▁end｜><｜tool▁call▁begin｜>b<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        ),
        (
            ToolFormat::FencedJson,
            "```json\n{\"name\": \"a\", \"arguments\"}\n```\n```json\n{\"name\": \"b\", \"arguments\": {}}\n```",
        ),
    ] {
        let reply = format.parse(text, &[]);
        assert!(matches!(reply.calls[0], WrittenCall::Malformed { .. }), "{format}: {reply:?}");
        assert_eq!(reply.calls[1..], [sound("b", "{}")], "{format}");
    }
}

#[test]
fn an_unclosed_call_takes_the_rest_of_the_reply() {
    let reply = ToolFormat::Hermes.parse("<tool_call>{\"name\": \"a\"}</tool_call> and <tool_call> 7", &[]);
    assert_eq!(reply.message, "and");
    assert_eq!(reply.calls.len(), 2);
}

#[test]
fn marks_inside_json_strings_do_not_close_a_call() {
    for (format, text, value) in [
        (
            ToolFormat::Hermes,
            "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": \"</tool_call>\"}}</tool_call>",
            "</tool_call>",
        ),
        (ToolFormat::Mistral, "[TOOL_CALLS]a[ARGS]{\"x\": \"[TOOL_CALLS]\"}", "[TOOL_CALLS]"),
        (ToolFormat::FencedJson, "```json\n{\"name\": \"a\", \"arguments\": {\"x\": \"```\"}}\n```", "```"),
        (ToolFormat::Llama3Json, "{\"name\": \"a\", \"parameters\": {\"x\": \"<|python_tag|>\"}}", "<|python_tag|>"),
    ] {
        assert_eq!(format.parse(text, &[]).calls, [sound("a", &format!("{{\"x\":\"{value}\"}}"))], "{format}");
    }
}

#[test]
fn deep_nesting_is_malformed() {
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let text = format!("<tool_call>{{\"name\": \"a\", \"arguments\": {deep}}}</tool_call>");
    let reason = malformed(ToolFormat::Hermes, &text).1;
    assert!(reason.contains("recursion limit"), "{reason}");
    // The time for unclosed nesting is linear in its length.
    assert_eq!(ToolFormat::Llama3Json.parse(&"{\"a\":".repeat(100_000), &[]).calls, []);
}
