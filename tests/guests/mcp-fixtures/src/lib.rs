//! Tool with the functions that the official conformance suite of MCP calls by name, as far as a plugin can have them.

use gymkhana_sdk::tool::{Answer, Info, Tool};
use gymkhana_sdk::{Call, Content, Error, Function, Media, Part, plugin};

/// A picture of one red pixel.
const PNG: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 144, 119, 83,
    222, 0, 0, 0, 12, 73, 68, 65, 84, 120, 156, 99, 248, 207, 192, 0, 0, 3, 1, 1, 0, 201, 254, 146, 239, 0, 0, 0, 0,
    73, 69, 78, 68, 174, 66, 96, 130,
];

/// A sound of one silent sample.
const WAV: &[u8] = &[
    82, 73, 70, 70, 37, 0, 0, 0, 87, 65, 86, 69, 102, 109, 116, 32, 16, 0, 0, 0, 1, 0, 1, 0, 64, 31, 0, 0, 64, 31, 0,
    0, 1, 0, 8, 0, 100, 97, 116, 97, 1, 0, 0, 0, 128,
];

/// Schema of functions without arguments.
const EMPTY: &str = r#"{"type":"object","properties":{}}"#;

/// Schema with the keywords that a server must not remove.
const KEYWORDS: &str = r##"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
        }
    },
    "properties": {
        "name": { "type": "string" },
        "address": { "$ref": "#/$defs/address" },
        "contactMethod": { "type": "string", "enum": ["phone", "email"] },
        "phone": { "type": "string" },
        "email": { "type": "string" }
    },
    "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
    "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
    "then": { "required": ["phone"] },
    "else": { "required": ["email"] },
    "additionalProperties": false
}"##;

/// Schema of an argument that clients repeat in a header.
const HEADER: &str =
    r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}"#;

const FUNCTIONS: [(&str, &str, &str); 8] = [
    ("test_simple_text", "Answers a text.", EMPTY),
    ("test_image_content", "Answers a picture.", EMPTY),
    ("test_audio_content", "Answers a sound.", EMPTY),
    ("test_embedded_resource", "Answers bytes of another type.", EMPTY),
    ("test_multiple_content_types", "Answers a text, a picture and bytes of another type.", EMPTY),
    ("test_error_handling", "Answers that it failed.", EMPTY),
    ("test_custom_header", "Answers the region.", HEADER),
    ("json_schema_2020_12_tool", "Has a schema with many keywords.", KEYWORDS),
];

/// Remembers nothing.
pub struct Fixtures;

impl Tool for Fixtures {
    type Options = ();

    fn info() -> Info {
        Info::new("Functions of the conformance suite of MCP")
    }

    fn functions(_options: &()) -> Result<Vec<Function>, Error> {
        let function = |(name, description, parameters): &(&str, &str, &str)| Function {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
            parameters: (*parameters).to_owned(),
            cost: 0.0,
        };
        Ok(FUNCTIONS.iter().map(function).collect())
    }

    fn open(_setup: Option<Vec<u8>>, _options: &(), _seed: u64) -> Result<Self, Error> {
        Ok(Self)
    }

    fn call(&mut self, call: &Call) -> Result<Answer, Error> {
        let with = |content: Content| Answer { content, failed: false };
        Ok(match call.name.as_str() {
            "test_simple_text" => Answer::text("This is a simple text response for testing."),
            "test_image_content" => with(vec![picture()]),
            "test_audio_content" => with(vec![Part::Audio(media("audio/wav", WAV))]),
            "test_embedded_resource" => with(vec![other()]),
            "test_multiple_content_types" => {
                with(vec![Part::Text("Multiple content types test:".to_owned()), picture(), other()])
            }
            "test_error_handling" => Answer::failed("This tool intentionally returns an error for testing"),
            "test_custom_header" => call.text("region").into(),
            "json_schema_2020_12_tool" => Answer::text("accepted"),
            _ => Answer::no_function(call),
        })
    }
}

fn media(mime: &str, bytes: &[u8]) -> Media {
    Media { mime: mime.to_owned(), bytes: bytes.to_vec() }
}

fn picture() -> Part {
    Part::Image(media("image/png", PNG))
}

fn other() -> Part {
    Part::Other(media("application/json", br#"{"test":"data","value":123}"#))
}

plugin! { tool: Fixtures }
