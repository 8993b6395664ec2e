//! Self-description of a plugin: asks it for everything that it says about itself.
//!
//! Splits, functions, facts and privileged fields depend on options.

mod trial;

use gymkhana_record::{Function, NamedValue, Seed, TaskRef, Value};
use gymkhana_registry::{
    Answered, ComponentDescription, Digest, EnvironmentDescription, FirstTask, FunctionDescription, Kind, Manifest,
    ManifestError, OptionDescription, RewardDescription, SelfDescription, SplitDescription, ToolDescription, exports,
    imports, read_manifest,
};
use serde::Serialize;
use serde_json::json;

use crate::{CallError, ComponentInfo, EnvironmentEpisode, OptionInfo, OptionalInterface, Plugin, Range, SplitInfo};

/// Everything known about a component. Its JSON is that of `host plugin inspect --json`.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// Manifest.
    pub manifest: Manifest,
    /// SHA-256 digest of the component.
    pub digest: Digest,
    /// Size in bytes.
    pub bytes: usize,
    /// Interfaces that it exports, sorted.
    pub exports: Vec<String>,
    /// Interfaces that it imports, sorted.
    pub imports: Vec<String>,
    /// Whether it was built for this host's contract.
    pub runs_here: bool,
    /// Self-description, if it can be opened.
    pub description: Option<SelfDescription>,
    /// The reason why it cannot.
    pub description_error: Option<String>,
}

impl Inspection {
    /// Reads a component and joins it with its self-description, or the reason why there is none.
    ///
    /// # Errors
    /// If the bytes are not a plugin.
    pub fn new(component: &[u8], described: Result<SelfDescription, String>) -> Result<Self, ManifestError> {
        let manifest = read_manifest(component)?;
        // The order is an artefact of the build.
        let (mut exports, mut imports) = (exports(component)?, imports(component)?);
        exports.sort();
        imports.sort();
        let runs_here = manifest.check_contract().is_ok();
        let (digest, bytes) = (Digest::of(component), component.len());
        let (description, description_error) = match described {
            Ok(description) => (Some(description), None),
            Err(reason) => (None, Some(reason)),
        };
        Ok(Self { manifest, digest, bytes, exports, imports, runs_here, description, description_error })
    }
}

/// Asks a plugin about itself under these options, which may be empty.
///
/// # Errors
/// If the plugin cannot describe itself.
pub async fn describe(plugin: &Plugin, options: &[NamedValue]) -> Result<SelfDescription, CallError> {
    let mut all = SelfDescription::default();
    for kind in &plugin.manifest().kinds {
        match kind {
            Kind::Environment => all.environment = Some(environment(plugin, options).await?),
            Kind::Tool => all.tool = Some(tool(plugin, options).await?),
            Kind::Reward => all.reward = Some(reward(plugin, options).await?),
        }
    }
    Ok(all)
}

