//! Descriptions: users choose plugins and options by them.

use gymkhana_registry::Kind;
use gymkhana_sandbox::OptionInfo;

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
        told.push(format!("seats {}, rewards {}", info.seats.join(", "), info.rewards));
        told.push(format!("{} options", info.options.len()));
    }
    if fixture.is(Kind::Tool) {
        let info = fixture.plugin.tool_info().await.during("`describe` of the tool failed")?;
        words("the tool", &info.summary)?;
        options(&info.options)?;
        told.push(format!("{} options", info.options.len()));
    }
    if fixture.is(Kind::Reward) {
        let info = fixture.plugin.reward_info().await.during("`describe` of the reward failed")?;
        words("the reward", &info.summary)?;
        options(&info.options)?;
        for component in &info.components {
            words(&format!("the component `{}`", component.name), &component.description)?;
        }
        told.push(format!("{} components, range {}", info.components.len(), info.range));
        told.push(format!("{} options", info.options.len()));
    }
    passed(told.join(", "))
}

fn options(options: &[OptionInfo]) -> Result<(), Stop> {
    options.iter().try_for_each(|option| words(&format!("the option `{}`", option.name), &option.description))
}

fn words(what: &str, text: &str) -> Result<(), Stop> {
    if text.trim().is_empty() {
        return Err(stop(format!("{what} has no description"), "describe it in one line, with its unit and range"));
    }
    Ok(())
}
