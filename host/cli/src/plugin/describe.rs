//! Self-description of a plugin: what it answers about itself in the sandbox, for people and as JSON.
//!
//! Splits, functions and privileged fields depend on options; they are those of the default options. The contract declares
//! neither the facts of an episode's end nor the privileged fields that a reward reads, so both are absent.

use std::fmt::Display;

use gymkhana_record::{Function, Seed, TaskRef, Value};
use gymkhana_registry::Kind;
use gymkhana_sandbox::{
    CallError, ComponentInfo, EnvironmentEpisode, OptionInfo, OptionalInterface, Plugin, Range, SplitInfo,
};
use serde::Serialize;
use serde_json::json;

use crate::escape::escape_line;

/// Rows of a plugin's page: a name and its lines.
pub type Rows = Vec<(&'static str, Vec<String>)>;

/// What a plugin says about each kind that it implements.
#[derive(Debug, Default, Serialize)]
pub struct SelfDescription {
    /// The environment, if it is one.
    environment: Option<EnvironmentDescription>,
    /// The tool, if it is one.
    tool: Option<ToolDescription>,
    /// The reward, if it is one.
    reward: Option<RewardDescription>,
}

#[derive(Debug, Serialize)]
struct EnvironmentDescription {
    summary: String,
    seats: Vec<String>,
    /// Range of a seat's reward sum over an episode.
    rewards: [f64; 2],
    options: Vec<OptionDescription>,
    splits: Answered<Vec<SplitDescription>>,
    /// What the first task offers, which later tasks may change.
    first_task: Answered<FirstTask>,
    offers: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct ToolDescription {
    summary: String,
    options: Vec<OptionDescription>,
    functions: Answered<Vec<FunctionDescription>>,
    offers: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct RewardDescription {
    summary: String,
    /// Range of totals and of turn rewards.
    range: [f64; 2],
    components: Vec<ComponentDescription>,
    options: Vec<OptionDescription>,
}

#[derive(Debug, Serialize)]
struct OptionDescription {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    default: serde_json::Value,
    /// Effect, unit and limits, in the author's words.
    description: String,
}

#[derive(Debug, Serialize)]
struct SplitDescription {
    name: String,
    /// `None` if the tasks are generated without end.
    tasks: Option<u64>,
}

#[derive(Debug, Serialize)]
struct ComponentDescription {
    name: String,
    description: String,
}

#[derive(Debug, Serialize)]
struct FirstTask {
    task: String,
    functions: Vec<FunctionDescription>,
    /// Names of privileged fields; values stay hidden.
    privileged: Vec<String>,
}

#[derive(Debug, Serialize)]
struct FunctionDescription {
    /// Seat of an environment that may call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seat: Option<u32>,
    name: String,
    description: String,
    parameters: serde_json::Value,
    cost: f64,
}

/// An answer, or the reason why the plugin gave none, such as a missing option or asset.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answered<T> {
    Given(T),
    Failed { error: String },
}

impl<T> From<Result<T, CallError>> for Answered<T> {
    fn from(answer: Result<T, CallError>) -> Self {
        answer.map_or_else(|error| Self::Failed { error: error.message }, Self::Given)
    }
}

impl<T> Answered<T> {
    /// Lines of an answer, or one line with the reason.
    fn lines(&self, lines: impl FnOnce(&T) -> Vec<String>) -> Vec<String> {
        match self {
            Self::Given(answer) => lines(answer),
            Self::Failed { error } => vec![format!("not known with default options: {}", escape_line(error))],
        }
    }
}

impl SelfDescription {
    /// Asks a plugin about itself.
    ///
    /// # Errors
    /// If the plugin cannot describe itself.
    pub async fn of(plugin: &Plugin) -> Result<Self, CallError> {
        let mut all = Self::default();
        for kind in &plugin.manifest().kinds {
            match kind {
                Kind::Environment => all.environment = Some(EnvironmentDescription::of(plugin).await?),
                Kind::Tool => all.tool = Some(ToolDescription::of(plugin).await?),
                Kind::Reward => all.reward = Some(RewardDescription::of(plugin).await?),
            }
        }
        Ok(all)
    }

    /// Rows for people. Texts of the plugin stay within their line.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        if let Some(environment) = &self.environment {
            rows.extend(environment.rows());
        }
        if let Some(tool) = &self.tool {
            rows.push(("summary", vec![escape_line(&tool.summary)]));
            rows.push(("options", option_lines(&tool.options)));
            rows.push(("functions", tool.functions.lines(|functions| function_lines(functions))));
            rows.push(("offers", offer_lines(&tool.offers)));
        }
        if let Some(reward) = &self.reward {
            let component = |one: &ComponentDescription| format!("{}: {}", one.name, one.description);
            rows.push(("summary", vec![escape_line(&reward.summary)]));
            rows.push(("range", vec![range_line(reward.range)]));
            rows.push(("components", or_none(reward.components.iter().map(component))));
            rows.push(("options", option_lines(&reward.options)));
            rows.push(("privileged", vec!["fields that it reads are not declared; see its source".to_owned()]));
        }
        rows
    }
}

