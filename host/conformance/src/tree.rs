//! Results of calls as trees of values, to name the first difference between two of them.

use gymkhana_record::{Content, Evidence, Function, Media, NamedValue, Opening, Part, Score, SeatFunctions, Value};
use gymkhana_sandbox::{Image, StepResult, ToolOutput};

/// Most characters of a value in a report.
const MAX_CHARS: usize = 80;
/// Characters in front of the first difference of two long values.
const BEFORE: usize = 20;

/// Value with named or numbered parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    /// A single value, as it is shown.
    Leaf(String),
    /// Values in order.
    List(Vec<Tree>),
    /// Named values in order.
    Fields(Vec<(String, Tree)>),
}

/// First difference between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Names and numbers that lead to the value, such as `facts.pushes`.
    path: String,
    first: String,
    again: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, first, again } = self;
        if path.is_empty() { write!(f, "{first}, then {again}") } else { write!(f, "{path}: {first}, then {again}") }
    }
}

impl Tree {
    /// No values.
    pub(crate) fn nothing() -> Self {
        Self::Fields(vec![])
    }

    /// A text, quoted.
    pub(crate) fn text(text: &str) -> Self {
        Self::Leaf(format!("{text:?}"))
    }

    /// Bytes in hexadecimal digits.
    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let mut shown = format!("{} bytes ", bytes.len());
        for byte in bytes {
            shown.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
        }
        Self::Leaf(shown)
    }

    /// Named values, such as facts.
    pub(crate) fn named(values: &[NamedValue]) -> Self {
        Self::Fields(values.iter().map(|named| (named.name.clone(), Self::value(&named.value))).collect())
    }

    /// Parts of a message; a message of one text is this text.
    pub(crate) fn content(content: &[Part]) -> Self {
        match content {
            [Part::Text(text)] => Self::text(text),
            parts => Self::List(parts.iter().map(Self::part).collect()),
        }
    }

    /// Functions by name.
    pub(crate) fn functions(functions: &[Function]) -> Self {
        let function = |function: &Function| {
            let Function { name, description, parameters, cost } = function;
            let fields = [
                ("description", Self::text(description)),
                ("parameters", Self::text(parameters)),
                ("cost", Self::number(*cost)),
            ];
            (name.clone(), Self::fields(fields))
        };
        Self::Fields(functions.iter().map(function).collect())
    }

    /// The start of an episode.
    pub(crate) fn opening(opening: &Opening, seat: u32) -> Self {
        let Opening { functions, setup, observations } = opening;
        let offered = |offer: &SeatFunctions| {
            Self::fields([("seat", Self::shown(offer.seat)), ("functions", Self::functions(&offer.functions))])
        };
        Self::fields([
            ("functions", Self::List(functions.iter().map(offered).collect())),
            ("setup", Self::Fields(setup.iter().map(|(tool, bytes)| (tool.clone(), Self::bytes(bytes))).collect())),
            ("observations", Self::observations(observations)),
            ("seat", Self::shown(seat)),
        ])
    }

    /// The result of a step. The seat to move has no meaning after the end.
    pub(crate) fn step(result: &StepResult) -> Self {
        let StepResult { observations, rewards, terminated, truncated, extras, seat } = result;
        let reward = |(seat, reward): &(u32, f64)| {
            Self::fields([("seat", Self::shown(seat)), ("reward", Self::number(*reward))])
        };
        let seat = if *terminated || *truncated { Self::Leaf("none".to_owned()) } else { Self::shown(seat) };
        Self::fields([
            ("observations", Self::observations(observations)),
            ("rewards", Self::List(rewards.iter().map(reward).collect())),
            ("terminated", Self::shown(terminated)),
            ("truncated", Self::shown(truncated)),
            ("facts", Self::named(extras)),
            ("seat", seat),
        ])
    }

    /// A tool's answer.
    pub(crate) fn answer(answer: &ToolOutput) -> Self {
        let ToolOutput { content, failed } = answer;
        Self::fields([("content", Self::content(content)), ("failed", Self::shown(failed))])
    }

    /// A picture of a state.
    pub(crate) fn image(image: &Image) -> Self {
        let (kind, text) = match image {
            Image::Text(text) => ("text", text),
            Image::Svg(text) => ("svg", text),
            Image::Other(text) => ("other", text),
        };
        Self::fields([(kind, Self::text(text))])
    }

    /// Scores of a group, by episode.
    pub(crate) fn scores(scores: &[Vec<Score>]) -> Self {
        let one = |score: &Score| {
            let Score { seat, total, components, turns, evidence } = score;
            let components = components.iter().map(|part| (part.name.clone(), Self::number(part.value))).collect();
            let passage = |passage: &Evidence| {
                let [turn, start, end] = [passage.turn, passage.start, passage.end].map(Self::shown);
                Self::fields([("turn", turn), ("start", start), ("end", end), ("note", Self::text(&passage.note))])
            };
            Self::fields([
                ("seat", Self::shown(seat)),
                ("total", Self::number(*total)),
                ("components", Self::Fields(components)),
                ("turns", Self::List(turns.iter().map(|reward| Self::number(*reward)).collect())),
                ("evidence", Self::List(evidence.iter().map(passage).collect())),
            ])
        };
        let episode = |scores: &Vec<Score>| Self::List(scores.iter().map(one).collect());
        Self::fields([("scores", Self::List(scores.iter().map(episode).collect()))])
    }

    fn fields<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Fields(fields.into_iter().map(|(name, tree)| (name.to_owned(), tree)).collect())
    }

    fn shown(value: impl std::fmt::Display) -> Self {
        Self::Leaf(value.to_string())
    }

    /// A number, with a decimal point or an exponent.
    fn number(number: f64) -> Self {
        Self::Leaf(format!("{number:?}"))
    }

    fn value(value: &Value) -> Self {
        match value {
            Value::Flag(flag) => Self::shown(flag),
            Value::Integer(integer) => Self::shown(integer),
            Value::Number(number) => Self::number(*number),
            Value::Text(text) => Self::text(text),
            Value::Bytes(bytes) => Self::bytes(bytes),
            Value::Other(json) => Self::shown(json),
        }
    }

    fn part(part: &Part) -> Self {
        let media = |kind: &str, media: &Media| {
            Self::fields([(
                kind,
                Self::fields([("mime", Self::text(&media.mime)), ("bytes", Self::bytes(&media.bytes))]),
            )])
        };
        match part {
            Part::Text(text) => Self::text(text),
            Part::Image(image) => media("image", image),
            Part::Audio(audio) => media("audio", audio),
            Part::Video(video) => media("video", video),
            Part::Other(other) => media("other", other),
        }
    }

    fn observations(observations: &[(u32, Content)]) -> Self {
        let observation = |(seat, content): &(u32, Content)| {
            Self::fields([("seat", Self::shown(seat)), ("content", Self::content(content))])
        };
        Self::List(observations.iter().map(observation).collect())
    }

    /// First difference between this tree and another, if any.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        self.difference_at(other, String::new())
    }

    fn difference_at(&self, other: &Self, path: String) -> Option<Difference> {
        match (self, other) {
            _ if self == other => None,
            (Self::List(one), Self::List(two)) => {
                let at = |number: usize| format!("{path}[{number}]");
                let mut both = one.iter().zip(two).enumerate();
                both.find_map(|(number, (one, two))| one.difference_at(two, at(number))).or_else(|| {
                    let number = one.len().min(two.len());
                    Some(lacking(at(number), one.get(number), two.get(number)))
                })
            }
            (Self::Fields(one), Self::Fields(two)) => {
                let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                let changed = one.iter().find_map(|(name, tree)| match field(two, name) {
                    None => Some(lacking(at(name), Some(tree), None)),
                    Some(again) => tree.difference_at(again, at(name)),
                });
                let added = || {
                    let (name, tree) = two.iter().find(|(name, _)| field(one, name).is_none())?;
                    Some(lacking(at(name), None, Some(tree)))
                };
                // Otherwise the names have another order, or one occurs twice.
                let reordered = || Difference { path: at("names"), first: names(one), again: names(two) };
                Some(changed.or_else(added).unwrap_or_else(reordered))
            }
            (Self::Leaf(one), Self::Leaf(two)) => {
                let (first, again) = around_difference(one, two);
                Some(Difference { path, first, again })
            }
            (one, two) => Some(lacking(path, Some(one), Some(two))),
        }
    }

    /// The value in a few words.
    fn brief(&self) -> String {
        match self {
            Self::Leaf(text) => around_difference(text, "").0,
            Self::List(list) => format!("a list of {}", list.len()),
            Self::Fields(fields) => names(fields),
        }
    }
}

