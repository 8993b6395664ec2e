//! Context strategy: the part of a long episode that the policy sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Context strategy: the part of a long episode that the policy sees. The default is `append`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "strategy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ContextStrategy {
    /// The context only grows.
    Append {
        /// Thoughts of earlier replies.
        #[serde(default)]
        reasoning: EarlierReasoning,
    },
    /// A placeholder replaces older tool results; everything else stays (DeepMiner).
    Window(Window),
    /// The policy summarises its context and continues from the task and the summary (SUPO). Excludes oracles and `sft`
    /// stages.
    Summary(Summary),
    /// The policy sees the task, its last reply and the answer to it (MEM1).
    State {},
    /// The policy removes or rewrites turns of its context by calling `edit_context` (MemAct).
    Edits {},
}

impl Default for ContextStrategy {
    fn default() -> Self {
        Self::Append { reasoning: EarlierReasoning::default() }
    }
}

/// Thoughts of earlier replies in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EarlierReasoning {
    /// They stay as they were sampled.
    #[default]
    Keep,
    /// The chat template decides. Where it drops them, a new segment begins.
    Template,
}

/// Number of tool results that stay in the context, and the text that replaces the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Window {
    /// Maximum number of tool results in the context; with one result above it, all but the newest `keep` are replaced.
    #[schemars(range(min = 1))]
    pub most: u32,
    /// Number of newest results that stay.
    #[schemars(range(min = 1), extend("x-range" = "1 to `most`"))]
    pub keep: u32,
    /// Size of the context in tokens above which results are also replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2), extend("x-range" = "2 to `limits.context_tokens` - 1"))]
    pub tokens: Option<usize>,
    /// Text that replaces a result.
    pub placeholder: String,
}

impl Default for Window {
    fn default() -> Self {
        Self { most: 5, keep: 3, tokens: None, placeholder: "(left out; call again if you need it)".to_owned() }
    }
}

/// Threshold and instruction of summaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Size of the context in tokens above which it is summarised. The rest of the context must hold the newest
    /// observation, the instruction and the summary.
    #[schemars(range(min = 2), extend("x-range" = "2 to `limits.context_tokens` - 1"))]
    pub tokens: usize,
    /// Instruction to the policy.
    #[serde(default = "instruction")]
    #[schemars(extend("x-default" = "a request for a summary"))]
    pub instruction: String,
}

fn instruction() -> String {
    "Your context is full. Sum up all that you need to go on with the task: what you know, what you tried, what is \
     left to do. Only the task and this summary will stay."
        .to_owned()
}

/// A strategy's setting that is out of range or has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("context.{key} is out of range: {found}\nhint: use {allowed}")]
pub struct ContextError {
    key: &'static str,
    found: usize,
    allowed: String,
}

impl ContextStrategy {
    /// Refuses settings out of range, and thresholds that a context of `context_tokens` tokens cannot exceed.
    ///
    /// # Errors
    /// Names the first such setting.
    pub fn check(&self, context_tokens: usize) -> Result<(), ContextError> {
        let require = |holds: bool, key, found, allowed: &str| {
            if holds { Ok(()) } else { Err(ContextError { key, found, allowed: allowed.to_owned() }) }
        };
        let passed = |found: usize| {
            let allowed = format!("2 or more, below limits.context_tokens = {context_tokens}");
            require((2..context_tokens).contains(&found), "tokens", found, &allowed)
        };
        match self {
            Self::Append { .. } | Self::State {} | Self::Edits {} => Ok(()),
            Self::Window(window) => {
                require(window.most >= 1, "most", window.most as usize, "1 or more")?;
                let keep = (1..=window.most).contains(&window.keep);
                require(keep, "keep", window.keep as usize, "1 to context.most")?;
                window.tokens.map_or(Ok(()), passed)
            }
            Self::Summary(summary) => passed(summary.tokens),
        }
    }

    /// Whether the context is never shortened, so that a full context ends the episode.
    #[must_use]
    pub fn only_grows(&self) -> bool {
        matches!(self, Self::Append { reasoning: EarlierReasoning::Keep })
    }

    /// Whether the strategy may ask the policy for a note.
    #[must_use]
    pub fn asks_for_notes(&self) -> bool {
        matches!(self, Self::Summary(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused() {
        let window = |window| ContextStrategy::Window(window);
        let default = Window::default();
        let summary = |tokens| ContextStrategy::Summary(Summary { tokens, instruction: instruction() });
        for (strategy, message) in [
            (window(Window { most: 0, ..default.clone() }), "context.most is out of range: 0\nhint: use 1 or more"),
            (
                window(Window { keep: 0, ..default.clone() }),
                "context.keep is out of range: 0\nhint: use 1 to context.most",
            ),
            (
                window(Window { keep: 6, ..default.clone() }),
                "context.keep is out of range: 6\nhint: use 1 to context.most",
            ),
            (
                window(Window { tokens: Some(512), ..default.clone() }),
                "context.tokens is out of range: 512\nhint: use 2 or more, below limits.context_tokens = 512",
            ),
            (
                summary(600),
                "context.tokens is out of range: 600\nhint: use 2 or more, below limits.context_tokens = 512",
            ),
        ] {
            assert_eq!(strategy.check(512).expect_err(message).to_string(), message);
        }
        for strategy in [window(default), summary(511), ContextStrategy::default(), ContextStrategy::Edits {}] {
            strategy.check(512).expect("in range");
        }
    }
}
