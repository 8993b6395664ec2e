//! Options of a plugin: declaration by a derived struct, validation and conversion.

use crate::bindings::imports::gymkhana::plugin::types;
use crate::bindings::listed;
use crate::snapshot::{Reader, SnapshotState, Writer};
use crate::{Error, NamedValue, Value};

/// Options of a plugin: a struct with a field for each option, or `()` for none.
///
/// The derive macro declares each field, with its doc comment as the description (effect and unit), and implements
/// [`Default`] with the declared defaults and [`SnapshotState`]. A field `per_call_cost` is the option `per-call-cost`.
///
/// Settings of `#[option(…)]`:
///
/// - `default`: required; a literal, or a constant of the field's type
/// - `range`: inclusive bounds of a number, such as `1..=4`, `0..` and `..=9`
/// - `choices`: allowed texts, as an array
/// - `name`: name in the run file, if it is not that of the field
///
/// Types are `bool`, integers, `f64`, `String`, `Vec<u8>`, [`Json`], and enums with [`OptionValue`]. A default outside of
/// the range or the choices, of another type, or without a description does not compile.
///
/// ```
/// use gymkhana_sdk::{OptionValue, PluginOptions, named};
///
/// #[derive(Debug, PartialEq, OptionValue)]
/// enum Mode {
///     Auto,
///     OneByOne,
/// }
///
/// #[derive(Debug, PartialEq, PluginOptions)]
/// struct Options {
///     /// Difficulty of the stories
///     #[option(default = 2, range = 1..=4)]
///     difficulty: u8,
///     /// Points deducted per call
///     #[option(default = 0.0, range = 0.0..)]
///     per_call_cost: f64,
///     /// Comparison of answers
///     #[option(default = Mode::Auto)]
///     mode: Mode,
/// }
///
/// let given = vec![named("mode", "one-by-one"), named("per-call-cost", 1)];
/// let options = Options { per_call_cost: 1.0, mode: Mode::OneByOne, ..Options::default() };
/// assert_eq!(Options::parse(given), Ok(options));
/// ```
pub trait PluginOptions: SnapshotState {
    /// Declared options, in the order of the fields.
    #[doc(hidden)]
    fn declared() -> Vec<Declaration>;

    /// Values, in the order of the fields.
    #[doc(hidden)]
    fn to_values(&self) -> Vec<Value>;

    /// Options from validated values, in the order of the fields.
    #[doc(hidden)]
    fn from_values(values: &mut Values) -> Result<Self, Error>;

    /// Overlays values on the defaults.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an option that is unknown (the message suggests the nearest name), repeated, of a wrong
    /// type or out of range.
    fn parse(given: Vec<NamedValue>) -> Result<Self, Error> {
        Self::from_values(&mut Values::new(Self::declared(), given)?)
    }
}

impl PluginOptions for () {
    fn declared() -> Vec<Declaration> {
        Vec::new()
    }

    fn to_values(&self) -> Vec<Value> {
        Vec::new()
    }

    fn from_values(_values: &mut Values) -> Result<Self, Error> {
        Ok(())
    }
}

/// Type of an option. The derive macro makes an enum a type with one text for each variant: `OneByOne` is `one-by-one`,
/// and `#[option(name = "4x4")]` sets another text.
pub trait OptionValue: Sized {
    /// Value in the contract's type.
    fn to_value(&self) -> Value;

    /// Option from a value of the same kind; `None` for a value that the type does not have.
    fn from_value(value: Value) -> Option<Self>;

    /// Limits of the type.
    fn limits() -> Limits {
        Limits::default()
    }
}

/// Option of any other type, as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(pub String);

/// Allowed values of an option.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// Inclusive bounds of a number; an infinite one is open.
    range: Option<(f64, f64)>,
    /// Allowed texts; empty for every text.
    choices: &'static [&'static str],
}

