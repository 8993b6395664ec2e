//! Self-description of a plugin: what it answers about itself, as data that serializes to JSON.
//!
//! Splits, functions, facts and privileged fields depend on options; they are those of the default options.

mod trial;

use gymkhana_record::{Function, Seed, TaskRef, Value};
use gymkhana_registry::{Digest, Kind, Manifest, ManifestError, exports, imports, read_manifest};
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

/// Description of a plugin by itself, for each kind that it implements.
#[derive(Debug, Default, Serialize)]
pub struct SelfDescription {
    /// The environment, if it is one.
    pub environment: Option<EnvironmentDescription>,
    /// The tool, if it is one.
    pub tool: Option<ToolDescription>,
    /// The reward, if it is one.
    pub reward: Option<RewardDescription>,
}

/// Description of an environment by itself.
#[derive(Debug, Serialize)]
pub struct EnvironmentDescription {
    /// Summary in one line.
    pub summary: String,
    /// Names of the seats.
    pub seats: Vec<String>,
    /// Range of a seat's reward sum over an episode.
    pub rewards: [f64; 2],
    /// Options.
    pub options: Vec<OptionDescription>,
    /// Splits of its tasks.
    pub splits: Answered<Vec<SplitDescription>>,
    /// Offers of the first task, which later tasks may change.
    pub first_task: Answered<FirstTask>,
    /// Facts at the end of the first task, which `success` may name. Later tasks may have others.
    pub facts: Answered<Vec<String>>,
    /// Optional interfaces that it has.
    pub offers: Vec<&'static str>,
}

/// Description of a tool by itself.
#[derive(Debug, Serialize)]
pub struct ToolDescription {
    /// Summary in one line.
    pub summary: String,
    /// Options.
    pub options: Vec<OptionDescription>,
    /// Functions.
    pub functions: Answered<Vec<FunctionDescription>>,
    /// Optional interfaces that it has.
    pub offers: Vec<&'static str>,
}

/// Description of a reward by itself.
#[derive(Debug, Serialize)]
pub struct RewardDescription {
    /// Summary in one line.
    pub summary: String,
    /// Range of totals and of turn rewards.
    pub range: [f64; 2],
    /// Components of its scores.
    pub components: Vec<ComponentDescription>,
    /// Options.
    pub options: Vec<OptionDescription>,
    /// Reason why an episode without privileged fields gets no score; `None` if it gets one.
    pub unscored_without_privileged: Option<String>,
}

/// An option.
#[derive(Debug, Serialize)]
pub struct OptionDescription {
    /// Name.
    pub name: String,
    #[serde(rename = "type")]
    /// Type, as the run file names it.
    pub kind: &'static str,
    /// Default.
    pub default: serde_json::Value,
    /// Effect, unit and limits, in the author's words.
    pub description: String,
}

/// A split of an environment.
#[derive(Debug, Serialize)]
pub struct SplitDescription {
    /// Name.
    pub name: String,
    /// `None` if the tasks are generated without end.
    pub tasks: Option<u64>,
}

/// A component of a reward's scores.
#[derive(Debug, Serialize)]
pub struct ComponentDescription {
    /// Name.
    pub name: String,
    /// Measured quantity, with its unit.
    pub description: String,
}

/// Offers of the first task.
#[derive(Debug, Serialize)]
pub struct FirstTask {
    /// Task, as `split/index`.
    pub task: String,
    /// Functions of all seats.
    pub functions: Vec<FunctionDescription>,
    /// Names of privileged fields; values stay hidden.
    pub privileged: Vec<String>,
}

/// A function.
#[derive(Debug, Serialize)]
pub struct FunctionDescription {
    /// Seat of an environment that may call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seat: Option<u32>,
    /// Name.
    pub name: String,
    /// Sentences for the policy.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: serde_json::Value,
    /// Cost of a call, in the author's unit.
    pub cost: f64,
}

/// An answer, or the reason why the plugin gave none, such as a missing option or asset.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answered<T> {
    /// The answer.
    Given(T),
    /// No answer.
    Failed {
        /// The reason.
        error: String,
    },
}

impl<T> From<Result<T, CallError>> for Answered<T> {
    fn from(answer: Result<T, CallError>) -> Self {
        answer.map_or_else(|error| Self::Failed { error: error.message }, Self::Given)
    }
}

impl<T> From<Result<T, String>> for Answered<T> {
    fn from(answer: Result<T, String>) -> Self {
        answer.map_or_else(|error| Self::Failed { error }, Self::Given)
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
}

impl EnvironmentDescription {
    async fn of(plugin: &Plugin) -> Result<Self, CallError> {
        let info = plugin.environment_info().await?;
        let splits = plugin.splits(&[]).await;
        let task = splits.as_ref().ok().and_then(|splits| first_task(splits));
        let offer = match &splits {
            Ok(_) => first_offer(plugin, task.as_ref()).await,
            Err(error) => Err(error.clone()),
        };
        let facts = trial::facts(plugin, task.as_ref()).await;
        let split = |split: SplitInfo| SplitDescription { name: split.name, tasks: split.tasks };
        Ok(Self {
            summary: info.summary.clone(),
            seats: info.seats.clone(),
            rewards: ends(info.rewards),
            options: info.options.iter().map(OptionDescription::of).collect(),
            splits: splits.map(|splits| splits.into_iter().map(split).collect()).into(),
            first_task: offer.into(),
            facts: facts.into(),
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
            unscored_without_privileged: trial::unscored_without_fields(plugin).await,
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

/// First task of the first split that has tasks.
fn first_task(splits: &[SplitInfo]) -> Option<TaskRef> {
    let split = splits.iter().find(|split| split.tasks != Some(0))?;
    Some(TaskRef { split: split.name.clone(), index: 0 })
}

/// Starts the first task and asks for its functions and privileged fields.
async fn first_offer(plugin: &Plugin, task: Option<&TaskRef>) -> Result<FirstTask, CallError> {
    let Some(task) = task else {
        return Ok(FirstTask { task: "none".to_owned(), functions: vec![], privileged: vec![] });
    };
    let (mut episode, started) = EnvironmentEpisode::start(plugin, task, &[], Seed(0)).await?;
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
