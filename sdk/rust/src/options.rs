//! Declaration, validation and look-up of options.

use std::collections::BTreeMap;

use crate::bindings::imports::gymkhana::plugin::types;
use crate::{Error, NamedValue, Range, Value};

/// Option that a run file may set. The default determines its type.
///
/// ```
/// use gymkhana_sdk::OptionInfo;
/// let options = [
///     OptionInfo::new("difficulty", "Difficulty of the stories", 2).within(1.0, 4.0),
///     OptionInfo::new("mode", "Comparison mode", "auto").one_of(&["auto", "number", "text"]),
/// ];
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OptionInfo {
    name: String,
    description: String,
    default: Value,
    range: Option<Range>,
    choices: Vec<String>,
}

impl OptionInfo {
    /// Option with a description (effect and unit) and a default.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, default: impl Into<Value>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            default: default.into(),
            range: None,
            choices: Vec::new(),
        }
    }

    /// Sets inclusive bounds; numbers outside are rejected. An infinite bound is open.
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.range = Some(Range { low, high });
        self
    }

    /// Sets the allowed texts; other texts are rejected.
    #[must_use]
    pub fn one_of(mut self, choices: &[&str]) -> Self {
        self.choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        self
    }

    /// Record of the contract; its description includes the range or the choices.
    pub(crate) fn to_wit(&self) -> types::OptionInfo {
        let description = match self.limits() {
            Some(limits) => format!("{} ({limits})", self.description),
            None => self.description.clone(),
        };
        types::OptionInfo { name: self.name.clone(), description, default: self.default.clone() }
    }

    fn limits(&self) -> Option<String> {
        if !self.choices.is_empty() {
            return Some(format!("one of {}", self.choices.join(", ")));
        }
        let Range { low, high } = self.range?;
        Some(match (low.is_finite(), high.is_finite()) {
            (true, true) => format!("{low} to {high}"),
            (true, false) => format!("at least {low}"),
            (false, true) => format!("at most {high}"),
            (false, false) => return None,
        })
    }

    /// Checks the default, which the author may have written outside the limits.
    fn check_default(&self) -> Result<(), Error> {
        match self.check(&self.default) {
            Err(Error::Invalid(reason)) => Err(Error::Invalid(format!("the default of {reason}"))),
            checked => checked.map(drop),
        }
    }

    /// Validates `value` and converts it to this option's type.
    fn check(&self, value: &Value) -> Result<Value, Error> {
        let refuse =
            |wanted: &str| Error::Invalid(format!("option `{}` must be {wanted}, not {}", self.name, value.shown()));
        let value = match (&self.default, value) {
            // A run file may write 1 instead of 1.0.
            (Value::Number(_), Value::Integer(integer)) => Value::Number(*integer as f64),
            (default, given) if std::mem::discriminant(default) == std::mem::discriminant(given) => given.clone(),
            (default, _) => return Err(refuse(default.kind())),
        };
        let in_range = match (&value, self.range) {
            (Value::Integer(integer), Some(range)) => (range.low..=range.high).contains(&(*integer as f64)),
            (Value::Number(number), Some(range)) => (range.low..=range.high).contains(number),
            (Value::Number(number), None) => number.is_finite(),
            (Value::Text(words), _) => self.choices.is_empty() || self.choices.contains(words),
            _ => true,
        };
        if in_range { Ok(value) } else { Err(refuse(&self.limits().unwrap_or_else(|| "finite".into()))) }
    }
}

/// Validated value of every declared option, for an episode, a session or a scoring.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    values: BTreeMap<String, Value>,
}

impl Options {
    /// Overlays `given` on the defaults.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an option that is unknown (the message suggests the nearest name), repeated, of a wrong
    /// type or out of range, and for a declared default that is out of range.
    pub fn new(declared: &[OptionInfo], given: Vec<NamedValue>) -> Result<Self, Error> {
        for info in declared {
            info.check_default()?;
        }
        let mut chosen = BTreeMap::new();
        for NamedValue { name, value } in given {
            let info = declared.iter().find(|info| info.name == name).ok_or_else(|| unknown(&name, declared))?;
            let value = info.check(&value)?;
            if chosen.insert(name, value).is_some() {
                return Err(Error::Invalid(format!("option `{}` is given twice: remove one", info.name)));
            }
        }
        for info in declared {
            chosen.entry(info.name.clone()).or_insert_with(|| info.default.clone());
        }
        Ok(Self { values: chosen })
    }

