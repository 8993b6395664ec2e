//! Descriptions that plugins return about themselves, validated once; results are checked against them.

use gymkhana_record::{Function, Value};

use crate::bindings::exports::gymkhana::plugin::{environment, reward, tool};
use crate::bindings::gymkhana::plugin::types;
use crate::convert;

/// Maximum number of seats of an environment.
const MAX_SEATS: usize = 64;

/// Maximum number of functions that a tool offers, or an environment offers to one seat.
const MAX_FUNCTIONS: usize = 256;

/// Maximum number of options of a plugin, and of components of a reward.
const MAX_ENTRIES: usize = 256;

/// Maximum number of splits of an environment.
const MAX_SPLITS: usize = 1_024;

/// Size limit of a description's texts together, in bytes: a policy reads them, and every record repeats functions.
const MAX_DESCRIPTION_BYTES: usize = 1 << 20;

/// Largest absolute value of a reward. Gradients have 32 bits, and sums and squares of rewards must stay finite in them.
const MAX_REWARD: f64 = 1e6;

/// Closed range of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Range {
    /// Returns whether a step's reward, or the sum of the steps so far, can be part of an episode whose sum is inside: its
    /// absolute value is at most the distance between any two of `low`, `high` and 0.
    pub(crate) fn allows_part(&self, number: f64) -> bool {
        let widest = self.low.abs().max(self.high.abs()).max(self.high - self.low);
        number.is_finite() && number.abs() <= widest + 1e-9 * widest.max(1.0)
    }

    /// Returns whether a finite number is inside, with a tolerance of 1e-9 for the rounding of sums.
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

/// Option that a run file may set.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionInfo {
    /// Name.
    pub name: String,
    /// Effect, unit and range.
    pub description: String,
    /// Default value, which also determines the type.
    pub default: Value,
}

/// Description of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentInfo {
    /// Summary in one line.
    pub summary: String,
    /// Seats, in order; not empty.
    pub seats: Vec<String>,
    /// Options.
    pub options: Vec<OptionInfo>,
    /// Range of a seat's reward sum over an episode.
    pub rewards: Range,
}

/// Split of an environment's tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitInfo {
    /// Name, such as `train`.
    pub name: String,
    /// Number of tasks; `None` if they are generated without end.
    pub tasks: Option<u64>,
}

/// Description of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Summary in one line.
    pub summary: String,
    /// Options.
    pub options: Vec<OptionInfo>,
}

/// Component of a reward's scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentInfo {
    /// Name.
    pub name: String,
    /// Measured quantity, with its unit.
    pub description: String,
}

/// Description of a reward.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardInfo {
    /// Summary in one line.
    pub summary: String,
    /// Components of every score, in this order.
    pub components: Vec<ComponentInfo>,
    /// Range of totals and turn rewards.
    pub range: Range,
    /// Options.
    pub options: Vec<OptionInfo>,
}

pub(crate) fn environment(info: environment::Info) -> Result<EnvironmentInfo, String> {
    if info.seats.is_empty() {
        return Err("it describes an environment without a seat".to_owned());
    }
    at_most("seats", info.seats.len(), MAX_SEATS)?;
    check_text(info.seats.iter().map(String::len).sum::<usize>() + info.summary.len())?;
    Ok(EnvironmentInfo {
        summary: info.summary,
        seats: info.seats,
        options: options(info.options)?,
        rewards: range(info.reward_range)?,
    })
}

pub(crate) fn splits(splits: Vec<environment::SplitInfo>) -> Result<Vec<SplitInfo>, String> {
    at_most("splits", splits.len(), MAX_SPLITS)?;
    check_text(splits.iter().map(|split| split.name.len()).sum())?;
    if let Some(twice) = first_repeated(splits.iter().map(|split| split.name.as_str())) {
        return Err(format!("it has two splits named `{twice}`"));
    }
    Ok(splits.into_iter().map(|split| SplitInfo { name: split.name, tasks: split.tasks }).collect())
}

pub(crate) fn tool(info: tool::Info) -> Result<ToolInfo, String> {
    check_text(info.summary.len())?;
    Ok(ToolInfo { summary: info.summary, options: options(info.options)? })
}

