//! Properties of all formats: written calls are read back, and every text is parsed without panic or loss.

use gymkhana_record::Function;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::super::{CustomMarks, NewCall, ToolFormat, WrittenCall};
use super::{sound, written};

/// Marks of the formats and pieces of calls.
const MARKS: [&str; 66] = [
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<function=",
    "<parameter=",
    "</parameter>",
    "</function>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "function",
    "```json",
    "```",
    "\n",
    " ",
    ";",
    ",",
    "[",
    "]",
    "{",
    "}",
    ">",
    "\"",
    "\\",
    "{\"name\": \"f\", \"arguments\": {}}",
    "{\"name\": \"f\", \"parameters\": {",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<tool_sep>",
    "<tool_calls>",
    "</tool_calls>",
    "<|start|>assistant",
    "<|channel|>",
    "commentary",
    " to=functions.f",
    "<|message|>",
    "<|call|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<function_calls>",
    "[f(a=",
    "'",
    ")",
    "<minimax:tool_call>",
    "<invoke name=\"f\">",
    "<parameter name=\"a\">",
    "</invoke>",
    "<｜DSML｜invoke name=\"f\">",
    "<｜DSML｜parameter name=\"a\" string=\"true\">",
    "</｜DSML｜parameter>",
    "<|tool_call>",
    "call:f{",
    "<|\"|>",
    "<tool_call|>",
    "<|START_ACTION|>",
    "<|tool_call|>",
    "<TOOLCALL>",
];

fn mark() -> impl Strategy<Value = String> {
    prop::sample::select(&MARKS[..]).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![mark(), ".{0,6}"], 0..4).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_filter("JSON has finite numbers", |number| number.is_finite()).prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| Json::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Calls as names and arguments; the keys of arguments are identifiers, as in a function's schema.
fn calls() -> impl Strategy<Value = Vec<(String, Map<String, Json>)>> {
    let arguments = prop::collection::btree_map("[a-z_][a-z0-9_]{0,8}", value(), 0..4);
    let call = ("[A-Za-z_][A-Za-z0-9_.-]{0,12}", arguments);
    prop::collection::vec(call.prop_map(|(name, arguments)| (name, arguments.into_iter().collect())), 1..4)
}

/// The schema of a function that takes these arguments.
fn function(name: &str, arguments: &Map<String, Json>) -> Function {
    let properties: Map<String, Json> = arguments
        .iter()
        .map(|(key, value)| {
            let of_type = match value {
                Json::Null => "null",
                Json::Bool(_) => "boolean",
                Json::Number(_) => "number",
                Json::String(_) => "string",
                Json::Array(_) => "array",
                Json::Object(_) => "object",
            };
            (key.clone(), json!({"type": of_type}))
        })
        .collect();
    Function {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties}).to_string(),
        cost: 0.0,
    }
}

/// Texts that end a value or a call in the formats without escapes.
const ENDS: [&str; 15] = [
    "</tool_calls>",
    "</function>",
    "</invoke>",
    "</tool_call>",
    "</longcat_arg_value>",
    "<longcat_arg_key>",
    "</parameter>",
    "<parameter",
    "</arg_value>",
    "<arg_key>",
    "</｜DSML｜parameter>",
    "<｜DSML｜parameter",
    "<![CDATA[",
    "<|\"|>",
    "<function",
];

/// The cases that formats without escapes cannot express: a text with the marks that end it.
fn is_ambiguous(format: ToolFormat, calls: &[(String, Map<String, Json>)]) -> bool {
    let escapes = !matches!(
        format,
        ToolFormat::Qwen3CoderXml
            | ToolFormat::SeedXml
            | ToolFormat::Glm
            | ToolFormat::Hunyuan3
            | ToolFormat::LongCatTags
            | ToolFormat::MinimaxXml
            | ToolFormat::DeepSeekDsml
            | ToolFormat::MiniCpm5
            | ToolFormat::Gemma
    );
    let mut strings = calls.iter().flat_map(|(_, arguments)| arguments.values()).map(Json::to_string);
    // The mark around Gemma's texts holds a quotation mark, which JSON escapes.
    !escapes && strings.any(|text| ENDS.iter().any(|end| text.replace("\\\"", "\"").contains(end)))
}

/// All formats, and one of a user's own marks.
fn formats() -> impl Iterator<Item = ToolFormat> {
    let own = CustomMarks::new("<x>", Some("</x>"), "input", "tool").unwrap();
    ToolFormat::ALL.into_iter().chain([ToolFormat::Custom(own)])
}

/// All texts of a reply: nothing else is left of what the policy wrote.
fn kept(format: ToolFormat, text: &str) -> String {
    let reply = format.parse(text, &[]);
    let calls = reply.calls.into_iter().map(|call| match call {
        WrittenCall::Sound { name, arguments } => {
            let read = serde_json::from_str::<Map<String, Json>>(&arguments);
            assert!(read.is_ok(), "{format}: {text}: {arguments}");
            name + " " + &arguments
        }
        WrittenCall::Malformed { text, .. } => text,
    });
    std::iter::once(reply.message).chain(calls).collect::<Vec<_>>().join(" ")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_calls_are_read_back(calls in calls(), spoken in prop_oneof![Just(""), Just("Let me see.")]) {
        // Functions of one name have one schema.
        let mut names = std::collections::HashSet::new();
        prop_assume!(calls.iter().all(|(name, _)| names.insert(name.clone())));
        let functions: Vec<Function> = calls.iter().map(|(name, arguments)| function(name, arguments)).collect();
        let texts: Vec<String> =
            calls.iter().map(|(_, arguments)| Json::Object(arguments.clone()).to_string()).collect();
        let new: Vec<NewCall<'_>> =
            calls.iter().zip(&texts).map(|((name, _), arguments)| NewCall { name, arguments }).collect();
        let expected: Vec<WrittenCall> = new.iter().map(|call| sound(call.name, call.arguments)).collect();
        for format in formats().filter(|format| !is_ambiguous(*format, &calls)) {
            let separator = if spoken.is_empty() { "" } else { format.separator() };
            let reply = format!("{spoken}{separator}{}", written(format, &new));
            let parsed = format.parse(&reply, &functions);
            prop_assert_eq!(&parsed.calls, &expected, "{}: {}", format, reply);
            prop_assert_eq!(parsed.message, spoken, "{}: {}", format, reply);
        }
    }

    #[test]
    fn every_text_is_parsed(text in ".{0,200}") {
        for format in formats() {
            prop_assert!(format.parse(&text, &[]).message.len() <= text.len());
        }
    }

    #[test]
    fn no_word_is_lost(pieces in prop::collection::vec((mark(), prop::option::of(0..1000_u32)), 0..24)) {
        let numbered = pieces.iter().enumerate();
        let words: Vec<String> =
            numbered.filter_map(|(at, (_, word))| Some(format!("w{at}x{}", (*word)?))).collect();
        let mut named = words.iter();
        let text: String = pieces.iter().map(|(mark, word)| {
            let word = word.and_then(|_| named.next()).map_or("", String::as_str);
            format!("{mark}{word}")
        }).collect();
        for format in formats() {
            let kept = kept(format, &text);
            for word in &words {
                prop_assert!(kept.contains(word.as_str()), "{}: {} lost {}: {}", format, text, word, kept);
            }
        }
    }
}
