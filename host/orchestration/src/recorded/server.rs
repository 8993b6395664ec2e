//! Folders that hold records of servers, which look like those of runs but cannot be resumed as runs.

use std::path::Path;

use gymkhana_config::RunFile;
use gymkhana_record::Phase;
use gymkhana_store::RunReader;

use crate::error::{Classify, RunResult};

/// The program whose records a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorder {
    /// `host serve`.
    Server,
    /// `host gateway`.
    Gateway,
    /// Another program, by the Python package.
    Program,
}

impl Recorder {
    /// The recorder of a folder; `None` if it holds a run.
    ///
    /// # Errors
    /// If the episodes or the run file cannot be read.
    pub fn of(run: &RunReader) -> RunResult<Option<Self>> {
        let ids = run.episodes()?.ids();
        if ids.iter().any(|id| id.phase != Phase::Served) {
            return Ok(None);
        }
        // A server's run file has one stage, which it does not play.
        let file = RunFile::parse(&run.run_text()?, "run.toml", &[]).user_error()?;
        let stage = match &file.stages[..] {
            [stage] if stage.steps() == 1 => stage.name(),
            _ => "",
        };
        Ok(match stage {
            "served" => Some(Self::Server),
            "gateway" => Some(Self::Gateway),
            _ => (!ids.is_empty()).then_some(Self::Program),
        })
    }

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
