//! Tool calls in a model's reply, in every format.
#![no_main]

use std::sync::LazyLock;

use gymkhana_chat::ToolFormat;
use gymkhana_record::{Function, WrittenCall};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// A function with a parameter of each type, since one format reads arguments by the function's schema.
static FUNCTIONS: LazyLock<[Function; 1]> = LazyLock::new(|| {
    let parameters = r#"{"type": "object", "properties": {"t": {"type": "string"}, "i": {"type": "integer"},
        "n": {"type": "number"}, "b": {"type": "boolean"}, "a": {"type": "array"}, "o": {"type": "object"}}}"#;
    [Function { name: "f".to_owned(), description: "F".to_owned(), parameters: parameters.to_owned(), cost: 0.0 }]
});

fuzz_target!(|text: &str| {
    for format in ToolFormat::ALL {
        let reply = format.parse(text, &*FUNCTIONS);
        let longest = text.len() + reply.calls.len();
        assert!(reply.message.len() <= longest, "{format}: the message is longer than the reply");
        for call in &reply.calls {
            if let WrittenCall::Sound { arguments, .. } = call {
                let read = serde_json::from_str::<Map<String, Value>>(arguments);
                assert!(read.is_ok(), "{format}: arguments that are no object");
            }
        }
    }
});