impl EnvironmentDescription {
    async fn of(plugin: &Plugin) -> Result<Self, CallError> {
        let info = plugin.environment_info().await?;
        let splits = plugin.splits(&[]).await;
        let first_task = match &splits {
            Ok(splits) => first_task(plugin, splits).await,
            Err(error) => Err(error.clone()),
        };
        let split = |split: SplitInfo| SplitDescription { name: split.name, tasks: split.tasks };
        Ok(Self {
            summary: info.summary.clone(),
            seats: info.seats.clone(),
            rewards: ends(info.rewards),
            options: info.options.iter().map(OptionDescription::of).collect(),
            splits: splits.map(|splits| splits.into_iter().map(split).collect()).into(),
            first_task: first_task.into(),
            offers: offered(
                plugin,
                &[
                    (OptionalInterface::Oracle, "oracle"),
                    (OptionalInterface::Snapshot, "snapshots"),
                    (OptionalInterface::StateKey, "state key"),
                    (OptionalInterface::Privileged, "privileged fields"),
                    (OptionalInterface::Guidance, "guidance"),
                    (OptionalInterface::Render, "rendering"),
                ],
            ),
        })
    }

    fn rows(&self) -> Rows {
        let split = |split: &SplitDescription| match split.tasks {
            Some(tasks) => format!("{}: {tasks} tasks", split.name),
            None => format!("{}: endless", split.name),
        };
        let privileged = |first: &FirstTask| or_none(first.privileged.iter());
        let undeclared = "names for `success` are not declared; `host plugin play` shows them when an episode ends";
        vec![
            ("summary", vec![escape_line(&self.summary)]),
            ("seats", or_none(self.seats.iter())),
            ("rewards", vec![format!("{} per seat and episode", range_line(self.rewards))]),
            ("options", option_lines(&self.options)),
            ("splits", self.splits.lines(|splits| or_none(splits.iter().map(split)))),
            ("functions", self.first_task.lines(|first| function_lines(&first.functions))),
            ("privileged", self.first_task.lines(privileged)),
            ("facts", vec![undeclared.to_owned()]),
            ("offers", offer_lines(&self.offers)),
        ]
    }
}

impl ToolDescription {
    async fn of(plugin: &Plugin) -> Result<Self, CallError> {
        let info = plugin.tool_info().await?;
        let functions = plugin.functions(&[]).await;
        let describe = |functions: Vec<Function>| {
            functions.into_iter().map(|function| FunctionDescription::of(None, function)).collect()
        };
        Ok(Self {
            summary: info.summary.clone(),
            options: info.options.iter().map(OptionDescription::of).collect(),
            functions: functions.map(describe).into(),
            offers: offered(
                plugin,
                &[(OptionalInterface::ToolSnapshot, "snapshots"), (OptionalInterface::FinalView, "final view")],
            ),
        })
    }
}

