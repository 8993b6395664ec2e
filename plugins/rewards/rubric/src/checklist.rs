//! A checklist as it is written, in JSON or TOML, and checked before anything is scored.

use gymkhana_sdk::Error;
use serde::Deserialize;

/// More items than this are a mistake of whoever wrote them.
const MOST_ITEMS: usize = 128;

/// The document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    items: Vec<WireItem>,
}

/// An item as it is written: exactly one of its rules is there.
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

/// What an item looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The seat's last word: its last turn, if that was a message.
    #[default]
    Last,
    /// Every message of the seat.
    All,
}

/// How an item is decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// The words stand there, whatever their case.
    Contains(String),
    /// They do not. Without a message they do not either, so that an item like this wants a partner.
    NotContains(String),
    /// There is a message, and it has at most so many words.
    MaxWords(u64),
    /// The seat called this function.
    MustCall(String),
    /// It did not.
    MustNotCall(String),
    /// The message is JSON, or its only code block is; with `false`, it is not.
    JsonValid(bool),
    /// The message's last number lies here, ends included.
    NumberWithin(f64, f64),
    /// A model answers this question with yes or no.
    Ask(String),
    /// A model gives a grade from 0 to 10, a tenth of which is met.
    Grade(String),
}

/// One line of a checklist.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name, in messages and evidence.
    pub name: String,
    /// What meeting it is worth, in proportion to the others; negative for what should not be met.
    pub weight: f64,
    /// Without it nothing counts.
    pub essential: bool,
    /// What it looks at.
    pub place: Place,
    /// How it is decided.
    pub rule: Rule,
}

/// Reads a checklist; `from` says where it stands, for messages.
pub fn read(text: &str, from: &str) -> Result<Vec<Item>, Error> {
    let wrong = |why: String| Error::invalid(format!("the checklist in {from} {why}"));
    // A JSON document begins with a brace or a bracket; a TOML table of this kind with `[[items]]`.
    let json = text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("[[items]]");
    let items: Vec<WireItem> = if json {
        let read = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)
        } else {
            serde_json::from_str::<Wire>(text).map(|wire| wire.items)
        };
        read.map_err(|error| wrong(format!("is not sound JSON: {error}")))?
    } else {
        toml::from_str::<Wire>(text).map_err(|error| wrong(format!("is not sound TOML: {}", error.message())))?.items
    };
    if items.len() > MOST_ITEMS {
        return Err(wrong(format!("has {} items: write at most {MOST_ITEMS}", items.len())));
    }
    let mut known: Vec<Item> = Vec::new();
    for wire in items {
        let item = item(wire).map_err(wrong)?;
        if known.iter().any(|other| other.name == item.name) {
            return Err(wrong(format!("has two items `{}`: name each differently", item.name)));
        }
        known.push(item);
    }
    if !known.iter().any(|item| item.weight > 0.0) {
        return Err(wrong("has no item of positive weight: nothing could be earned".to_owned()));
    }
    Ok(known)
}

fn item(wire: WireItem) -> Result<Item, String> {
    let WireItem { name, weight, essential, place, .. } = wire;
    let wrong = |why: &str| format!("has an item `{name}` {why}");
    if !weight.is_finite() || weight == 0.0 || weight.abs() > 1e6 {
        return Err(wrong("whose weight is 0 or beyond a million: give it another"));
    }
    if essential && weight < 0.0 {
        return Err(wrong("that is essential and of negative weight: turn its rule round"));
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
            return Err(wrong("whose number-within is no [low, high]"));
        }
        Rule::Contains(words) | Rule::NotContains(words) | Rule::MustCall(words) | Rule::MustNotCall(words)
            if words.trim().is_empty() =>
        {
            return Err(wrong("that looks for nothing: write what it looks for"));
        }
        Rule::Ask(question) | Rule::Grade(question) if question.trim().is_empty() => {
            return Err(wrong("that asks nothing: write the question"));
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
            (r#"[{"name": "a", "contains": " "}]"#, "looks for nothing"),
            (r#"[{"name": "a", "ask": ""}]"#, "asks nothing"),
            (r#"[{"name": "a", "contains": "x", "weight": 0}]"#, "weight is 0"),
            (r#"[{"name": "a", "contains": "x", "weight": -1}]"#, "no item of positive weight"),
            (r#"[{"name": "a", "contains": "x", "weight": -1, "essential": true}]"#, "essential and of negative"),
            (r#"[{"name": "a", "number-within": [2, 1]}]"#, "no [low, high]"),
            (r#"[{"name": "a", "contains": "x"}, {"name": "a", "contains": "y"}]"#, "two items `a`"),
            ("[[items]]\nname = 3\n", "TOML"),
        ] {
            let refused = read(text, "the option `checklist`");
            assert!(matches!(&refused, Err(Error::Invalid(message)) if message.contains(why)), "{text}: {refused:?}");
        }
    }
}
