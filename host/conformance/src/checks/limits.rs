//! Limits of options: a shorter suite passes at every minimum, maximum and choice that the options declare.
//!
//! One option is set at a time, then all at their least and all at their greatest values. Options that the user sets
//! keep their values. Settings are tried side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::thread;

use futures::{StreamExt, stream};
use gymkhana_record::{FailureKind, NamedValue, Value};
use gymkhana_sandbox::{CallError, OptionInfo};
use tokio::task::JoinSet;

use super::Run;
use crate::checks::option_limits::values_at_limits;
use crate::finding::{Defect, Finding, Stop, passed};
use crate::fixture::Fixture;
use crate::settings::{Assignment, with};

const REFUSED: &str = "correct the limits in the option's description, or accept the value";

/// Values of options that are tried in one run.
#[derive(Debug, Clone, PartialEq)]
struct OptionSetting {
    options: Vec<NamedValue>,
    /// Whether it sets all options instead of one.
    together: bool,
}

impl std::fmt::Display for OptionSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, option) in self.options.iter().enumerate() {
            write!(f, "{}{}", if number > 0 { " " } else { "" }, Assignment(option))?;
        }
        Ok(())
    }
}

/// Result of one setting.
enum Tried {
    Sound,
    /// The plugin refuses the options.
    Refused(Defect),
    /// A check of the shorter suite failed.
    Failed(Defect),
}

