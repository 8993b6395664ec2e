//! Kinds of calls that were not made: text that cannot be read as a call, and calls of unknown functions.

use gymkhana_record::{Turn, text_of};

use crate::named_counts::NamedCounts;

/// A call whose reply a limit of tokens cut.
pub(crate) const CUT: &str = "cut";
/// A call of a function that the seat does not have.
pub(crate) const UNKNOWN_FUNCTION: &str = "unknown function";

/// Begin of the driver's answer to a call of an unknown function.
const UNKNOWN_ANSWER: &str = "unknown function `";

/// Words in the reason of a malformed call, and the kind that they mean. The first ones take precedence.
const KINDS: [(&str, &str); 8] = [
    ("was cut after", CUT),
    ("not closed", "not closed"),
    ("EOF", "not closed"),
    ("no function name", "no function name"),
    ("missing field `name`", "no function name"),
    ("not a JSON object", "arguments"),
    ("arguments", "arguments"),
    ("not of the form", "not of the form"),
];
/// Kind of all others.
const OTHER: &str = "not of the form";

/// Counts of such calls by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MalformedKinds {
    pub kinds: NamedCounts,
}

impl MalformedKinds {
    /// Adds the calls of a transcript.
    pub fn add(&mut self, turns: &[Turn]) {
        for (place, turn) in turns.iter().enumerate() {
            let kind = match turn {
                Turn::MalformedCall { id, .. } => Some(kind_of(&answer_to(&turns[place..], id))),
                Turn::Call { call, .. } => {
                    let is_unknown = answer_to(&turns[place..], &call.id).starts_with(UNKNOWN_ANSWER);
                    is_unknown.then_some(UNKNOWN_FUNCTION)
                }
                Turn::Thought { .. } | Turn::Message { .. } | Turn::Answer { .. } | Turn::Observation { .. } => None,
            };
            kind.iter().for_each(|kind| self.kinds.add(kind, 1));
        }
    }

    /// Number of such calls.
    pub fn total(&self) -> u64 {
        self.kinds.sorted().into_iter().map(|(_, count)| count).sum()
    }

    /// The most frequent kind.
    pub fn main(&self) -> Option<&str> {
        self.kinds.sorted().first().map(|(kind, _)| *kind)
    }

    pub fn merge(&mut self, other: &Self) {
        self.kinds.merge(&other.kinds);
    }
}

/// Text of the failed answer to a call; empty without one.
fn answer_to(turns: &[Turn], wanted: &str) -> String {
    let answer = turns.iter().find_map(|turn| match turn {
        Turn::Answer { id, content, failed: true, .. } if id == wanted => Some(text_of(content)),
        _ => None,
    });
    answer.unwrap_or_default()
}

fn kind_of(reason: &str) -> &'static str {
    KINDS.iter().find(|(words, _)| reason.contains(words)).map_or(OTHER, |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Call, Part};

    use super::*;

    #[test]
    fn kinds_are_read_from_the_answers() {
        let malformed = |id: &str| Turn::MalformedCall { seat: 0, id: id.to_owned(), text: "{".to_owned() };
        let answer = |id: &str, text: &str, failed: bool| Turn::Answer {
            seat: 0,
            id: id.to_owned(),
            content: vec![Part::Text(text.to_owned())],
            failed,
        };
        let call = |id: &str| {
            let call = Call { id: id.to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() };
            Turn::Call { seat: 0, call, cost: 0.0 }
        };
        let mut kinds = MalformedKinds::default();
        kinds.add(&[
            malformed("0"),
            answer("0", "the call is not closed by </tool_call>; the reply was cut after 8 tokens", true),
            malformed("1"),
            answer("1", "the call is not of the form {\"name\": …}: EOF while parsing", true),
            malformed("2"),
            answer("2", "the call is not of the form {\"name\": …, \"arguments\": {…}}: missing field `name`", true),
            malformed("3"),
            call("4"),
            answer("4", "unknown function `add`; known: sub", true),
            call("5"),
            answer("5", "unknown function `x` is what the tool says", false),
        ]);
        assert_eq!(
            kinds.kinds.listed(9),
            "cut 1, no function name 1, not closed 1, not of the form 1, unknown function 1"
        );
        assert_eq!(kinds.total(), 5);
    }
}
