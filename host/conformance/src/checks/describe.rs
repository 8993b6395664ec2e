//! Descriptions: users choose plugins and options by them, and agents choose functions.

use gymkhana_record::Function;
use gymkhana_registry::Kind;
use gymkhana_sandbox::{CallError, OptionInfo};
use serde_json::Value;

use crate::checks::option_limits;
use crate::driver::{Driver, Start};
use crate::finding::{CheckPhase, Finding, Stop, passed, stop};
use crate::fixture::Fixture;

pub(crate) async fn check(fixture: &Fixture) -> Finding {
    let mut told = Vec::new();
    if fixture.is(Kind::Environment) {
        let info = fixture.plugin.environment_info().await.during("`describe` of the environment failed")?;
        words("the environment", &info.summary)?;
        options(&info.options)?;
        if let Some(seat) = info.seats.iter().position(|seat| seat.trim().is_empty()) {
            return Err(stop(format!("seat {seat} has no name"), "name it in `describe`, such as `agent`"));
        }
        if fixture.splits.iter().any(|split| split.name.trim().is_empty()) {
            return Err(stop("a split has no name", "name it in `splits`, such as `train`"));
        }
        told.push(format!("seats {}, rewards {}", info.seats.join(", "), info.rewards));
        told.push(format!("options: {}", info.options.len()));
    }
    if fixture.is(Kind::Tool) {
        let info = fixture.plugin.tool_info().await.during("`describe` of the tool failed")?;
        words("the tool", &info.summary)?;
        options(&info.options)?;
        told.push(format!("options: {}", info.options.len()));
    }
    if fixture.is(Kind::Reward) {
        let info = fixture.plugin.reward_info().await.during("`describe` of the reward failed")?;
        words("the reward", &info.summary)?;
        options(&info.options)?;
        for component in &info.components {
            words(&format!("the component `{}`", component.name), &component.description)?;
        }
        told.push(format!("components: {}, range {}", info.components.len(), info.range));
        told.push(format!("options: {}", info.options.len()));
    }
    offered(fixture).await?.iter().try_for_each(function)?;
    passed(told.join(", "))
}

/// Functions of the tool and of the environment's tasks.
async fn offered(fixture: &Fixture) -> Result<Vec<Function>, Stop> {
    let mut functions = Vec::new();
    if fixture.is(Kind::Tool) {
        functions.extend(if_answered(fixture.plugin.functions(&fixture.options).await)?.unwrap_or_default());
    }
    let episodes = fixture.starts().into_iter().filter(|start| matches!(start, Start::Episode(_)));
    for start in episodes {
        let begun = Driver::begin(&fixture.plugin, &start, &fixture.options, fixture.seed("describe")).await;
        if let Some((driver, _)) = if_answered(begun)? {
            functions.extend_from_slice(driver.functions());
        }
    }
    Ok(functions)
}

/// The result of a call; `None` for a failure of the plugin, which other checks report.
fn if_answered<T>(result: Result<T, CallError>) -> Result<Option<T>, Stop> {
    match result {
        Err(error) if error.kind.is_hosts() => Err(Stop::Host(error)),
        result => Ok(result.ok()),
    }
}

fn options(options: &[OptionInfo]) -> Result<(), Stop> {
    let of = |option: &OptionInfo| {
        words(&format!("the option `{}`", option.name), option_limits::words(&option.description))
    };
    options.iter().try_for_each(of)
}

/// Checks the description of a function, and those of its parameters that have one.
fn function(function: &Function) -> Result<(), Stop> {
    let name = &function.name;
    words(&format!("the function `{name}`"), &function.description)?;
    let schema: Option<Value> = serde_json::from_str(&function.parameters).ok();
    let properties = schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (parameter, schema) in properties.into_iter().flatten() {
        if let Some(description) = schema.get("description").and_then(Value::as_str) {
            words(&format!("the parameter `{parameter}` of `{name}`"), description)?;
        }
    }
    Ok(())
}

fn words(what: &str, text: &str) -> Result<(), Stop> {
    if text.trim().is_empty() {
        return Err(stop(format!("{what} has no description"), "describe it in one line, with its unit and range"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(result: Result<(), Stop>) -> String {
        match result {
            Err(Stop::Plugin(defect)) => defect.seen().to_owned(),
            other => panic!("not a defect: {other:?}"),
        }
    }

    #[test]
    fn every_description_has_words() {
        let option = |description: &str| OptionInfo {
            name: "size".to_owned(),
            description: description.to_owned(),
            default: gymkhana_record::Value::Integer(4),
        };
        assert!(options(&[option("Side length (2 to 16)")]).is_ok());
        assert_eq!(seen(options(&[option(" (2 to 16)")])), "the option `size` has no description");
        let add = |description: &str, parameters: &str| Function {
            name: "add".to_owned(),
            description: description.to_owned(),
            parameters: parameters.to_owned(),
            cost: 0.0,
        };
        let blank = r#"{"type": "object", "properties": {"number": {"type": "integer", "description": " "}}}"#;
        assert_eq!(seen(function(&add(" ", "{}"))), "the function `add` has no description");
        assert_eq!(seen(function(&add("Adds.", blank))), "the parameter `number` of `add` has no description");
        assert!(function(&add("Adds.", &blank.replace("\" \"", "\"which\""))).is_ok());
    }
}
