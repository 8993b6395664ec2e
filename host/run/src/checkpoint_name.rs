//! Name of a checkpoint: the position of the run at which it was written.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Position of a checkpoint. Displays and parses as `STAGE-STEP`, the name of its folder, such as `1-000050`; a path is
/// not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct CheckpointName {
    /// Index of the stage.
    pub stage: usize,
    /// Number of training steps taken in the stage.
    pub step: u64,
}

/// The text is not the name of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotACheckpoint(String);

impl fmt::Display for NotACheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the name of a checkpoint, such as `1-000050`", self.0)
    }
}

impl std::error::Error for NotACheckpoint {}

impl CheckpointName {
    /// Stage and step, as the trainer stores them in the checkpoint.
    pub fn position(self) -> serde_json::Value {
        serde_json::json!({ "stage": self.stage, "step": self.step })
    }
}

impl fmt::Display for CheckpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:06}", self.stage, self.step)
    }
}

impl TryFrom<String> for CheckpointName {
    type Error = NotACheckpoint;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parsed = text.split_once('-').and_then(|(stage, step)| {
            let name = Self { stage: stage.parse().ok()?, step: step.parse().ok()? };
            // One spelling per name: no signs and no further zeros.
            (name.to_string() == text).then_some(name)
        });
        parsed.ok_or(NotACheckpoint(text))
    }
}

impl From<CheckpointName> for String {
    fn from(name: CheckpointName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_spelling_and_are_no_paths() {
        for (text, stage, step) in [("0-000000", 0, 0), ("1-000050", 1, 50), ("12-1234567", 12, 1_234_567)] {
            let name = CheckpointName { stage, step };
            assert_eq!(CheckpointName::try_from(text.to_owned()), Ok(name));
            assert_eq!(String::from(name), text);
        }
        for text in [
            "",
            "1",
            "1-",
            "-1-000000",
            "1-50",
            "+1-000050",
            "1-+00050",
            "01-000050",
            "../1-000050",
            "1-000050/..",
            "1-000050-seat1",
            "/1-000050",
        ] {
            assert_eq!(CheckpointName::try_from(text.to_owned()), Err(NotACheckpoint(text.to_owned())));
        }
    }
}
