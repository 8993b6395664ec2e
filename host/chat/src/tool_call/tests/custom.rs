//! A user's own marks: what they read and write, how they are serialised, and which are refused.

use std::collections::HashSet;

use serde_json::json;

use super::super::{CustomMarks, NewCall, ToolFormat};
use super::{sound, written};

fn custom(open: &str, close: Option<&str>, key: &str, name: &str) -> ToolFormat {
    ToolFormat::Custom(CustomMarks::new(open, close, key, name).unwrap())
}

#[test]
fn own_marks_are_read_and_written() {
    let format = custom("<x>", Some("</x>"), "input", "tool");
    let text = "Now <x>{\"tool\": \"a\", \"input\": {\"t\": \"</x>\"}}</x> then \
                <x>{\"name\": \"b\", \"arguments\": {}}";
    let reply = format.parse(text, &[]);
    assert_eq!(reply.message, "Now  then");
    assert_eq!(reply.calls, [sound("a", "{\"t\":\"</x>\"}"), sound("b", "{}")]);
    let calls = [NewCall { name: "a", arguments: "{\"t\": 1}" }, NewCall { name: "b", arguments: "{}" }];
    let text = written(format, &calls);
    assert_eq!(text, "<x>{\"tool\": \"a\", \"input\": {\"t\": 1}}</x>\n<x>{\"tool\": \"b\", \"input\": {}}</x>");
    assert_eq!(format.parse(&text, &[]).calls, [sound("a", "{\"t\":1}"), sound("b", "{}")]);
}

#[test]
fn a_closing_mark_may_be_absent() {
    let format = custom("CALL:", None, "parameters", "name");
    let reply = format.parse("CALL:{\"name\": \"a\", \"parameters\": {}} done", &[]);
    assert_eq!(reply.calls, [sound("a", "{}")]);
    assert_eq!(reply.message, "done");
}

#[test]
fn own_marks_are_a_table() {
    let table = json!({"kind": "json", "open": "<x>", "close": "</x>", "key": "parameters"});
    let format: ToolFormat = serde_json::from_value(table).unwrap();
    assert_eq!(format, custom("<x>", Some("</x>"), "parameters", "name"));
    assert_eq!(format.to_string(), "custom");
    let again: ToolFormat = serde_json::from_str(&serde_json::to_string(&format).unwrap()).unwrap();
    assert_eq!(again, format);
    assert_eq!(HashSet::from([format, again, ToolFormat::Hermes]).len(), 2);
    let ToolFormat::Custom(marks) = format else { panic!("{format:?}") };
    assert_eq!((marks.open(), marks.close(), marks.key(), marks.name()), ("<x>", Some("</x>"), "parameters", "name"));
}

#[test]
fn wrong_tables_are_refused_with_the_reason() {
    for (table, why) in [
        (json!({"kind": "json", "close": "</x>"}), "missing field `open`"),
        (json!({"open": "<x>"}), "missing field `kind`"),
        (json!({"kind": "xml", "open": "<x>"}), "unknown variant `xml`"),
        (json!({"kind": "json", "open": ""}), "`open` of `tool_format` is empty"),
        (json!({"kind": "json", "open": "<x>", "close": ""}), "`close` of `tool_format` is empty"),
        (json!({"kind": "json", "open": "<x>", "close": "<x>"}), "`open` and `close`"),
        (json!({"kind": "json", "open": "<x>\n"}), "whitespace"),
        (json!({"kind": "json", "open": "{"}), "like JSON"),
        (json!({"kind": "json", "open": "<x>", "key": "name"}), "`key` and `name`"),
        (json!({"kind": "json", "open": "<x>", "ends": "y"}), "unknown field `ends`"),
        (json!({"kind": "json", "open": "é".repeat(40)}), "more than 48 bytes"),
        (json!("hermess"), "unknown tool-call format `hermess`; the formats are hermes, llama3-json"),
        (json!(3), "the name of a tool-call format, or a table"),
    ] {
        let error = serde_json::from_value::<ToolFormat>(table.clone()).unwrap_err().to_string();
        assert!(error.contains(why), "{table}: {error}");
    }
}
