//! Programs that record episodes without training. Their folders look like those of runs, but cannot be resumed.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Program that records episodes without training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Recorder {
    /// `host serve`.
    Server,
    /// `host gateway`.
    Gateway,
    /// Another program, by the Python package.
    Program,
}

impl Recorder {
    /// The command or program, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "`host serve`",
            Self::Gateway => "`host gateway`",
            Self::Program => "another program",
        }
    }

    /// The command that adds records to this folder, if one does.
    #[must_use]
    pub fn command(self, folder: &Path) -> Option<String> {
        match self {
            // A server has a folder for each environment.
            Self::Server => {
                let out = folder.parent().filter(|out| !out.as_os_str().is_empty()).unwrap_or(Path::new("."));
                Some(format!("host serve … --out {}", out.display()))
            }
            Self::Gateway => Some(format!("host gateway … --out {}", folder.display())),
            Self::Program => None,
        }
    }
}