async fn environment(plugin: &Plugin, options: &[NamedValue]) -> Result<EnvironmentDescription, CallError> {
    let info = plugin.environment_info().await?;
    let splits = plugin.splits(options).await;
    let task = splits.as_ref().ok().and_then(|splits| first_task(splits));
    let offer = match &splits {
        Ok(_) => first_offer(plugin, options, task.as_ref()).await,
        Err(error) => Err(error.clone()),
    };
    let trial::Trial { facts, example } = match &splits {
        Ok(_) => trial::trial(plugin, options, task.as_ref()).await,
        Err(error) => trial::Trial { facts: Err(error.message.clone()), example: vec![] },
    };
    let split = |split: SplitInfo| SplitDescription { name: split.name, tasks: split.tasks };
    Ok(EnvironmentDescription {
        summary: info.summary.clone(),
        seats: info.seats.clone(),
        rewards: ends(info.rewards),
        options: info.options.iter().map(option).collect(),
        splits: answered(splits.map(|splits| splits.into_iter().map(split).collect())),
        first_task: answered(offer),
        facts: facts.into(),
        example,
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

async fn tool(plugin: &Plugin, options: &[NamedValue]) -> Result<ToolDescription, CallError> {
    let info = plugin.tool_info().await?;
    let functions = plugin.functions(options).await;
    let describe =
        |functions: Vec<Function>| functions.into_iter().map(|described| function(None, described)).collect();
    Ok(ToolDescription {
        summary: info.summary.clone(),
        options: info.options.iter().map(option).collect(),
        functions: answered(functions.map(describe)),
        offers: offered(
            plugin,
            &[(OptionalInterface::ToolSnapshot, "snapshots"), (OptionalInterface::FinalView, "final view")],
        ),
    })
}

async fn reward(plugin: &Plugin, options: &[NamedValue]) -> Result<RewardDescription, CallError> {
    let info = plugin.reward_info().await?;
    let component = |component: &ComponentInfo| ComponentDescription {
        name: component.name.clone(),
        description: component.description.clone(),
    };
    Ok(RewardDescription {
        summary: info.summary.clone(),
        range: ends(info.range),
        components: info.components.iter().map(component).collect(),
        options: info.options.iter().map(option).collect(),
        unscored_without_privileged: trial::unscored_without_fields(plugin, options).await,
    })
}

fn answered<T>(answer: Result<T, CallError>) -> Answered<T> {
    answer.map_err(|error| error.message).into()
}

fn option(option: &OptionInfo) -> OptionDescription {
    let (kind, default) = match &option.default {
        Value::Flag(flag) => ("flag", json!(flag)),
        Value::Integer(integer) => ("integer", json!(integer)),
        Value::Number(number) => ("number", json!(number)),
        Value::Text(text) => ("text", json!(text)),
        Value::Bytes(bytes) => ("bytes", json!(bytes)),
        Value::Other(text) => ("json", serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
    };
    let (name, description) = (option.name.clone(), option.description.clone());
    OptionDescription { name, kind: kind.to_owned(), default, description }
}

fn function(seat: Option<u32>, function: Function) -> FunctionDescription {
    let Function { name, description, parameters, cost } = function;
    // The sandbox has checked that it is the JSON text of an object.
    let parameters = serde_json::from_str(&parameters).unwrap_or_default();
    FunctionDescription { seat, name, description, parameters, cost }
}

/// First task of the first split that has tasks.
fn first_task(splits: &[SplitInfo]) -> Option<TaskRef> {
    let split = splits.iter().find(|split| split.tasks != Some(0))?;
    Some(TaskRef { split: split.name.clone(), index: 0 })
}

/// Starts the first task and asks for its functions and privileged fields.
async fn first_offer(plugin: &Plugin, options: &[NamedValue], task: Option<&TaskRef>) -> Result<FirstTask, CallError> {
    let Some(task) = task else {
        return Ok(FirstTask { task: "none".to_owned(), functions: vec![], privileged: vec![] });
    };
    let (mut episode, started) = EnvironmentEpisode::start(plugin, task, options, Seed(0)).await?;
    let privileged = if plugin.offers(OptionalInterface::Privileged) { episode.privileged().await? } else { vec![] };
    episode.close().await?;
    let of_seat = |seat: u32, functions: Vec<Function>| {
        functions.into_iter().map(move |described| function(Some(seat), described))
    };
    let offered = started.opening.functions;
    Ok(FirstTask {
        task: task.to_string(),
        functions: offered.into_iter().flat_map(|offered| of_seat(offered.seat, offered.functions)).collect(),
        privileged: privileged.into_iter().map(|field| field.name).collect(),
    })
}

/// Names of the optional interfaces that a plugin has.
fn offered(plugin: &Plugin, all: &[(OptionalInterface, &str)]) -> Vec<String> {
    all.iter().filter(|(interface, _)| plugin.offers(*interface)).map(|(_, name)| (*name).to_owned()).collect()
}

fn ends(range: Range) -> [f64; 2] {
    [range.low, range.high]
}
