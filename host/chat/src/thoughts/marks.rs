//! The marks by which models tell thoughts from messages.

use serde::{Deserialize, Serialize};

/// The marks of one family of models.
#[derive(Debug, PartialEq, Eq)]
struct FamilyMarks {
    open: &'static str,
    close: &'static str,
    /// Texts of which one in a chat template reveals the family.
    reveal: &'static [&'static str],
    /// The mark between two parts of one reply.
    resume: Option<&'static str>,
    /// The mark before the message, and those that may end it.
    message: Option<(&'static str, &'static [&'static str])>,
}

/// A family whose thoughts stand between these marks.
const fn tags(marks: &'static [&'static str; 2]) -> FamilyMarks {
    FamilyMarks { open: marks[0], close: marks[1], reveal: marks, resume: None, message: None }
}

/// Known families, the ones with the rarest marks first. Sources: the chat templates of openai/gpt-oss-20b,
/// google/gemma-4, CohereLabs/c4ai-command-r7b and command-a-reasoning, ByteDance-Seed/Seed-OSS-36B-Instruct,
/// MiniMaxAI/MiniMax-M3, mistralai/Magistral-Small, swiss-ai/Apertus-8B-Instruct, Qwen/Qwen3-8B and
/// deepseek-ai/DeepSeek-R1.
const FAMILIES: [FamilyMarks; 8] = [
    FamilyMarks {
        open: "<|channel|>analysis<|message|>",
        close: "<|end|>",
        reveal: &["<|channel|>analysis"],
        resume: Some("<|start|>assistant"),
        message: Some(("<|channel|>final<|message|>", &["<|end|>", "<|return|>"])),
    },
    FamilyMarks { reveal: &["<|channel>"], ..tags(&["<|channel>thought", "<channel|>"]) },
    FamilyMarks {
        message: Some(("<|START_RESPONSE|>", &["<|END_RESPONSE|>"])),
        ..tags(&["<|START_THINKING|>", "<|END_THINKING|>"])
    },
    tags(&["<seed:think>", "</seed:think>"]),
    tags(&["<mm:think>", "</mm:think>"]),
    tags(&["[THINK]", "[/THINK]"]),
    tags(&["<|inner_prefix|>", "<|inner_suffix|>"]),
    THINK,
];

/// The marks of most models.
const THINK: FamilyMarks = tags(&["<think>", "</think>"]);

/// The marks around a model's thoughts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThoughtMarks(ThoughtMarksKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum ThoughtMarksKind {
    Known(&'static FamilyMarks),
    Custom(CustomMarks),
}

/// Marks of the run file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomMarks {
    open: String,
    close: String,
}

/// Marks that cannot tell thoughts from messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MarksError {
    /// An empty mark.
    #[error("a mark of thoughts is empty")]
    Empty,
    /// Equal marks.
    #[error("both marks of thoughts are the same")]
    Equal,
}

impl Default for ThoughtMarks {
    /// `<think>` and `</think>`.
    fn default() -> Self {
        Self(ThoughtMarksKind::Known(&THINK))
    }
}

impl ThoughtMarks {
    /// Marks that the run file gives.
    ///
    /// # Errors
    /// If a mark is empty, or both are equal.
    pub fn new(open: &str, close: &str) -> Result<Self, MarksError> {
        if open.trim().is_empty() || close.trim().is_empty() {
            return Err(MarksError::Empty);
        }
        if open == close {
            return Err(MarksError::Equal);
        }
        Ok(Self(ThoughtMarksKind::Custom(CustomMarks { open: open.to_owned(), close: close.to_owned() })))
    }

    /// The marks of all known models.
    pub(super) fn known() -> impl Iterator<Item = Self> {
        FAMILIES.iter().map(|family| Self(ThoughtMarksKind::Known(family)))
    }

    /// The marks that a chat template contains, else those for which the tokenizer has tokens; `None` if neither reveals
    /// any.
    #[must_use]
    pub fn detect(template: &str, tokens: &[String]) -> Option<Self> {
        let in_template = |family: &&FamilyMarks| family.reveal.iter().any(|mark| template.contains(mark));
        let in_tokens = |family: &&FamilyMarks| {
            [family.open, family.close].iter().all(|mark| tokens.iter().any(|token| token == mark))
        };
        let found = FAMILIES.iter().find(in_template).or_else(|| FAMILIES.iter().find(in_tokens));
        found.map(|family| Self(ThoughtMarksKind::Known(family)))
    }

    /// The mark before a thought.
    #[must_use]
    pub fn open(&self) -> &str {
        match &self.0 {
            ThoughtMarksKind::Known(family) => family.open,
            ThoughtMarksKind::Custom(marks) => &marks.open,
        }
    }

    /// The mark behind a thought.
    #[must_use]
    pub fn close(&self) -> &str {
        match &self.0 {
            ThoughtMarksKind::Known(family) => family.close,
            ThoughtMarksKind::Custom(marks) => &marks.close,
        }
    }

    pub(super) fn resume(&self) -> Option<&'static str> {
        match &self.0 {
            ThoughtMarksKind::Known(family) => family.resume,
            ThoughtMarksKind::Custom(_) => None,
        }
    }

    pub(super) fn message_marks(&self) -> Option<(&'static str, &'static [&'static str])> {
        match &self.0 {
            ThoughtMarksKind::Known(family) => family.message,
            ThoughtMarksKind::Custom(_) => None,
        }
    }
}
