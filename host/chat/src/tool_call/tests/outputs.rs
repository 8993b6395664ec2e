//! Outputs of models in every format (`tests/golden/chat/formats/NAME.json`) and what is to be read from them.
//!
//! The expected values follow the published descriptions that the modules of the formats name.

use std::path::Path;

use gymkhana_record::Function;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::super::{ToolFormat, WrittenCall};

/// Fewest outputs of a format.
const FEWEST: usize = 20;

#[derive(Deserialize)]
struct Output {
    why: String,
    text: String,
    message: String,
    calls: Vec<Expected>,
}

/// A call, or a malformed call with a part of its reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    malformed: bool,
    #[serde(default)]
    reason: String,
}

impl Expected {
    fn is_met(&self, call: &WrittenCall) -> bool {
        match call {
            WrittenCall::Sound { name, arguments } => {
                let expected = self.arguments.as_ref().map(|arguments| arguments.get());
                !self.malformed && *name == self.name && Some(arguments.as_str()) == expected
            }
            WrittenCall::Malformed { reason, .. } => self.malformed && reason.contains(&self.reason),
        }
    }
}

fn function(name: &str, properties: &Json) -> Function {
    let parameters = json!({
        "type": "object", "properties": properties,
        "$defs": {"Query": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    });
    Function { name: name.to_owned(), description: String::new(), parameters: parameters.to_string(), cost: 0.0 }
}

/// The functions that the outputs call.
pub(super) fn functions() -> Vec<Function> {
    let file = json!({
        "path": {"type": "string"}, "text": {"type": "string"},
        "options": {"type": "object"}, "force": {"type": "boolean"},
    });
    vec![
        function("add", &json!({"a": {"type": "integer"}, "b": {"type": "number"}})),
        function("write_file", &file),
        function("find", &json!({"query": {"$ref": "#/$defs/Query"}, "limit": {"enum": [1, 2, 3]}})),
        function("now", &json!({})),
    ]
}

/// The outputs of a format.
fn outputs(format: ToolFormat) -> Vec<Output> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/chat/formats");
    let text = std::fs::read_to_string(folder.join(format!("{format}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn outputs_are_read_as_described() {
    let functions = functions();
    let mut wrong = Vec::new();
    for format in ToolFormat::ALL {
        let outputs = outputs(format);
        assert!(outputs.len() >= FEWEST, "{format} has {} outputs", outputs.len());
        for output in &outputs {
            let reply = format.parse(&output.text, &functions);
            let calls = reply.calls.len() == output.calls.len()
                && output.calls.iter().zip(&reply.calls).all(|(expected, call)| expected.is_met(call));
            if !calls || reply.message != output.message {
                wrong.push(format!("{format}: {}: {:?}\n    {reply:?}", output.why, output.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} outputs:\n{}", wrong.len(), wrong.join("\n"));
}

/// A reply may be cut anywhere, and a cut reply has no more text than its parts.
#[test]
fn cut_outputs_are_parsed() {
    let functions = functions();
    for format in ToolFormat::ALL {
        for text in outputs(format).iter().map(|output| &output.text) {
            for (at, _) in text.char_indices() {
                let reply = format.parse(&text[..at], &functions);
                assert!(reply.message.len() <= at, "{format}: {}", &text[..at]);
                let kept: usize = reply.calls.iter().map(size).sum();
                assert!(kept <= 3 * at + 64, "{format}: {}: {reply:?}", &text[..at]);
            }
        }
    }
}

/// Parts of outputs behind each other, also those of other formats, give objects of arguments.
#[test]
fn joined_parts_of_outputs_are_parsed() {
    let functions = functions();
    let texts: Vec<String> = ToolFormat::ALL.into_iter().flat_map(outputs).map(|output| output.text).collect();
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..2_000 {
        let mut joined = String::new();
        for _ in 0..4 {
            let text = &texts[next(texts.len())];
            let (from, to) = (next(text.len() + 1), next(text.len() + 1));
            joined.extend(text.get(from.min(to)..from.max(to)));
        }
        for format in ToolFormat::ALL {
            let reply = format.parse(&joined, &functions);
            assert!(reply.message.len() <= joined.len(), "{format}: {joined}");
            for call in &reply.calls {
                if let WrittenCall::Sound { arguments, .. } = call {
                    let read = serde_json::from_str::<serde_json::Map<String, Json>>(arguments);
                    assert!(read.is_ok(), "{format}: {joined}: {arguments}");
                }
            }
        }
    }
}

/// Bytes of a call's own text.
fn size(call: &WrittenCall) -> usize {
    match call {
        WrittenCall::Sound { name, arguments } => name.len() + arguments.len(),
        WrittenCall::Malformed { text, .. } => text.len(),
    }
}
