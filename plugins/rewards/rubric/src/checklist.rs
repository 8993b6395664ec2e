//! Checklists in JSON or TOML, parsed and validated before scoring.

use gymkhana_sdk::Error;
use serde::Deserialize;

/// Maximum number of items.
const MOST_ITEMS: usize = 128;

/// Document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    items: Vec<WireItem>,
}

/// Item as written, with exactly one rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WireItem {
    name: String,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default)]
    essential: bool,
    #[serde(default, rename = "in")]
    place: Place,
    contains: Option<String>,
    not_contains: Option<String>,
    max_words: Option<u64>,
    must_call: Option<String>,
    must_not_call: Option<String>,
    json_valid: Option<bool>,
    number_within: Option<[f64; 2]>,
    ask: Option<String>,
    grade: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// Scope of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Final message: the seat's last turn, if that is a message.
    #[default]
    Last,
    /// All messages of the seat.
    All,
}

/// Rule of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// The text contains these words, ignoring case.
    Contains(String),
    /// The text does not contain these words. This also holds without a message, so combine it with a second item.
    NotContains(String),
    /// There is a message, and it has at most this many words.
    MaxWords(u64),
    /// The seat called this function.
    MustCall(String),
    /// The seat did not call this function.
    MustNotCall(String),
    /// The message, or its only code block, is JSON; with `false`, it is not.
    JsonValid(bool),
    /// The last number of the message is in this range, inclusive.
    NumberWithin(f64, f64),
    /// A model answers this question with yes or no.
    Ask(String),
    /// A model gives a grade from 0 to 10; a tenth of it counts.
    Grade(String),
}

/// Item of a checklist.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Name, for messages and evidence.
    pub name: String,
    /// Weight of the item relative to the others; negative for undesired properties.
    pub weight: f64,
    /// Whether the total is the lowest one if the item is not met.
    pub essential: bool,
    /// Scope.
    pub place: Place,
    /// Rule.
    pub rule: Rule,
}

/// Reads a checklist; `from` is its origin, for error messages.
pub fn read(text: &str, from: &str) -> Result<Vec<Item>, Error> {
    let wrong = |why: String| Error::invalid(format!("the checklist in {from} {why}"));
    // A JSON document starts with a brace or a bracket; TOML of this format may start with `[[items]]`.
    let json = text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("[[items]]");
    let items: Vec<WireItem> = if json {
        let read = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)
        } else {
            serde_json::from_str::<Wire>(text).map(|wire| wire.items)
        };
        read.map_err(|error| wrong(format!("is not valid JSON: {error}")))?
    } else {
        toml::from_str::<Wire>(text).map_err(|error| wrong(format!("is not valid TOML: {}", error.message())))?.items
    };
    if items.len() > MOST_ITEMS {
        return Err(wrong(format!("has {} items: write at most {MOST_ITEMS}", items.len())));
    }
    let mut known: Vec<Item> = Vec::new();
    for wire in items {
        let item = item(wire).map_err(wrong)?;
        if known.iter().any(|other| other.name == item.name) {
            return Err(wrong(format!("has two items `{}`: use distinct names", item.name)));
        }
        known.push(item);
    }
    if !known.iter().any(|item| item.weight > 0.0) {
        return Err(wrong("has no item of positive weight: add one".to_owned()));
    }
    Ok(known)
}

fn item(wire: WireItem) -> Result<Item, String> {
    let WireItem { name, weight, essential, place, .. } = wire;
    let wrong = |why: &str| format!("has an item `{name}` {why}");
    if !weight.is_finite() || weight == 0.0 || weight.abs() > 1e6 {
        return Err(wrong("whose weight is 0 or above a million: change it"));
    }
    if essential && weight < 0.0 {
        return Err(wrong("that is essential and has a negative weight: invert its rule"));
    }
    let rules = [
        wire.contains.map(Rule::Contains),
        wire.not_contains.map(Rule::NotContains),
        wire.max_words.map(Rule::MaxWords),
        wire.must_call.map(Rule::MustCall),
        wire.must_not_call.map(Rule::MustNotCall),
        wire.json_valid.map(Rule::JsonValid),
        wire.number_within.map(|[low, high]| Rule::NumberWithin(low, high)),
        wire.ask.map(Rule::Ask),
        wire.grade.map(Rule::Grade),
    ];
    let mut rules = rules.into_iter().flatten();
    let (Some(rule), None) = (rules.next(), rules.next()) else {
        return Err(wrong(
            "without exactly one of contains, not-contains, max-words, must-call, must-not-call, json-valid, \
             number-within, ask and grade",
        ));
    };
    match &rule {
        Rule::NumberWithin(low, high) if low > high || low.is_nan() || high.is_nan() => {
            return Err(wrong("whose number-within is not [low, high] with low <= high"));
        }
        Rule::Contains(words) | Rule::NotContains(words) | Rule::MustCall(words) | Rule::MustNotCall(words)
            if words.trim().is_empty() =>
        {
            return Err(wrong("without a text to search for: write one"));
        }
        Rule::Ask(question) | Rule::Grade(question) if question.trim().is_empty() => {
            return Err(wrong("without a question: write one"));
        }
        _ => {}
    }
    Ok(Item { name, weight, essential, place, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_toml_say_the_same() {
        let toml = "[[items]]\nname = \"polite\"\ncontains = \"please\"\n\n[[items]]\nname = \"short\"\nweight = 2\n\
                    essential = true\nin = \"all\"\nmax-words = 9\n";
        let json = r#"{"items": [{"name": "polite", "contains": "please"},
                       {"name": "short", "weight": 2, "essential": true, "in": "all", "max-words": 9}]}"#;
        let list = r#"[{"name": "polite", "contains": "please"},
                       {"name": "short", "weight": 2.0, "essential": true, "in": "all", "max-words": 9}]"#;
        let read = |text: &str| read(text, "a test").expect("a sound checklist");
        assert_eq!(read(toml), read(json));
        assert_eq!(read(toml), read(list));
        assert_eq!((read(toml)[1].weight, read(toml)[1].place), (2.0, Place::All));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "items"),
            ("[]", "no item of positive weight"),
            (r#"[{"name": "a"}]"#, "item `a` without exactly one of"),
            (r#"[{"name": "a", "contains": "x", "ask": "y"}]"#, "item `a` without exactly one of"),
            (r#"[{"name": "a", "contain": "x"}]"#, "contain"),
            (r#"[{"name": "a", "contains": " "}]"#, "without a text"),
            (r#"[{"name": "a", "ask": ""}]"#, "without a question"),
            (r#"[{"name": "a", "contains": "x", "weight": 0}]"#, "weight is 0"),
            (r#"[{"name": "a", "contains": "x", "weight": -1}]"#, "no item of positive weight"),
            (r#"[{"name": "a", "contains": "x", "weight": -1, "essential": true}]"#, "essential and has a negative"),
            (r#"[{"name": "a", "number-within": [2, 1]}]"#, "not [low, high]"),
            (r#"[{"name": "a", "contains": "x"}, {"name": "a", "contains": "y"}]"#, "two items `a`"),
            ("[[items]]\nname = 3\n", "TOML"),
        ] {
            let refused = read(text, "the option `checklist`");
            assert!(matches!(&refused, Err(Error::Invalid(message)) if message.contains(why)), "{text}: {refused:?}");
        }
    }
}
