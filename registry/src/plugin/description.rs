//! Self-description of a plugin: what it answers about itself, as data that a release carries and a page shows.
//!
//! Splits, functions, facts and privileged fields depend on options; in a release they are those of the default options.
//! The host asks the plugin; this crate only reads the answers, so unknown keys of a newer host are ignored.

use serde::{Deserialize, Serialize};

/// Size limit of the description in a release in bytes of its JSON (256 KiB).
pub const MAX_DESCRIPTION_BYTES: usize = 256 << 10;

/// What a plugin says about each kind that it implements.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfDescription {
    /// The environment, if it is one.
    pub environment: Option<EnvironmentDescription>,
    /// The tool, if it is one.
    pub tool: Option<ToolDescription>,
    /// The reward, if it is one.
    pub reward: Option<RewardDescription>,
}

/// What an environment says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// What the first task offers, which later tasks may change.
    pub first_task: Answered<FirstTask>,
    /// Facts at the end of the first task, which `success` may name. Later tasks may have others.
    pub facts: Answered<Vec<String>>,
    /// Transcript of the first task as the oracle plays it without tools, to its end, its first call of another plugin, or
    /// the length limit; empty without an oracle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub example: Vec<ExampleEntry>,
    /// Optional interfaces that it has.
    pub offers: Vec<String>,
}

/// An entry of an example transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleEntry {
    /// Seat that sees or says the text.
    pub seat: u32,
    /// Author of the text.
    pub by: Speaker,
    /// An observation, a message, or a call as `name(arguments)`.
    pub text: String,
}

/// Author of a text in an example transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaker {
    /// The environment.
    Environment,
    /// The seat's oracle.
    Oracle,
}

/// What a tool says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    /// Summary in one line.
    pub summary: String,
    /// Options.
    pub options: Vec<OptionDescription>,
    /// Functions.
    pub functions: Answered<Vec<FunctionDescription>>,
    /// Optional interfaces that it has.
    pub offers: Vec<String>,
}

/// What a reward says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionDescription {
    /// Name.
    pub name: String,
    #[serde(rename = "type")]
    /// Type, as the run file names it.
    pub kind: String,
    /// Default.
    pub default: serde_json::Value,
    /// Effect, unit and limits, in the author's words.
    pub description: String,
}

/// A split of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitDescription {
    /// Name.
    pub name: String,
    /// `None` if the tasks are generated without end.
    pub tasks: Option<u64>,
}

/// A component of a reward's scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentDescription {
    /// Name.
    pub name: String,
    /// Measured quantity, with its unit.
    pub description: String,
}

/// What the first task offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstTask {
    /// Task, as `split/index`.
    pub task: String,
    /// Functions of all seats.
    pub functions: Vec<FunctionDescription>,
    /// Names of privileged fields; values stay hidden.
    pub privileged: Vec<String>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

impl<T> From<Result<T, String>> for Answered<T> {
    fn from(answer: Result<T, String>) -> Self {
        answer.map_or_else(|error| Self::Failed { error }, Self::Given)
    }
}
