//! `policy.thoughts`: the marks by which thoughts are told from messages.

use gymkhana_chat::ThoughtMarks;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Marks of thoughts: a word or a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ThoughtsChoice {
    /// One of the words.
    Word(ThoughtsWord),
    /// Marks of the run.
    Marks(ThoughtsMarks),
}

/// Choice of the marks without a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ThoughtsWord {
    /// The marks in the chat template, else those among the tokens, else `<think>` and `</think>`.
    Auto,
    /// Thoughts stay in messages.
    Off,
}

/// Marks of the run, a table with these keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThoughtsMarks {
    /// Text before a thought.
    pub open: String,
    /// Text behind a thought.
    pub close: String,
}

impl Default for ThoughtsChoice {
    fn default() -> Self {
        Self::Word(ThoughtsWord::Auto)
    }
}

impl<'de> Deserialize<'de> for ThoughtsChoice {
    /// Deserializes by hand so that errors name the wrong key of a table.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hint = "hint: write \"auto\", \"off\" or { open = \"<think>\", close = \"</think>\" }";
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(word) if word == "auto" => Ok(Self::Word(ThoughtsWord::Auto)),
            toml::Value::String(word) if word == "off" => Ok(Self::Word(ThoughtsWord::Off)),
            toml::Value::Table(table) => {
                let marks: ThoughtsMarks = table.try_into().map_err(|error| D::Error::custom(error.message()))?;
                let checked = ThoughtMarks::new(&marks.open, &marks.close);
                checked.map(|_| Self::Marks(marks)).map_err(|error| D::Error::custom(format!("{error}\n{hint}")))
            }
            other => Err(D::Error::custom(format!("{other} names no marks of thoughts\n{hint}"))),
        }
    }
}

impl ThoughtsChoice {
    /// The marks in place of those that the model's files reveal: `None` where these decide, `Some(None)` where thoughts
    /// stay in messages.
    #[must_use]
    pub fn marks(&self) -> Option<Option<ThoughtMarks>> {
        match self {
            Self::Word(ThoughtsWord::Auto) => None,
            Self::Word(ThoughtsWord::Off) => Some(None),
            // The marks were checked when they were read.
            Self::Marks(ThoughtsMarks { open, close }) => Some(ThoughtMarks::new(open, close).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Section {
        thoughts: ThoughtsChoice,
    }

    fn read(text: &str) -> Result<ThoughtsChoice, String> {
        let section: Result<Section, _> = toml::from_str(text);
        section.map(|section| section.thoughts).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn marks_are_a_word_or_a_table() {
        assert_eq!(read("thoughts = \"auto\"").expect("a word").marks(), None);
        assert_eq!(read("thoughts = \"off\"").expect("a word").marks(), Some(None));
        let own = read("thoughts = { open = \"[a]\", close = \"[b]\" }").expect("a table").marks();
        assert_eq!(own, Some(ThoughtMarks::new("[a]", "[b]").ok()));
        for (text, reason) in [
            ("thoughts = true", "names no marks"),
            ("thoughts = \"none\"", "names no marks"),
            ("thoughts = { open = \"\", close = \"b\" }", "is empty"),
            ("thoughts = { open = \"a\", close = \"a\" }", "are the same"),
            ("thoughts = { open = \"a\", end = \"b\" }", "unknown field `end`"),
        ] {
            let error = read(text).expect_err("a mistake");
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
