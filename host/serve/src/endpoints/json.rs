//! Contents, functions and facts of a step as JSON, for endpoints whose protocols leave their form open.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gymkhana_record::{Content, Failure, Function, NamedValue, Part, Value};
use serde_json::{Map, Value as Json, json};

use crate::error::Owner;
use crate::session::{EpisodeScore, TurnAnswer};

/// The schema of a function's arguments. A schema that is not JSON allows any object.
pub(super) fn schema(function: &Function) -> Json {
    serde_json::from_str(&function.parameters).unwrap_or_else(|_| json!({ "type": "object" }))
}

/// A value of a plugin. Bytes are in base64.
pub(super) fn value(value: &Value) -> Json {
    match value {
        Value::Flag(flag) => json!(flag),
        Value::Integer(integer) => json!(integer),
        Value::Number(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Other(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Value::Bytes(bytes) => json!(STANDARD.encode(bytes)),
    }
}

/// Named values as an object.
pub(super) fn named(values: &[NamedValue]) -> Json {
    let pairs = values.iter().map(|named| (named.name.clone(), value(&named.value)));
    Json::Object(pairs.collect::<Map<_, _>>())
}

/// The media of contents: mime type and bytes in base64.
pub(super) fn media<'a>(contents: impl Iterator<Item = &'a Content>) -> Vec<(String, String)> {
    let parts = contents.flatten().filter_map(|part| match part {
        Part::Text(_) => None,
        Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::Other(media) => Some(media),
    });
    parts.map(|media| (media.mime.clone(), STANDARD.encode(&media.bytes))).collect()
}

/// What a trainer may want to know of a step and its agent must not see: rewards of all seats, facts of the environment,
/// failures with the party at fault, the ending and the scores.
pub(super) fn facts(step: &TurnAnswer) -> Json {
    let mut facts = Map::new();
    facts.insert("turn".to_owned(), json!(step.turn));
    facts.insert("seat".to_owned(), json!(step.seat));
    if step.rewards.len() > 1 {
        facts.insert("rewards".to_owned(), json!(step.rewards));
    }
    if !step.extras.is_empty() {
        facts.insert("facts".to_owned(), named(&step.extras));
    }
    if !step.failures.is_empty() {
        facts.insert("failures".to_owned(), step.failures.iter().map(failure).collect());
    }
    if let Some(ending) = step.ending {
        facts.insert("ending".to_owned(), json!(ending));
    }
    if let Some(score) = &step.score {
        facts.insert("score".to_owned(), scores(score));
    }
    Json::Object(facts)
}

/// The scores of an episode.
pub(super) fn scores(score: &EpisodeScore) -> Json {
    let plugins = score.plugins.iter().map(|plugin| json!(plugin)).collect::<Vec<_>>();
    let failures = score.failures.iter().map(failure).collect::<Vec<_>>();
    json!({ "rewards": score.rewards, "success": score.success, "plugins": plugins, "failures": failures })
}

fn failure(failure: &Failure) -> Json {
    json!({ "owner": Owner::of(failure).label(), "message": failure.to_string() })
}

#[cfg(test)]
mod tests {
    use gymkhana_record::Media;

    use super::*;

    #[test]
    fn values_keep_their_types() {
        let named_value = |name: &str, value| NamedValue { name: name.to_owned(), value };
        let values = [
            named_value("a", Value::Flag(true)),
            named_value("b", Value::Number(0.5)),
            named_value("c", Value::Other("[1]".to_owned())),
            named_value("d", Value::Bytes(vec![255])),
        ];
        assert_eq!(named(&values), json!({ "a": true, "b": 0.5, "c": [1], "d": "/w==" }));
    }

    #[test]
    fn media_are_in_base64() {
        let image = Media { mime: "image/png".to_owned(), bytes: vec![1, 2, 3] };
        let content = vec![Part::Text("x".to_owned()), Part::Image(image)];
        assert_eq!(media([&content].into_iter()), [("image/png".to_owned(), "AQID".to_owned())]);
    }
}
