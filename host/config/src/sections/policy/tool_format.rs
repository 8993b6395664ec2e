//! `policy.tool_format`: the format in which replies write calls.

use std::borrow::Cow;

use gymkhana_chat::ToolFormat;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const AUTO: &str = "auto";

/// Format of tool calls, or its choice by the chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolFormatChoice {
    /// The format in the chat template, else `hermes`.
    #[default]
    Auto,
    /// A format by name, or by marks of the run.
    Format(ToolFormat),
}

impl ToolFormatChoice {
    /// The chosen format; none where the chat template decides.
    #[must_use]
    pub fn format(self) -> Option<ToolFormat> {
        match self {
            Self::Auto => None,
            Self::Format(format) => Some(format),
        }
    }
}

impl Serialize for ToolFormatChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str(AUTO),
            Self::Format(format) => format.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ToolFormatChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(name) if name == AUTO => Ok(Self::Auto),
            value => {
                let read = ToolFormat::deserialize(value.into_deserializer());
                read.map(Self::Format).map_err(|error| D::Error::custom(error.message()))
            }
        }
    }
}

/// Kind of calls between marks of the run.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "the chat format reads the table")]
enum MarksKind {
    Json,
}

/// Marks around JSON calls, a table with these keys. It describes the table for the schema.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "the chat format reads the table")]
struct ToolFormatMarks {
    /// Kind of the calls.
    kind: MarksKind,
    /// Mark before a call.
    open: String,
    /// Mark behind a call, if the model writes one.
    close: Option<String>,
    /// Key of the arguments.
    #[schemars(extend("x-default" = "`arguments`"))]
    key: Option<String>,
    /// Key of the function's name.
    #[schemars(extend("x-default" = "`name`"))]
    name: Option<String>,
}

impl JsonSchema for ToolFormatChoice {
    fn schema_name() -> Cow<'static, str> {
        "ToolFormatChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = std::iter::once(AUTO).chain(ToolFormat::ALL.map(ToolFormat::name)).collect();
        json_schema!({
            "description": "Format of tool calls: a name, or the marks around JSON.",
            "anyOf": [
                {"type": "string", "enum": names},
                generator.subschema_for::<ToolFormatMarks>(),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Section {
        tool_format: ToolFormatChoice,
    }

    #[test]
    fn a_format_is_a_name_or_a_table() {
        for text in [
            "\"auto\"",
            "\"glm\"",
            "\"hermes\"",
            "{ kind = \"json\", open = \"<x>\", close = \"</x>\", key = \"parameters\" }",
        ] {
            let section: Section = toml::from_str(&format!("tool_format = {text}")).expect("a choice");
            let again: Section = toml::from_str(&toml::to_string(&section).expect("TOML")).expect("the same choice");
            assert_eq!(again.tool_format, section.tool_format, "{text}");
            assert_eq!(section.tool_format.format().is_none(), text == "\"auto\"");
        }
        for (text, reason) in [
            ("\"hermse\"", "hermse"),
            ("{ kind = \"json\", open = \"\" }", "is empty"),
            ("{ kind = \"xml\", open = \"<x>\" }", "xml"),
            ("7", "7"),
        ] {
            let error = toml::from_str::<Section>(&format!("tool_format = {text}")).expect_err("a mistake");
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
    }
}