fn field<'a>(fields: &'a [(String, Tree)], name: &str) -> Option<&'a Tree> {
    fields.iter().find(|(known, _)| known == name).map(|(_, tree)| tree)
}

fn names(fields: &[(String, Tree)]) -> String {
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    format!("{{{}}}", names.join(", "))
}

/// Difference between values of which one may be missing.
fn lacking(path: String, first: Option<&Tree>, again: Option<&Tree>) -> Difference {
    let [first, again] = [first, again].map(|tree| tree.map_or_else(|| "nothing".to_owned(), Tree::brief));
    Difference { path, first, again }
}

/// Two texts, shortened to the part around their first difference where they are long.
fn around_difference(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let is_long = one.chars().count().max(other.chars().count()) > MAX_CHARS;
    let skipped = if is_long { same.saturating_sub(BEFORE) } else { 0 };
    let part = |text: &str| {
        let shown: String = text.chars().skip(skipped).take(MAX_CHARS).collect();
        let before = if skipped > 0 { "…" } else { "" };
        let after = if text.chars().count() > skipped + MAX_CHARS { "…" } else { "" };
        format!("{before}{shown}{after}")
    };
    (part(one), part(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(facts: &[(&str, Value)]) -> StepResult {
        let named = |(name, value): &(&str, Value)| NamedValue { name: (*name).to_owned(), value: value.clone() };
        StepResult {
            observations: vec![(0, vec![Part::Text("No.".to_owned())])],
            rewards: vec![(0, 0.5)],
            terminated: false,
            truncated: false,
            extras: facts.iter().map(named).collect(),
            seat: 0,
        }
    }

    fn difference(one: &StepResult, two: &StepResult) -> String {
        Tree::step(one).difference(&Tree::step(two)).map_or_else(String::new, |found| found.to_string())
    }

    #[test]
    fn the_first_difference_is_a_path_and_two_values() {
        let pushes = |count| step(&[("pushes", Value::Integer(count)), ("success", Value::Flag(false))]);
        assert_eq!(difference(&pushes(1), &pushes(1)), "");
        assert_eq!(difference(&pushes(1), &pushes(2)), "facts.pushes: 1, then 2");
        assert_eq!(difference(&pushes(1), &step(&[])), "facts.pushes: 1, then nothing");
        assert_eq!(difference(&step(&[]), &pushes(1)), "facts.pushes: nothing, then 1");
        let whole = step(&[("pushes", Value::Number(1.0)), ("success", Value::Flag(false))]);
        assert_eq!(difference(&pushes(1), &whole), "facts.pushes: 1, then 1.0");
        let turned = step(&[("success", Value::Flag(false)), ("pushes", Value::Integer(1))]);
        assert_eq!(difference(&pushes(1), &turned), "facts.names: {pushes, success}, then {success, pushes}");
        let silent = StepResult { observations: vec![], ..pushes(1) };
        assert_eq!(difference(&pushes(1), &silent), "observations[0]: {seat, content}, then nothing");
        let richer = StepResult { rewards: vec![(0, 1.0)], ..pushes(1) };
        assert_eq!(difference(&pushes(1), &richer), "rewards[0].reward: 0.5, then 1.0");
    }

    #[test]
    fn the_seat_does_not_count_after_the_end() {
        let ended = |seat| StepResult { terminated: true, seat, ..step(&[]) };
        assert_eq!(difference(&ended(0), &ended(1)), "");
        assert_eq!(difference(&step(&[]), &StepResult { seat: 1, ..step(&[]) }), "seat: 0, then 1");
    }

    #[test]
    fn a_long_text_is_shown_around_the_difference() {
        let text = |last: &str| Tree::text(&format!("{}{last}", "é".repeat(200)));
        let found = text("one").difference(&text("two")).unwrap().to_string();
        let same = "é".repeat(20);
        assert_eq!(found, format!("…{same}one\", then …{same}two\""));
        assert_eq!(Tree::bytes(&[1, 255]).brief(), "2 bytes 01ff");
    }
}