pub(crate) fn reward(info: reward::Info) -> Result<RewardInfo, String> {
    at_most("components", info.components.len(), MAX_ENTRIES)?;
    let texts = info.components.iter().map(|component| component.name.len() + component.description.len());
    check_text(texts.sum::<usize>() + info.summary.len())?;
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

/// Validates functions: unique names of the contract's form, and a schema that is a JSON object.
pub(crate) fn functions(functions: Vec<types::Function>) -> Result<Vec<Function>, String> {
    at_most("functions", functions.len(), MAX_FUNCTIONS)?;
    let texts = functions.iter().map(|one| one.name.len() + one.description.len() + one.parameters.len());
    check_text(texts.sum())?;
    if let Some(twice) = first_repeated(functions.iter().map(|function| function.name.as_str())) {
        return Err(format!("it offers two functions named `{twice}`"));
    }
    functions.into_iter().map(function).collect()
}

fn function(function: types::Function) -> Result<Function, String> {
    let types::Function { name, description, parameters, cost } = function;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_name {
        return Err(format!("a function is named `{name}`; names consist of letters, digits, `_` and `-`"));
    }
    if !matches!(serde_json::from_str(&parameters), Ok(serde_json::Value::Object(_))) {
        return Err(format!("the parameters of the function `{name}` are not the JSON text of an object"));
    }
    if !(cost.is_finite() && cost >= 0.0) {
        return Err(format!("the cost of the function `{name}` is {cost}; it must be finite and at least 0"));
    }
    Ok(Function { name, description, parameters, cost })
}

fn options(options: Vec<types::OptionInfo>) -> Result<Vec<OptionInfo>, String> {
    at_most("options", options.len(), MAX_ENTRIES)?;
    check_text(options.iter().map(|option| option.name.len() + option.description.len()).sum())?;
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
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return Err(format!("it describes the range {low} to {high}; both ends must be finite and in order"));
    }
    if low < -MAX_REWARD || high > MAX_REWARD {
        return Err(format!("it describes the range {low} to {high}; both ends must be within {MAX_REWARD} of 0"));
    }
    Ok(Range { low, high })
}

/// Refuses more entries of a kind than the limit.
fn at_most(what: &str, found: usize, limit: usize) -> Result<(), String> {
    if found <= limit { Ok(()) } else { Err(format!("it describes {found} {what}; the limit is {limit}")) }
}

/// Refuses texts that are too large together.
fn check_text(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_DESCRIPTION_BYTES {
        return Ok(());
    }
    Err(format!("its description has {bytes} bytes of text; the limit is {MAX_DESCRIPTION_BYTES}"))
}

fn first_repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_checked_against_the_contract() {
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
    fn descriptions_are_bounded() {
        let info = |seats: usize, summary: usize| environment::Info {
            summary: "s".repeat(summary),
            seats: vec![String::new(); seats],
            options: vec![],
            reward_range: types::Range { low: 0.0, high: 1.0 },
        };
        assert!(environment(info(64, 1 << 20)).is_ok());
        for (wrong, limit) in [(info(65, 0), "65 seats; the limit is 64"), (info(1, (1 << 20) + 1), "1048577 bytes")] {
            let refused = environment(wrong).expect_err(limit);
            assert!(refused.contains(limit), "{refused}");
        }
        let offer = |index: usize| types::Function {
            name: format!("f{index}"),
            description: String::new(),
            parameters: "{}".to_owned(),
            cost: 0.0,
        };
        assert!(functions((0..256).map(offer).collect()).is_ok());
        let refused = functions((0..257).map(offer).collect()).expect_err("one more");
        assert!(refused.contains("257 functions; the limit is 256"), "{refused}");
        let long = types::Function { description: "d".repeat(1 << 20), ..offer(0) };
        assert!(functions(vec![long]).is_err());
        let named = |index: usize| environment::SplitInfo { name: format!("s{index}"), tasks: None };
        assert!(splits((0..1024).map(named).collect()).is_ok());
        assert!(splits((0..1025).map(named).collect()).is_err());
    }

    #[test]
    fn ranges_are_of_a_size_that_training_can_use() {
        assert!(range(types::Range { low: -1e6, high: 1e6 }).is_ok());
        for (low, high) in [(-1.1e6, 0.0), (0.0, 1e300), (1.0, 0.0), (f64::NAN, 1.0)] {
            assert!(range(types::Range { low, high }).is_err(), "{low} {high}");
        }
    }

    /// With the range 0 to 1 an episode may lose up to 1 before it gains it; with 2 to 3, one step may earn all 3.
    #[test]
    fn parts_are_at_most_as_large_as_the_range() {
        for (low, high, widest) in [(0.0, 1.0, 1.0), (2.0, 3.0, 3.0), (-1.0, 1.0, 2.0), (0.0, 0.0, 0.0)] {
            let range = Range { low, high };
            for sign in [-1.0, 1.0] {
                assert!(range.allows_part(sign * widest), "{range}");
                assert!(!range.allows_part(sign * (widest + 1e-3)), "{range}");
            }
        }
        let unit = Range { low: 0.0, high: 1.0 };
        assert!([1e300, f64::NAN, f64::INFINITY].iter().all(|number| !unit.allows_part(*number)));
    }

    #[test]
    fn ranges_tolerate_rounding_only() {
        let range = Range { low: 0.0, high: 1.0 };
        let tenths: f64 = std::iter::repeat_n(0.1, 10).sum();
        assert!(range.contains(tenths + f64::EPSILON) && range.contains(0.0));
        for outside in [1.001, -0.001, f64::NAN, f64::INFINITY] {
            assert!(!range.contains(outside), "{outside}");
        }
    }
}
