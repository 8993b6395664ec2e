//! Parameter groups of the optimiser: learning rate and weight decay by kind of parameter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::error::require;

/// Kind of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterKind {
    /// The embedding, which is also the output layer of a model with tied embeddings.
    Embeddings,
    /// The output layer of a model with untied embeddings.
    OutputLayer,
    /// All other matrices of the model.
    Matrices,
    /// Scales of norms.
    Norms,
    /// Biases.
    Biases,
    /// First factors of adapters, `A`.
    LoraA,
    /// Second factors of adapters, `B`, which start at 0.
    LoraB,
    /// Head of a critic.
    ValueHead,
}

impl ParameterKind {
    /// Whether weight decay applies without a group: to matrices, but not to embeddings, norms and biases.
    fn decays(self) -> bool {
        !matches!(self, Self::Embeddings | Self::Norms | Self::Biases)
    }
}

/// Parameter group: settings of the optimiser for some kinds of parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterGroup {
    /// Kinds of parameters in the group; each kind is in at most one group.
    pub of: Vec<ParameterKind>,
    /// Factor of the learning rate; 0 freezes the parameters. LoRA+ uses 16 for `lora-b`.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub rate: f64,
    /// Weight decay of these parameters. Default: `weight_decay` for matrices of all kinds, 0 for embeddings, norms and
    /// biases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("x-default" = "by kind"))]
    pub weight_decay: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// Refuses values out of range, and a kind in two groups.
pub(crate) fn check(groups: &[ParameterGroup]) -> Result<(), SettingError> {
    let mut seen = Vec::new();
    for group in groups {
        require(!group.of.is_empty(), "groups.of", "[]", "at least one kind of parameters")?;
        let at_least_0 = |value: f64| value >= 0.0 && value.is_finite();
        require(at_least_0(group.rate), "groups.rate", group.rate, "at least 0")?;
        let decay = group.weight_decay.unwrap_or(0.0);
        require(at_least_0(decay), "groups.weight_decay", decay, "at least 0")?;
        for kind in &group.of {
            require(!seen.contains(kind), "groups.of", format!("{kind:?} twice"), "a list without repetitions")?;
            seen.push(*kind);
        }
    }
    Ok(())
}

/// Factor of the learning rate, and weight decay, of a kind. `decay` is that of parameters without a group.
pub(crate) fn of_kind(groups: &[ParameterGroup], kind: ParameterKind, decay: f64) -> (f64, f64) {
    let group = groups.iter().find(|group| group.of.contains(&kind));
    let by_kind = if kind.decays() { decay } else { 0.0 };
    group.map_or((1.0, by_kind), |group| (group.rate, group.weight_decay.unwrap_or(by_kind)))
}
