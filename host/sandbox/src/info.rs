//! What plugins say of themselves, checked once so that results can be held against it.

use gymkhana_record::{Function, Value};

use crate::bindings::exports::gymkhana::plugin::{environment, reward, tool};
use crate::bindings::gymkhana::plugin::types;
use crate::convert;

/// The smallest and the largest number that may be returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Range {
    /// Whether a finite number lies inside. A sum of many rewards may miss an end by its rounding.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        let slack = 1e-9 * self.low.abs().max(self.high.abs()).max(1.0);
        number.is_finite() && number >= self.low - slack && number <= self.high + slack
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.low, self.high)
    }
}

/// An option that a run file may set.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionInfo {
    /// Its name.
    pub name: String,
    /// What it does, with its unit and its range.
    pub description: String,
    /// What holds when it is not set; also fixes the option's type.
    pub default: Value,
}

/// What an environment says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentInfo {
    /// One line for people.
    pub summary: String,
    /// The seats, in order; never empty.
    pub seats: Vec<String>,
    /// What a run file may set.
    pub options: Vec<OptionInfo>,
    /// The sum of one seat's rewards over an episode stays inside this range.
    pub rewards: Range,
}

/// One split of an environment's tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitInfo {
    /// Its name, such as `train`.
    pub name: String,
    /// How many tasks there are; none when they are generated without end.
    pub tasks: Option<u64>,
}

/// What a tool says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// One line for people.
    pub summary: String,
    /// What a run file may set.
    pub options: Vec<OptionInfo>,
}

/// One component of a reward's scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentInfo {
    /// Its name.
    pub name: String,
    /// What it measures, with its unit.
    pub description: String,
}

/// What a reward says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardInfo {
    /// One line for people.
    pub summary: String,
    /// The components that every score has, in this order.
    pub components: Vec<ComponentInfo>,
    /// Totals and turn rewards stay inside this range.
    pub range: Range,
    /// What a run file may set.
    pub options: Vec<OptionInfo>,
}

pub(crate) fn environment(info: environment::Info) -> Result<EnvironmentInfo, String> {
    if info.seats.is_empty() {
        return Err("it describes an environment without a seat".to_owned());
    }
    Ok(EnvironmentInfo {
        summary: info.summary,
        seats: info.seats,
        options: options(info.options)?,
        rewards: range(info.rewards)?,
    })
}

pub(crate) fn splits(splits: Vec<environment::SplitInfo>) -> Result<Vec<SplitInfo>, String> {
    if let Some(twice) = first_repeated(splits.iter().map(|split| split.name.as_str())) {
        return Err(format!("it has two splits named `{twice}`"));
    }
    Ok(splits.into_iter().map(|split| SplitInfo { name: split.name, tasks: split.tasks }).collect())
}

pub(crate) fn tool(info: tool::Info) -> Result<ToolInfo, String> {
    Ok(ToolInfo { summary: info.summary, options: options(info.options)? })
}

pub(crate) fn reward(info: reward::Info) -> Result<RewardInfo, String> {
    if let Some(twice) = first_repeated(info.components.iter().map(|component| component.name.as_str())) {
        return Err(format!("it describes two components named `{twice}`"));
    }
    let component =
        |component: reward::ComponentInfo| ComponentInfo { name: component.name, description: component.description };
    Ok(RewardInfo {
        summary: info.summary,
        components: info.components.into_iter().map(component).collect(),
        range: range(info.range)?,
        options: options(info.options)?,
    })
}

/// Functions that a policy can be shown: named as the contract says, once each, with a schema that is an object.
pub(crate) fn functions(functions: Vec<types::Function>) -> Result<Vec<Function>, String> {
    if let Some(twice) = first_repeated(functions.iter().map(|function| function.name.as_str())) {
        return Err(format!("it offers two functions named `{twice}`"));
    }
    functions.into_iter().map(function).collect()
}

fn function(function: types::Function) -> Result<Function, String> {
    let types::Function { name, description, parameters, cost } = function;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_name {
        return Err(format!("a function is named `{name}`; names are of letters, digits, `_` and `-`"));
    }
    if !matches!(serde_json::from_str(&parameters), Ok(serde_json::Value::Object(_))) {
        return Err(format!("the parameters of the function `{name}` are not the JSON text of an object"));
    }
    if !(cost.is_finite() && cost >= 0.0) {
        return Err(format!("the cost of the function `{name}` is {cost}; it must be a number from 0"));
    }
    Ok(Function { name, description, parameters, cost })
}

fn options(options: Vec<types::OptionInfo>) -> Result<Vec<OptionInfo>, String> {
    if let Some(twice) = first_repeated(options.iter().map(|option| option.name.as_str())) {
        return Err(format!("it describes two options named `{twice}`"));
    }
    let option = |option: types::OptionInfo| {
        let default = convert::value(option.default)
            .ok_or_else(|| format!("the default of `{}` is NaN or infinite", option.name))?;
        Ok(OptionInfo { name: option.name, description: option.description, default })
    };
    options.into_iter().map(option).collect()
}

fn range(range: types::Range) -> Result<Range, String> {
    let types::Range { low, high } = range;
    if low.is_finite() && high.is_finite() && low <= high {
        Ok(Range { low, high })
    } else {
        Err(format!("it describes the range {low} to {high}; both ends must be finite and in order"))
    }
}

fn first_repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_held_to_the_contract() {
        let offer = |name: &str, parameters: &str, cost: f64| types::Function {
            name: name.to_owned(),
            description: String::new(),
            parameters: parameters.to_owned(),
            cost,
        };
        assert!(functions(vec![offer("a-1_B", "{\"type\": \"object\"}", 0.5)]).is_ok());
        for wrong in [offer("", "{}", 0.0), offer("a b", "{}", 0.0), offer("a", "[]", 0.0), offer("a", "{", 0.0)] {
            assert!(functions(vec![wrong.clone()]).is_err(), "{wrong:?}");
        }
        for cost in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(functions(vec![offer("a", "{}", cost)]).is_err(), "{cost}");
        }
        assert!(functions(vec![offer("a", "{}", 0.0), offer("a", "{}", 0.0)]).is_err());
    }

    #[test]
    fn ranges_take_rounding_and_nothing_else() {
        let range = Range { low: 0.0, high: 1.0 };
        let tenths: f64 = std::iter::repeat_n(0.1, 10).sum();
        assert!(range.contains(tenths + f64::EPSILON) && range.contains(0.0));
        for outside in [1.001, -0.001, f64::NAN, f64::INFINITY] {
            assert!(!range.contains(outside), "{outside}");
        }
    }
}
