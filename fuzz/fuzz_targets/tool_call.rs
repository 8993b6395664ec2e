//! Tool calls in a model's reply, in every format, and calls that a format writes.
#![no_main]

use std::sync::LazyLock;

use gymkhana_chat::{CallPiece, CustomMarks, NewCall, ThoughtMarks, ToolFormat};
use gymkhana_record::{Function, WrittenCall};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// A function with a parameter of each type, since some formats read arguments by the function's schema.
static FUNCTIONS: LazyLock<[Function; 1]> = LazyLock::new(|| {
    let parameters = r#"{"type": "object", "properties": {"t": {"type": "string"}, "i": {"type": "integer"},
        "n": {"type": "number"}, "b": {"type": "boolean"}, "a": {"type": "array"}, "o": {"type": "object"},
        "m": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}"#;
    [Function { name: "f".to_owned(), description: "F".to_owned(), parameters: parameters.to_owned(), cost: 0.0 }]
});

/// The formats with a name, and one of a user's own marks.
fn formats() -> impl Iterator<Item = ToolFormat> {
    let own = CustomMarks::new("<x>", Some("</x>"), "input", "tool").ok().map(ToolFormat::Custom);
    ToolFormat::ALL.into_iter().chain(own)
}

fuzz_target!(|text: &str| {
    for format in formats() {
        let reply = format.parse(text, &*FUNCTIONS);
        let longest = text.len() + reply.calls.len();
        assert!(reply.message.len() <= longest, "{format}: the message is longer than the reply");
        for call in &reply.calls {
            if let WrittenCall::Sound { name, arguments } = call {
                let read = serde_json::from_str::<Map<String, Value>>(arguments);
                assert!(read.is_ok(), "{format}: arguments that are no object");
                let written = format.write(&[NewCall { name, arguments }]);
                assert!(!written.is_empty(), "{format}: a call is written as nothing");
            }
        }
        // A writer takes any text as arguments.
        for piece in format.write(&[NewCall { name: "f", arguments: text }]) {
            let (CallPiece::Frame(piece) | CallPiece::Plain(piece)) = piece;
            assert!(piece.len() <= 16 * text.len() + 256, "{format}: a piece is longer than what it writes");
        }
    }
    let split = ThoughtMarks::split_any(text);
    assert!(text[split.bytes..].contains(split.message), "the message does not stand behind the thoughts");
    let _ = ToolFormat::detect(text);
    let _ = ToolFormat::resembles_call(text);
});
