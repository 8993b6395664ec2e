//! Wrong options: they are refused, because an ignored misspelling would silently change an experiment.

use gymkhana_record::{FailureKind, NamedValue, TaskRef, Value};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{CallError, EnvironmentEpisode, OptionInfo, ToolSession, score};

use crate::finding::{CheckPhase, Finding, Stop, passed, stop};
use crate::fixture::Fixture;
use crate::settings::{Assignment, with};

/// Name that no plugin uses for an option.
const UNKNOWN: &str = "no-such-option";

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let mut wrong = vec![NamedValue { name: UNKNOWN.to_owned(), value: Value::Integer(1) }];
    wrong.extend(declared(fixture).await?.concat().iter().map(mistyped));
    for option in &wrong {
        let options = with(&fixture.options, std::slice::from_ref(option));
        let shown = if option.name == UNKNOWN {
            format!("the unknown option `{UNKNOWN}`")
        } else {
            format!("the option {}", Assignment(option))
        };
        for (call, answer) in calls(fixture, &options).await {
            match answer {
                Ok(()) => {
                    let seen = format!("`{call}` took {shown}");
                    return Err(stop(
                        seen,
                        "refuse it with `Error::Invalid` and name the nearest known option or the type",
                    ));
                }
                Err(error) if error.kind == FailureKind::Refused => {}
                Err(error) if error.kind.is_hosts() => return Err(Stop::Host(error)),
                Err(error) => {
                    let seen = format!("`{call}` with {shown}: {}", error.message);
                    return Err(stop(seen, "refuse it with `Error::Invalid`"));
                }
            }
        }
    }
    passed(format!("wrong options that were refused: {}", wrong.len()))
}

/// Options of each kind of the plugin.
pub(super) async fn declared(fixture: &Fixture) -> Result<Vec<Vec<OptionInfo>>, Stop> {
    let mut options = Vec::new();
    if fixture.is(Kind::Environment) {
        options.push(fixture.plugin.environment_info().await.during("`describe` failed")?.options.clone());
    }
    if fixture.is(Kind::Tool) {
        options.push(fixture.plugin.tool_info().await.during("`describe` failed")?.options.clone());
    }
    if fixture.is(Kind::Reward) {
        options.push(fixture.plugin.reward_info().await.during("`describe` failed")?.options.clone());
    }
    Ok(options)
}

/// The option with a value of a wrong type.
fn mistyped(option: &OptionInfo) -> NamedValue {
    let value = match option.default {
        Value::Flag(_) => Value::Text("perhaps".to_owned()),
        Value::Integer(_) | Value::Number(_) => Value::Text("many".to_owned()),
        Value::Text(_) | Value::Bytes(_) | Value::Other(_) => Value::Flag(true),
    };
    NamedValue { name: option.name.clone(), value }
}

/// Results of every call that takes options.
pub(super) async fn calls(fixture: &Fixture, options: &[NamedValue]) -> Vec<(&'static str, Result<(), CallError>)> {
    let (plugin, seed) = (&fixture.plugin, fixture.seed("options"));
    let mut calls = Vec::new();
    if fixture.is(Kind::Environment) {
        calls.push(("splits", plugin.splits(options).await.map(drop)));
        let split = fixture.splits.first().map_or_else(|| "train".to_owned(), |split| split.name.clone());
        let task = TaskRef { split, index: 0 };
        calls.push(("start", EnvironmentEpisode::start(plugin, &task, options, seed).await.map(drop)));
    }
    if fixture.is(Kind::Tool) {
        calls.push(("functions", plugin.functions(options).await.map(drop)));
        if fixture.closed.is_none() {
            let setup = fixture.setups.first().and_then(Option::as_deref);
            calls.push(("open", ToolSession::open(plugin, setup, options, seed).await.map(drop)));
        }
    }
    if fixture.is(Kind::Reward) {
        calls.push(("score", score(plugin, &[], options, 0, seed).await.map(drop)));
    }
    calls
}