/// Checks the plugin at the limits of its options with the checks of the shorter suite, each with its name.
pub(crate) async fn check(fixture: &Fixture, suite: &[(&'static str, Run)]) -> Finding {
    let options = shared(super::options::declared(fixture).await?);
    let is_free = |option: &&OptionInfo| fixture.options.iter().all(|given| given.name != option.name);
    let free: Vec<&OptionInfo> = options.iter().filter(is_free).collect();
    let (settings, count) = settings(&free, fixture.most_settings());
    if settings.is_empty() {
        return passed("no option has limits to try");
    }
    let refused_anyway: BTreeSet<&str> = refusals(fixture, &fixture.options).await?.into_keys().collect();
    let (mut failures, mut skipped) = (Vec::new(), Vec::new());
    let together = thread::available_parallelism().map_or(1, NonZero::get);
    let tries = settings.iter().map(|setting| try_setting(fixture, suite, setting, &refused_anyway));
    let mut tries = stream::iter(&settings).zip(stream::iter(tries).buffered(together));
    while let Some((setting, tried)) = tries.next().await {
        match tried? {
            Tried::Sound => {}
            Tried::Refused(_) if setting.together => skipped.push(setting.to_string()),
            Tried::Refused(defect) => failures.push((setting, defect.with_change(REFUSED))),
            Tried::Failed(defect) => failures.push((setting, defect)),
        }
    }
    let mut failures = failures.into_iter();
    if let Some((setting, defect)) = failures.next() {
        let others: Vec<String> = failures.map(|(setting, _)| format!("at {setting}")).collect();
        let defect = defect.within(format!("at {setting}"));
        let note = format!("it also fails {}", others.join(", "));
        return Err(Stop::Plugin(if others.is_empty() { defect } else { defect.with_note(note) }));
    }
    passed(summary(&free, settings.len(), count, &skipped))
}

/// Options that every kind of the plugin takes, because all kinds get the same options.
fn shared(kinds: Vec<Vec<OptionInfo>>) -> Vec<OptionInfo> {
    let mut kinds = kinds.into_iter();
    let mut options = kinds.next().unwrap_or_default();
    kinds.for_each(|other| options.retain(|option| other.contains(option)));
    options
}

/// Settings at the limits, at most `most`, and the number of all of them. The first limits of all options come before
/// the second ones.
fn settings(options: &[&OptionInfo], most: usize) -> (Vec<OptionSetting>, usize) {
    let named = |option: &OptionInfo, value: Value| NamedValue { name: option.name.clone(), value };
    let limits: Vec<(&OptionInfo, Vec<Value>)> =
        options.iter().map(|option| (*option, values_at_limits(option))).collect();
    let rounds = limits.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let at = |round: usize| limits.iter().filter_map(move |(option, values)| Some((*option, values.get(round)?)));
    let single = (0..rounds).flat_map(at).filter(|(option, value)| **value != option.default);
    let single: Vec<OptionSetting> = single
        .map(|(option, value)| OptionSetting { options: vec![named(option, value.clone())], together: false })
        .collect();
    let all = |pick: fn(&[Value]) -> Option<&Value>| {
        let picked = limits.iter().filter_map(|(option, values)| Some((*option, pick(values)?)));
        let changed = picked.filter(|(option, value)| **value != option.default);
        OptionSetting { options: changed.map(|(option, value)| named(option, value.clone())).collect(), together: true }
    };
    let together = [all(<[Value]>::first), all(<[Value]>::last)];
    let together: Vec<OptionSetting> = together.into_iter().filter(|setting| setting.options.len() > 1).collect();
    let count = single.len() + together.len();
    let kept = single.into_iter().take(most.saturating_sub(together.len()));
    (kept.chain(together).take(most).collect(), count)
}

/// Calls that refuse the options as invalid, with their defects.
async fn refusals(fixture: &Fixture, options: &[NamedValue]) -> Result<BTreeMap<&'static str, Defect>, Stop> {
    let mut refusals = BTreeMap::new();
    for (call, answer) in super::options::calls(fixture, options).await {
        match answer {
            Err(error) if error.kind.is_hosts() => return Err(Stop::Host(error)),
            Err(error) if error.is_invalid() => {
                refusals.insert(call, Defect::of_call(format!("`{call}` refuses it"), error));
            }
            _ => {}
        }
    }
    Ok(refusals)
}

/// Runs the shorter suite with one setting. Refusals of calls that are refused with any options do not count.
async fn try_setting(
    fixture: &Fixture,
    suite: &[(&'static str, Run)],
    setting: &OptionSetting,
    refused_anyway: &BTreeSet<&str>,
) -> Result<Tried, Stop> {
    let options = with(&fixture.options, &setting.options);
    let brief = match fixture.at(options.clone()).await {
        Ok(brief) => brief,
        Err(Stop::Plugin(defect)) if defect.is_refusal() => return Ok(Tried::Refused(defect)),
        Err(Stop::Plugin(defect)) => return Ok(Tried::Failed(defect)),
        Err(stop) => return Err(stop),
    };
    if let (Some(why), None) = (&brief.closed, &fixture.closed) {
        return Ok(Tried::Refused(Defect::new(format!("`open` refuses it: {why}"))));
    }
    let refused = refusals(&brief, &options).await?.into_iter().find(|(call, _)| !refused_anyway.contains(call));
    if let Some((_, defect)) = refused {
        return Ok(Tried::Refused(defect));
    }
    // In a task of its own, since calls of guests keep a thread busy.
    let suite = suite.to_vec();
    let mut running = JoinSet::new();
    running.spawn(async move { (run(&brief, &suite).await, brief.used()) });
    let lost = || Stop::Host(CallError::new(FailureKind::Fault, "the checks at the limits of an option were lost"));
    let (result, used) = running.join_next().await.and_then(Result::ok).ok_or_else(lost)?;
    used.into_iter().for_each(|used| fixture.use_up(used));
    result
}

async fn run(brief: &Fixture, suite: &[(&'static str, Run)]) -> Result<Tried, Stop> {
    for (name, run) in suite {
        match run(brief).await {
            Ok(_) => {}
            Err(Stop::Plugin(defect)) => return Ok(Tried::Failed(defect.within(name))),
            Err(stop) => return Err(stop),
        }
    }
    Ok(Tried::Sound)
}

fn summary(options: &[&OptionInfo], tried: usize, count: usize, skipped: &[String]) -> String {
    let (limited, others): (Vec<&OptionInfo>, Vec<&OptionInfo>) =
        options.iter().copied().partition(|option| !values_at_limits(option).is_empty());
    let of_all = if tried < count { format!(" of {count}") } else { String::new() };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (settings, were) = (plural(count), if count == 1 { "was" } else { "were" });
    let options = format!("{} option{}", limited.len(), plural(limited.len()));
    let mut parts = vec![format!("{tried}{of_all} setting{settings} of {options} {were} tried")];
    if !skipped.is_empty() {
        parts.push(format!("refused together: {}", skipped.join(" and ")));
    }
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|option| option.name.as_str()).collect();
        parts.push(format!("without limits: {}", names.join(", ")));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, description: &str, default: Value) -> OptionInfo {
        OptionInfo { name: name.to_owned(), description: description.to_owned(), default }
    }

    fn shown(options: &[OptionInfo], most: usize) -> (Vec<String>, usize) {
        let (settings, count) = settings(&options.iter().collect::<Vec<_>>(), most);
        (settings.iter().map(ToString::to_string).collect(), count)
    }

    #[test]
    fn settings_are_single_limits_and_all_together() {
        let options = [
            option("size", "Tiles (2 to 16)", Value::Integer(4)),
            option("map", "Map (one of random, 4x4, 8x8)", Value::Text("random".to_owned())),
            option("ice", "Ice", Value::Flag(false)),
            option("cost", "Points (at least 0)", Value::Number(0.5)),
            option("file", "Name", Value::Text("a.txt".to_owned())),
        ];
        let all = [
            "size=2",
            "cost=0.0",
            "size=16",
            "map=\"4x4\"",
            "ice=true",
            "map=\"8x8\"",
            "size=2 cost=0.0",
            "size=16 map=\"8x8\" ice=true cost=0.0",
        ];
        assert_eq!(shown(&options, 32), (all.map(str::to_owned).to_vec(), 8));
        let few = ["size=2", "size=2 cost=0.0", "size=16 map=\"8x8\" ice=true cost=0.0"];
        assert_eq!(shown(&options, 3), (few.map(str::to_owned).to_vec(), 8));
        assert_eq!(shown(&options, 0).0, Vec::<String>::new());
        assert_eq!(shown(&options[4..], 32), (vec![], 0));
        let borrowed: Vec<&OptionInfo> = options.iter().collect();
        assert_eq!(
            summary(&borrowed, 3, 8, &["size=2 cost=0.0".to_owned()]),
            "3 of 8 settings of 4 options were tried; refused together: size=2 cost=0.0; without limits: file"
        );
    }

    #[test]
    fn kinds_of_one_plugin_share_options() {
        let size = option("size", "Tiles (2 to 16)", Value::Integer(4));
        let other = option("ice", "Ice", Value::Flag(false));
        assert_eq!(shared(vec![vec![size.clone(), other], vec![size.clone()]]), [size]);
        assert_eq!(shared(vec![]), []);
    }
}
