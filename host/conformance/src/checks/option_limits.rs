//! Limits of options, as the SDKs append them to a description: `(1 to 8)`, `(at least 1)` or `(one of a, b)`.

use gymkhana_record::Value;
use gymkhana_sandbox::OptionInfo;

/// Limits of an option.
#[derive(Debug, Clone, PartialEq)]
enum OptionLimits {
    /// Inclusive bounds of a number; an infinite bound is open.
    Range(f64, f64),
    /// Allowed texts.
    Choices(Vec<String>),
}

/// The author's part of an option's description, without the limits.
pub(crate) fn words(description: &str) -> &str {
    split(description).map_or(description, |(words, _)| words)
}

/// Values at the limits of an option, from the least to the greatest; empty if its description states none.
pub(crate) fn values_at_limits(option: &OptionInfo) -> Vec<Value> {
    let limits = split(&option.description).map(|(_, limits)| limits);
    match (&option.default, limits) {
        (Value::Flag(_), _) => vec![Value::Flag(false), Value::Flag(true)],
        (Value::Integer(default), Some(OptionLimits::Range(low, high))) if within(*default as f64, low, high) => {
            [low.ceil(), high.floor()].into_iter().filter_map(integer).collect()
        }
        (Value::Number(default), Some(OptionLimits::Range(low, high))) if within(*default, low, high) => {
            [low, high].into_iter().filter(|bound| bound.is_finite()).map(Value::Number).collect()
        }
        (Value::Text(default), Some(OptionLimits::Choices(choices))) if choices.contains(default) => {
            choices.into_iter().map(Value::Text).collect()
        }
        // Words that contradict the default are not limits.
        _ => vec![],
    }
}

fn within(number: f64, low: f64, high: f64) -> bool {
    low <= number && number <= high
}

/// A finite bound as an integer, if it is exact.
fn integer(bound: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (bound.abs() <= EXACT).then_some(Value::Integer(bound as i64))
}

/// A description as the author's words and the limits, if it ends with limits.
fn split(description: &str) -> Option<(&str, OptionLimits)> {
    let (words, limits) = description.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    Some((words, parse(limits)?))
}

fn parse(limits: &str) -> Option<OptionLimits> {
    let bound = |text: &str| text.parse::<f64>().ok().filter(|bound| bound.is_finite());
    if let Some(choices) = limits.strip_prefix("one of ") {
        return Some(OptionLimits::Choices(choices.split(", ").map(str::to_owned).collect()));
    }
    if let Some(low) = limits.strip_prefix("at least ") {
        return Some(OptionLimits::Range(bound(low)?, f64::INFINITY));
    }
    if let Some(high) = limits.strip_prefix("at most ") {
        return Some(OptionLimits::Range(f64::NEG_INFINITY, bound(high)?));
    }
    let (low, high) = limits.split_once(" to ")?;
    Some(OptionLimits::Range(bound(low)?, bound(high)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(description: &str, default: Value) -> Vec<Value> {
        let (name, description) = ("size".to_owned(), description.to_owned());
        values_at_limits(&OptionInfo { name, description, default })
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn limits_are_read_from_the_end_of_a_description() {
        let integers = |low, high| vec![Value::Integer(low), Value::Integer(high)];
        assert_eq!(values("Side length (in tiles) (2 to 16)", Value::Integer(4)), integers(2, 16));
        assert_eq!(values("Turns (0 to 1000000)", Value::Integer(0)), integers(0, 1_000_000));
        assert_eq!(values("Calls (0.5 to 3.5)", Value::Integer(1)), integers(1, 3));
        assert_eq!(values("Cost (at least 0)", Value::Number(0.0)), [Value::Number(0.0)]);
        assert_eq!(values("Share (at most 0.25)", Value::Number(0.0)), [Value::Number(0.25)]);
        assert_eq!(values("Mode (one of auto, text)", text("auto")), [text("auto"), text("text")]);
        assert_eq!(values("Ice", Value::Flag(true)), [Value::Flag(false), Value::Flag(true)]);
    }

    #[test]
    fn other_words_are_not_limits() {
        for words in ["Size", "Size (in tiles)", "Size (from 1 to 4)", "Size (1 to many)", "Size (8 to 16)", "(", ")"] {
            assert_eq!(values(words, Value::Integer(4)), [], "{words}");
        }
        assert_eq!(values("File (one of yours)", text("a.txt")), []);
        assert_eq!(values("Mode (1 to 4)", text("auto")), []);
    }

    #[test]
    fn limits_are_not_a_description() {
        assert_eq!(words(" (1 to 4)").trim(), "");
        assert_eq!(words("(one of a, b)"), "");
        assert_eq!(words("Side length (in tiles)"), "Side length (in tiles)");
        assert_eq!(words("Side length (2 to 16)").trim(), "Side length");
    }
}