impl RewardDescription {
    async fn of(plugin: &Plugin) -> Result<Self, CallError> {
        let info = plugin.reward_info().await?;
        let component = |component: &ComponentInfo| ComponentDescription {
            name: component.name.clone(),
            description: component.description.clone(),
        };
        Ok(Self {
            summary: info.summary.clone(),
            range: ends(info.range),
            components: info.components.iter().map(component).collect(),
            options: info.options.iter().map(OptionDescription::of).collect(),
        })
    }
}

impl OptionDescription {
    fn of(option: &OptionInfo) -> Self {
        let (kind, default) = match &option.default {
            Value::Flag(flag) => ("flag", json!(flag)),
            Value::Integer(integer) => ("integer", json!(integer)),
            Value::Number(number) => ("number", json!(number)),
            Value::Text(text) => ("text", json!(text)),
            Value::Bytes(bytes) => ("bytes", json!(bytes)),
            Value::Other(text) => ("json", serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
        };
        Self { name: option.name.clone(), kind, default, description: option.description.clone() }
    }
}

impl FunctionDescription {
    fn of(seat: Option<u32>, function: Function) -> Self {
        let Function { name, description, parameters, cost } = function;
        // The sandbox has checked that it is the JSON text of an object.
        let parameters = serde_json::from_str(&parameters).unwrap_or_default();
        Self { seat, name, description, parameters, cost }
    }
}

/// Starts the first task and asks for its functions and privileged fields.
async fn first_task(plugin: &Plugin, splits: &[SplitInfo]) -> Result<FirstTask, CallError> {
    let Some(split) = splits.iter().find(|split| split.tasks != Some(0)) else {
        return Ok(FirstTask { task: "none".to_owned(), functions: vec![], privileged: vec![] });
    };
    let task = TaskRef { split: split.name.clone(), index: 0 };
    let (mut episode, started) = EnvironmentEpisode::start(plugin, &task, &[], Seed(0)).await?;
    let privileged = if plugin.offers(OptionalInterface::Privileged) { episode.privileged().await? } else { vec![] };
    episode.close().await?;
    let of_seat = |seat: u32, functions: Vec<Function>| {
        functions.into_iter().map(move |function| FunctionDescription::of(Some(seat), function))
    };
    let offered = started.opening.functions;
    Ok(FirstTask {
        task: task.to_string(),
        functions: offered.into_iter().flat_map(|offered| of_seat(offered.seat, offered.functions)).collect(),
        privileged: privileged.into_iter().map(|field| field.name).collect(),
    })
}

/// Names of the optional interfaces that a plugin has.
fn offered(plugin: &Plugin, all: &[(OptionalInterface, &'static str)]) -> Vec<&'static str> {
    all.iter().filter(|(interface, _)| plugin.offers(*interface)).map(|(_, name)| *name).collect()
}

fn ends(range: Range) -> [f64; 2] {
    [range.low, range.high]
}

fn range_line([low, high]: [f64; 2]) -> String {
    format!("{low} to {high}")
}

fn option_lines(options: &[OptionDescription]) -> Vec<String> {
    let line = |option: &OptionDescription| {
        format!("{} = {} ({}): {}", option.name, option.default, option.kind, option.description)
    };
    or_none(options.iter().map(line))
}

fn function_lines(functions: &[FunctionDescription]) -> Vec<String> {
    let line = |function: &FunctionDescription| {
        let FunctionDescription { seat, name, description, parameters, .. } = function;
        let seat = seat.map(|seat| format!("seat {seat}, ")).unwrap_or_default();
        format!("{seat}{name}: {description} {parameters}")
    };
    or_none(functions.iter().map(line))
}

fn offer_lines(offers: &[&'static str]) -> Vec<String> {
    if offers.is_empty() { vec!["none".to_owned()] } else { vec![offers.join(", ")] }
}

/// One escaped line for each item, or `none`.
fn or_none(items: impl Iterator<Item = impl Display>) -> Vec<String> {
    let lines: Vec<String> = items.map(|item| escape_line(&item.to_string())).collect();
    if lines.is_empty() { vec!["none".to_owned()] } else { lines }
}
