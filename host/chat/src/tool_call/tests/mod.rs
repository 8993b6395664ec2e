//! Tests of the tool-call formats: calls as published templates render them, malformed calls, and properties.

mod custom;
mod detection;
mod hostile;
mod malformed;
mod outputs;
mod properties;
mod published;
mod writing;

use super::{NewCall, ToolFormat, WrittenCall};

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
fn a_reply_without_calls_is_its_message() {
    for format in ToolFormat::ALL {
        for text in ["42", "{\"answer\": 42}", "```json\n{\"answer\": [1, {\"name\": 2}]}\n```", "f(x) = {x; y}", ""] {
            assert_eq!(format.parse(&format!(" {text}\n"), &[]).message, text, "{format}");
            assert_eq!(format.parse(text, &[]).calls, [], "{format}");
        }
    }
}
