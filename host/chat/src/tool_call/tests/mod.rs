//! Tests of the tool-call formats: calls as published templates render them, malformed calls, and properties.

mod malformed;
mod properties;
mod published;

use super::{NewCall, ParsedReply, ToolFormat, WrittenCall};

fn sound(name: &str, arguments: &str) -> WrittenCall {
    WrittenCall::Sound { name: name.to_owned(), arguments: arguments.to_owned() }
}

/// The text that a format writes for calls.
fn written(format: ToolFormat, calls: &[NewCall<'_>]) -> String {
    let pieces = format.write(calls);
    pieces
        .iter()
        .map(|piece| match piece {
            super::CallPiece::Frame(text) | super::CallPiece::Plain(text) => text.as_str(),
        })
        .collect()
}

#[test]
fn names_are_those_of_serde() {
    for format in ToolFormat::ALL {
        let quoted = serde_json::to_string(&format).unwrap();
        assert_eq!(quoted, format!("\"{format}\""));
        assert_eq!(serde_json::from_str::<ToolFormat>(&quoted).unwrap(), format);
    }
}

#[test]
fn a_format_writes_one_example() {
    let calls =
        [NewCall { name: "add", arguments: "{\"a\": 1, \"b\": \"x\"}" }, NewCall { name: "now", arguments: "{}" }];
    let expected = [
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
    ];
    assert_eq!(expected.map(|(format, _)| format), ToolFormat::ALL);
    for (format, text) in expected {
        assert_eq!(written(format, &calls), text, "{format}");
        assert_eq!(
            format.parse(text, &[]),
            ParsedReply {
                message: String::new(),
                calls: vec![sound("add", "{\"a\":1,\"b\":\"x\"}"), sound("now", "{}")],
            },
            "{format}"
        );
        assert_eq!(format.write(&[]), [], "{format}");
    }
}

#[test]
fn a_reply_without_calls_is_its_message() {
    for format in ToolFormat::ALL {
        for text in ["42", "{\"answer\": 42}", "```json\n{\"answer\": [1, {\"name\": 2}]}\n```", "f(x) = {x; y}", ""] {
            assert_eq!(format.parse(&format!(" {text}\n"), &[]).message, text, "{format}");
            assert_eq!(format.parse(text, &[]).calls, [], "{format}");
        }
    }
}
