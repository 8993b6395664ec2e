//! Checklists in JSON or TOML, parsed and validated before scoring.

use gymkhana_sdk::Error;
use serde::Deserialize;

use crate::needs;

/// Maximum number of items.
const MAX_ITEMS: usize = 128;

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
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    once: bool,
    contains: Option<String>,
    not_contains: Option<String>,
    max_words: Option<u64>,
    must_call: Option<String>,
    must_not_call: Option<String>,
    json_valid: Option<bool>,
    number_within: Option<[f64; 2]>,
    fact: Option<String>,
    answer: Option<String>,
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
    /// Each turn of the seat by itself: a message with the calls up to the seat's next message.
    Turn,
    /// Each unit of thought in each turn; a turn's verdict is the mean over its units.
    Thought,
}

impl Place {
    /// Whether the item has a verdict for each turn, and so belongs to the process instead of the outcome.
    pub fn is_process(self) -> bool {
        matches!(self, Self::Turn | Self::Thought)
    }
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
    /// This fact of the environment's last step is true, or a number of at least 0.5.
    Fact(String),
    /// The final message of an episode that the environment ended gives the privileged fact of this name.
    Answer(String),
    /// A model answers this question with yes or no.
    Ask(String),
    /// A model gives a grade from 0 to 10; a tenth of it counts.
    Grade(String),
}

impl Rule {
    /// Whether a model decides.
    pub fn is_judged(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::Grade(_))
    }
}

/// Items that passed validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Checklist {
    /// Items as written.
    pub items: Vec<Item>,
    /// Indices of the items, each after those that it needs.
    pub order: Vec<usize>,
}

impl Checklist {
    /// Whether an item is about the outcome (`process = false`) or about the process.
    pub fn has(&self, process: bool) -> bool {
        self.items.iter().any(|item| item.place.is_process() == process)
    }
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
    /// Indices of the items without which this one does not count.
    pub needs: Vec<usize>,
    /// Whether an item of turns counts once, in the turn that meets it best, instead of in every turn.
    pub once: bool,
    /// Rule.
    pub rule: Rule,
}

/// Reads a checklist; `from` is its origin, for error messages.
pub fn read(text: &str, from: &str) -> Result<Checklist, Error> {
    let wrong = |why: String| Error::invalid(format!("the checklist in {from} {why}"));
    let wires = wires(text).map_err(wrong)?;
    if wires.len() > MAX_ITEMS {
        return Err(wrong(format!("has {} items: write at most {MAX_ITEMS}", wires.len())));
    }
    let names: Vec<String> = wires.iter().map(|wire| wire.name.clone()).collect();
    let items = wires.into_iter().map(|wire| item(wire, &names)).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if let Some(twice) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
        return Err(wrong(format!("has two items `{}`: use distinct names", twice.1)));
    }
    if items.is_empty() {
        return Err(wrong("has no item of positive weight: add one".to_owned()));
    }
    for (process, places) in [(false, "`last` and `all`"), (true, "`turn` and `thought`")] {
        let mut weights = items.iter().filter(|item| item.place.is_process() == process).map(|item| item.weight);
        if weights.clone().count() > 0 && weights.all(|weight| weight < 0.0) {
            return Err(wrong(format!("has no item of positive weight in {places}: add one, or invert a rule")));
        }
    }
    let needs: Vec<&[usize]> = items.iter().map(|item| &item.needs[..]).collect();
    let order = needs::order(&needs).map_err(|circle| {
        let circle: Vec<String> = circle.iter().map(|place| format!("`{}`", names[*place])).collect();
        wrong(format!("has items that need each other, {}: remove one of these needs", circle.join(" → ")))
    })?;
    Ok(Checklist { items, order })
}

/// Items as written.
fn wires(text: &str) -> Result<Vec<WireItem>, String> {
    // A JSON document starts with a brace or a bracket; TOML of this format may start with `[[items]]`.
    let json = text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("[[items]]");
    if json {
        let read = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)
        } else {
            serde_json::from_str::<Wire>(text).map(|wire| wire.items)
        };
        read.map_err(|error| format!("is not valid JSON: {error}"))
    } else {
        let read = toml::from_str::<Wire>(text).map(|wire| wire.items);
        read.map_err(|error| format!("is not valid TOML: {}", error.message()))
    }
}