    /// Value of a declared Boolean option.
    ///
    /// # Panics
    ///
    /// Undeclared option or wrong type, a bug of the plugin; likewise for the other accessors.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        match self.value(name) {
            Value::Flag(flag) => *flag,
            other => mistyped(name, "a flag", other),
        }
    }

    /// Value of a declared integer option.
    #[must_use]
    pub fn integer(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Integer(integer) => *integer,
            other => mistyped(name, "an integer", other),
        }
    }

    /// Value of a declared number option.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Number(number) => *number,
            other => mistyped(name, "a number", other),
        }
    }

    /// Value of a declared text option.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(words) => words,
            other => mistyped(name, "text", other),
        }
    }

    /// Value of a declared option of any type.
    #[must_use]
    pub fn value(&self, name: &str) -> &Value {
        match self.values.get(name) {
            Some(value) => value,
            None => panic!("option `{name}` is not declared: add it to `info()`"),
        }
    }
}

fn mistyped(name: &str, asked: &str, declared: &Value) -> ! {
    panic!("option `{name}` was looked up as {asked} but declared as {}", declared.kind())
}

fn unknown(name: &str, declared: &[OptionInfo]) -> Error {
    let closeness = |info: &&OptionInfo| (strsim::jaro(name, &info.name) * 1000.0) as u32;
    Error::Invalid(match declared.iter().max_by_key(closeness) {
        Some(nearest) => format!("unknown option `{name}`; the nearest known one is `{}`", nearest.name),
        None => format!("unknown option `{name}`; this plugin has no options"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named;

    fn declared() -> Vec<OptionInfo> {
        vec![
            OptionInfo::new("difficulty", "How hard", 2).within(1.0, 4.0),
            OptionInfo::new("cost", "In points", 0.0).within(0.0, f64::INFINITY),
            OptionInfo::new("mode", "What is compared", "auto").one_of(&["auto", "text"]),
            OptionInfo::new("slippery", "Ice", false),
        ]
    }

    fn refusal(given: NamedValue) -> String {
        match Options::new(&declared(), vec![given]) {
            Err(Error::Invalid(message)) => message,
            other => panic!("not refused as invalid: {other:?}"),
        }
    }

    #[test]
    fn defaults_hold_until_set() {
        let options = Options::new(&declared(), vec![named("difficulty", 4), named("cost", 1)]);
        let options = options.expect("good options");
        assert_eq!(options.integer("difficulty"), 4);
        assert_eq!(options.number("cost"), 1.0);
        assert_eq!(options.text("mode"), "auto");
        assert!(!options.flag("slippery"));
    }

    #[test]
    fn mistakes_name_the_option_and_the_fix() {
        assert_eq!(refusal(named("dificulty", 1)), "unknown option `dificulty`; the nearest known one is `difficulty`");
        assert_eq!(refusal(named("difficulty", 5)), "option `difficulty` must be 1 to 4, not 5");
        assert_eq!(refusal(named("difficulty", "hard")), "option `difficulty` must be a whole number, not hard");
        assert_eq!(refusal(named("difficulty", 2.0)), "option `difficulty` must be a whole number, not 2");
        assert_eq!(refusal(named("cost", -1.0)), "option `cost` must be at least 0, not -1");
        assert_eq!(refusal(named("cost", f64::NAN)), "option `cost` must be at least 0, not NaN");
        assert_eq!(refusal(named("mode", "numbr")), "option `mode` must be one of auto, text, not numbr");
        let twice = Options::new(&declared(), vec![named("slippery", true), named("slippery", true)]);
        assert!(matches!(twice, Err(Error::Invalid(message)) if message.contains("twice")));
    }

    #[test]
    fn a_default_obeys_the_limits() {
        for (info, reason) in [
            (OptionInfo::new("x", "An option", 5).within(1.0, 4.0), "option `x` must be 1 to 4, not 5"),
            (OptionInfo::new("x", "An option", "txt").one_of(&["auto"]), "option `x` must be one of auto, not txt"),
        ] {
            let refused = Options::new(&[info], vec![named("x", 2)]).expect_err(reason);
            assert_eq!(refused, Error::Invalid(format!("the default of {reason}")));
        }
    }

    #[test]
    fn the_host_reads_the_range_in_the_description() {
        let shown: Vec<String> = declared().iter().map(|info| info.to_wit().description).collect();
        assert_eq!(
            shown,
            ["How hard (1 to 4)", "In points (at least 0)", "What is compared (one of auto, text)", "Ice"]
        );
    }
}