impl Limits {
    /// Inclusive bounds of a number; an infinite one is open.
    #[must_use]
    pub const fn range(low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), choices: &[] }
    }

    /// Allowed texts.
    #[must_use]
    pub const fn choices(choices: &'static [&'static str]) -> Self {
        Self { range: None, choices }
    }

    /// Words for the limits, such as `1 to 4`; `None` without limits.
    fn words(&self) -> Option<String> {
        if !self.choices.is_empty() {
            return Some(format!("one of {}", listed(self.choices)));
        }
        let (low, high) = self.range?;
        match (low.is_finite(), high.is_finite()) {
            (true, true) => Some(format!("{low} to {high}")),
            (true, false) => Some(format!("at least {low}")),
            (false, true) => Some(format!("at most {high}")),
            (false, false) => None,
        }
    }

    fn allow(&self, value: &Value) -> bool {
        let in_range = |number: f64| self.range.is_none_or(|(low, high)| (low..=high).contains(&number));
        match value {
            Value::Integer(integer) => in_range(*integer as f64),
            Value::Number(number) => number.is_finite() && in_range(*number),
            Value::Text(text) => self.choices.is_empty() || self.choices.contains(&text.as_str()),
            Value::Flag(_) | Value::Bytes(_) | Value::Other(_) => true,
        }
    }
}

/// Declared option; the default determines its type.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Declaration {
    name: &'static str,
    description: &'static str,
    default: Value,
    limits: Limits,
}

impl Declaration {
    /// Option with the limits of its type.
    #[must_use]
    pub fn new<T: OptionValue>(name: &'static str, description: &'static str, default: &T) -> Self {
        Self { name, description, default: default.to_value(), limits: T::limits() }
    }

    /// Sets the range.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.limits = Limits::range(low, high);
        self
    }

    /// Sets the allowed texts.
    #[must_use]
    pub fn choices(mut self, choices: &'static [&'static str]) -> Self {
        self.limits = Limits::choices(choices);
        self
    }

    /// Record of the contract; its description includes the limits.
    pub(crate) fn to_wit(&self) -> types::OptionInfo {
        let description = match self.limits.words() {
            Some(limits) => format!("{} ({limits})", self.description),
            None => self.description.to_owned(),
        };
        types::OptionInfo { name: self.name.to_owned(), description, default: self.default.clone() }
    }

    fn refuse(&self, wanted: &str, value: &Value) -> Error {
        Error::Invalid(format!("option `{}` must be {wanted}, not {}", self.name, value.shown()))
    }

    /// Validates `value` and converts it to this option's type.
    fn check(&self, value: Value) -> Result<Value, Error> {
        let value = match (&self.default, value) {
            // A run file may write 1 instead of 1.0.
            (Value::Number(_), Value::Integer(integer)) => Value::Number(integer as f64),
            (default, given) if std::mem::discriminant(default) == std::mem::discriminant(&given) => given,
            (default, given) => return Err(self.refuse(kind(default), &given)),
        };
        if self.limits.allow(&value) {
            return Ok(value);
        }
        Err(self.refuse(&self.limits.words().unwrap_or_else(|| "finite".to_owned()), &value))
    }
}

/// Records of the contract for the options of a type.
pub(crate) fn to_wit<O: PluginOptions>() -> Vec<types::OptionInfo> {
    O::declared().iter().map(Declaration::to_wit).collect()
}

/// Validated values of all declared options, in their order.
#[doc(hidden)]
#[derive(Debug)]
pub struct Values(std::vec::IntoIter<(Declaration, Value)>);

impl Values {
    fn new(declared: Vec<Declaration>, given: Vec<NamedValue>) -> Result<Self, Error> {
        let mut chosen: Vec<Option<Value>> = vec![None; declared.len()];
        for NamedValue { name, value } in given {
            let index = declared.iter().position(|option| option.name == name);
            let index = index.ok_or_else(|| unknown(&name, &declared))?;
            if chosen[index].replace(declared[index].check(value)?).is_some() {
                return Err(Error::Invalid(format!("option `{name}` is given twice: remove one")));
            }
        }
        let value = |(option, chosen): (Declaration, Option<Value>)| {
            let value = chosen.unwrap_or_else(|| option.default.clone());
            (option, value)
        };
        Ok(Self(declared.into_iter().zip(chosen).map(value).collect::<Vec<_>>().into_iter()))
    }

    /// The next option in its type.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a value that the type does not have.
    pub fn take<T: OptionValue>(&mut self) -> Result<T, Error> {
        let Some((option, value)) = self.0.next() else {
            return Err(Error::invalid("the struct of the options declares fewer than it has"));
        };
        T::from_value(value.clone()).ok_or_else(|| option.refuse("a value of its type", &value))
    }
}

/// Adds options to a snapshot.
#[doc(hidden)]
#[must_use]
pub fn write<O: PluginOptions>(options: &O, writer: Writer) -> Writer {
    options.to_values().iter().fold(writer, Writer::value)
}