fn item(wire: WireItem, names: &[String]) -> Result<Item, String> {
    let WireItem { name, weight, essential, place, once, .. } = wire;
    let wrong = |why: &str| format!("has an item `{name}` {why}");
    if !weight.is_finite() || weight == 0.0 || weight.abs() > 1e6 {
        return Err(wrong("whose weight is 0 or above a million: change it"));
    }
    if essential && weight < 0.0 {
        return Err(wrong("that is essential and has a negative weight: invert its rule"));
    }
    if once && !place.is_process() {
        return Err(wrong("that counts `once` and is about the whole episode: set `in` to `turn` or `thought`"));
    }
    let mut needs = Vec::new();
    for need in &wire.needs {
        let found = names.iter().position(|name| name == need);
        needs
            .push(found.ok_or_else(|| wrong(&format!("that needs `{need}`, which is not an item: correct the name")))?);
    }
    let rules = [
        wire.contains.map(Rule::Contains),
        wire.not_contains.map(Rule::NotContains),
        wire.max_words.map(Rule::MaxWords),
        wire.must_call.map(Rule::MustCall),
        wire.must_not_call.map(Rule::MustNotCall),
        wire.json_valid.map(Rule::JsonValid),
        wire.number_within.map(|[low, high]| Rule::NumberWithin(low, high)),
        wire.fact.map(Rule::Fact),
        wire.answer.map(Rule::Answer),
        wire.ask.map(Rule::Ask),
        wire.grade.map(Rule::Grade),
    ];
    let mut rules = rules.into_iter().flatten();
    let (Some(rule), None) = (rules.next(), rules.next()) else {
        return Err(wrong(
            "without exactly one of contains, not-contains, max-words, must-call, must-not-call, json-valid, \
             number-within, fact, answer, ask and grade",
        ));
    };
    check_rule(&rule, place).map_err(wrong)?;
    Ok(Item { name, weight, essential, place, needs, once, rule })
}

/// Checks the rule's value, and that it can be decided in this scope.
fn check_rule(rule: &Rule, place: Place) -> Result<(), &'static str> {
    match rule {
        Rule::NumberWithin(low, high) if low > high || low.is_nan() || high.is_nan() => {
            Err("whose number-within is not [low, high] with low <= high")
        }
        Rule::Contains(words) | Rule::NotContains(words) | Rule::MustCall(words) | Rule::MustNotCall(words)
            if words.trim().is_empty() =>
        {
            Err("without a text to search for: write one")
        }
        Rule::Ask(question) | Rule::Grade(question) if question.trim().is_empty() => {
            Err("without a question: write one")
        }
        Rule::Fact(name) | Rule::Answer(name) if name.trim().is_empty() => Err("without the name of a fact: write one"),
        Rule::Fact(_) | Rule::Answer(_) if place.is_process() => {
            Err("whose rule is about the end of the episode: remove its `in`")
        }
        Rule::MustCall(_) | Rule::MustNotCall(_) if place == Place::Thought => {
            Err("whose rule is about calls, which are not thoughts: set `in` to `turn`")
        }
        _ => Ok(()),
    }
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
        let read = |text: &str| read(text, "a test").expect("a sound checklist").items;
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
            (r#"[{"name": "a", "ask": "x", "in": "turn", "weight": -1}]"#, "positive weight in `turn` and `thought`"),
            (r#"[{"name": "a", "contains": "x", "once": true}]"#, "item `a` that counts `once`"),
            (r#"[{"name": "a", "fact": "success", "in": "turn"}]"#, "item `a` whose rule is about the end"),
            (r#"[{"name": "a", "answer": " "}]"#, "item `a` without the name of a fact"),
            (r#"[{"name": "a", "must-call": "x", "in": "thought"}]"#, "item `a` whose rule is about calls"),
            (r#"[{"name": "a", "contains": "x", "needs": ["b"]}]"#, "item `a` that needs `b`, which is not an item"),
            (r#"[{"name": "a", "contains": "x", "needs": ["a"]}]"#, "need each other, `a` → `a`: remove one"),
            (
                r#"[{"name": "a", "contains": "x", "needs": ["c"]}, {"name": "b", "contains": "x", "needs": ["a"]},
                    {"name": "c", "contains": "x", "needs": ["b"]}]"#,
                "need each other, `a` → `c` → `b` → `a`: remove one of these needs",
            ),
        ] {
            let refused = read(text, "the option `checklist`");
            assert!(matches!(&refused, Err(Error::Invalid(message)) if message.contains(why)), "{text}: {refused:?}");
        }
    }

    #[test]
    fn items_follow_those_that_they_need() {
        let list = r#"[{"name": "cites", "grade": "x", "in": "turn", "needs": ["finds", "asks"], "once": true},
                       {"name": "asks", "contains": "x"}, {"name": "finds", "ask": "x", "in": "thought"}]"#;
        let list = read(list, "a test").expect("a sound checklist");
        assert_eq!((&list.order[..], &list.items[0].needs[..]), (&[1, 2, 0][..], &[2, 1][..]));
        assert!(list.items[0].once && list.has(true) && list.has(false));
    }
}
