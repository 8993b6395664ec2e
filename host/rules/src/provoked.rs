//! The reward of an episode in which the agent's turn provoked a failure of a plugin.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const LEAST: &str = "least";
const EXCLUDE: &str = "exclude";
const EXPECTED: &str = "\"least\", \"exclude\" or a number";

/// Treatment of an episode in which the agent's turn provoked a failure: a trap, or spent fuel, time or memory of the
/// environment, a reward plugin or the agent program.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum ProvokedReward {
    /// The least total that the declared ranges of the environment and the rewards allow.
    #[default]
    Least,
    /// The episode is absent from the comparison, the statistics and the loss of a training step. An evaluation counts
    /// it with the least total.
    Exclude,
    /// This total.
    Fixed(f64),
}

impl Serialize for ProvokedReward {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Least => serializer.serialize_str(LEAST),
            Self::Exclude => serializer.serialize_str(EXCLUDE),
            Self::Fixed(total) => serializer.serialize_f64(*total),
        }
    }
}

impl<'de> Deserialize<'de> for ProvokedReward {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProvokedVisitor)
    }
}

struct ProvokedVisitor;

impl Visitor<'_> for ProvokedVisitor {
    type Value = ProvokedReward;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ProvokedReward, E> {
        match word {
            LEAST => Ok(ProvokedReward::Least),
            EXCLUDE => Ok(ProvokedReward::Exclude),
            other => Err(E::invalid_value(Unexpected::Str(other), &EXPECTED)),
        }
    }

    fn visit_f64<E>(self, total: f64) -> Result<ProvokedReward, E> {
        Ok(ProvokedReward::Fixed(total))
    }

    fn visit_i64<E>(self, total: i64) -> Result<ProvokedReward, E> {
        Ok(ProvokedReward::Fixed(total as f64))
    }

    fn visit_u64<E>(self, total: u64) -> Result<ProvokedReward, E> {
        Ok(ProvokedReward::Fixed(total as f64))
    }
}

impl JsonSchema for ProvokedReward {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProvokedReward".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "enum": [LEAST, EXCLUDE] }, { "type": "number", "minimum": -1e6, "maximum": 1e6 }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Section {
        provoked: ProvokedReward,
    }

    #[test]
    fn words_and_numbers_are_read_and_written() {
        for (text, expected) in [
            ("provoked = \"least\"\n", ProvokedReward::Least),
            ("provoked = \"exclude\"\n", ProvokedReward::Exclude),
            ("provoked = -1.5\n", ProvokedReward::Fixed(-1.5)),
        ] {
            let section: Section = toml::from_str(text).expect("a sound section");
            assert_eq!(section.provoked, expected);
            assert_eq!(toml::to_string(&section).expect("TOML"), text);
        }
        assert_eq!(
            toml::from_str::<Section>("provoked = 1").expect("a sound section").provoked,
            ProvokedReward::Fixed(1.0)
        );
        for wrong in ["provoked = \"lowest\"", "provoked = true"] {
            let error = toml::from_str::<Section>(wrong).expect_err("a wrong value").to_string();
            assert!(error.contains("expected \"least\", \"exclude\" or a number"), "{error}");
        }
    }
}