/// Reads options from a snapshot.
///
/// # Errors
///
/// [`Error::BadSnapshot`] for invalid bytes, and for values that are out of range.
#[doc(hidden)]
pub fn read<O: PluginOptions>(reader: &mut Reader<'_>) -> Result<O, Error> {
    let read = |option: Declaration| {
        let value = option.check(reader.value()?).map_err(unsound)?;
        Ok((option, value))
    };
    let values = O::declared().into_iter().map(read).collect::<Result<Vec<_>, Error>>()?;
    O::from_values(&mut Values(values.into_iter())).map_err(unsound)
}

/// Error of a snapshot with these options.
fn unsound(error: Error) -> Error {
    match error {
        Error::Invalid(reason) => Error::BadSnapshot(reason),
        other => other,
    }
}

fn unknown(name: &str, declared: &[Declaration]) -> Error {
    let closeness = |option: &&Declaration| (strsim::jaro(name, option.name) * 1000.0) as u32;
    Error::Invalid(match declared.iter().max_by_key(closeness) {
        Some(nearest) => format!("unknown option `{name}`; the nearest known one is `{}`", nearest.name),
        None => format!("unknown option `{name}`; this plugin has no options"),
    })
}

/// Whether a text is among others, for checks at compile time.
#[doc(hidden)]
#[must_use]
pub const fn is_one_of(text: &str, choices: &[&str]) -> bool {
    let mut index = 0;
    while index < choices.len() {
        if is_equal(text.as_bytes(), choices[index].as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// Kind of a value in plain words, such as "a whole number".
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Flag(_) => "true or false",
        Value::Integer(_) => "a whole number",
        Value::Number(_) => "a number",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        Value::Other(_) => "JSON",
    }
}

/// Types with a case of [`Value`].
macro_rules! values {
    ($($type:ty: $case:ident),*) => {$(
        impl OptionValue for $type {
            fn to_value(&self) -> Value {
                Value::$case(self.clone())
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$case(value) => Some(value),
                    _ => None,
                }
            }
        }
    )*};
}

values!(bool: Flag, i64: Integer, f64: Number, String: Text, Vec<u8>: Bytes);

/// Integers that a run file writes as 64-bit ones.
macro_rules! integers {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn to_value(&self) -> Value {
                Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::Integer(integer) => Self::try_from(integer).ok(),
                    _ => None,
                }
            }

            fn limits() -> Limits {
                // A run file reaches the end of 32 bits, and not that of 64.
                let high = if Self::BITS > 32 { f64::INFINITY } else { Self::MAX as f64 };
                Limits::range(Self::MIN as f64, high)
            }
        }
    )*};
}

integers!(u64, usize, u32, i32, u16, u8);

impl OptionValue for Json {
    fn to_value(&self) -> Value {
        Value::Other(self.0.clone())
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Other(json) => Some(Self(json)),
            _ => None,
        }
    }
}

/// The default is in the range, in the choices and of the field's type; otherwise the struct does not compile.
///
/// ```
/// #[derive(gymkhana_sdk::PluginOptions)]
/// struct Options {
///     /// An option
///     #[option(default = 4, range = 1..=4)]
///     x: u8,
///     /// A choice
///     #[option(default = "a", choices = ["a", "b"])]
///     y: String,
/// }
/// ```
///
/// ```compile_fail,E0080
/// #[derive(gymkhana_sdk::PluginOptions)]
/// struct Options {
///     /// An option
///     #[option(default = 5, range = 1..=4)]
///     x: u8,
/// }
/// ```
///
/// ```compile_fail,E0080
/// #[derive(gymkhana_sdk::PluginOptions)]
/// struct Options {
///     /// A choice
///     #[option(default = "c", choices = ["a", "b"])]
///     y: String,
/// }
/// ```
///
/// ```compile_fail,E0308
/// const DEFAULT: i64 = 5;
/// #[derive(gymkhana_sdk::PluginOptions)]
/// struct Options {
///     /// An option
///     #[option(default = DEFAULT)]
///     x: u8,
/// }
/// ```
///
/// ```compile_fail
/// #[derive(gymkhana_sdk::PluginOptions)]
/// struct Options {
///     #[option(default = 5)]
///     without_a_description: u8,
/// }
/// ```
#[cfg(doctest)]
struct Compiles;
