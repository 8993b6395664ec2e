//! Training in a Rust program.
//!
//! A [`Run`] takes a run file, fetches the plugins that it names, and trains. [`RunFile::builder`] makes the file key by key.
//!
//! ```no_run
//! # async fn example() -> Result<(), gymkhana::RunError> {
//! use gymkhana::{Classify as _, Event, Run, RunFile, StageBuilder};
//!
//! let file = RunFile::builder()
//!     .plugin("frozen-lake", "^0.1")
//!     .set("limits.turns", 12)
//!     .stage(StageBuilder::sft().steps(30))
//!     .stage(StageBuilder::rl("grpo").steps(4))
//!     .build();
//! let run = Run::new(file.user_error()?).on_event(|event| eprintln!("{event}"));
//! run.train("out/lake").await?;
//! # Ok(())
//! # }
//! ```

mod event;
mod plugins;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use gymkhana_config::{EvaluationSection, LimitsSection, RunFile, RunFileBuilder, StageBuilder, TinyModel};
pub use gymkhana_run::{Classify, RunError, RunOutcome, RunResult, StageSummary};

pub use event::Event;

use event::Events;
use gymkhana_run::{Reporter, RunRequest, Silent, prepare};

/// A run of a run file.
pub struct Run {
    file: RunFile,
    base: PathBuf,
    reporter: Arc<dyn Reporter>,
}

impl Run {
    /// A run of this file. Its paths are relative to the working directory.
    #[must_use]
    pub fn new(file: RunFile) -> Self {
        Self { file, base: PathBuf::new(), reporter: Arc::new(Silent) }
    }

    /// The folder to which paths of the run file are relative.
    #[must_use]
    pub fn relative_to(self, base: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), ..self }
    }

    /// Calls a function with each event of the run, from any thread.
    #[must_use]
    pub fn on_event(self, call: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { reporter: Arc::new(Events(Arc::new(call))), ..self }
    }

    /// Trains, and writes everything into a new folder. The run file's plugins are read, or resolved with the lock of the
    /// working directory's project as by `host run`.
    ///
    /// # Errors
    /// If a check fails, in which case nothing is written, or the run fails for good.
    pub async fn train(self, out: impl AsRef<Path>) -> RunResult<RunOutcome> {
        let Self { mut file, base, reporter } = self;
        let (plugins, lock) = plugins::fetch(&file.rules, &base, reporter.as_ref()).await?;
        file.rules.forget_sources();
        let mut request = RunRequest::of_plugins(file, out.as_ref(), plugins, lock);
        request.base = base;
        request.agents = Some(gymkhana_gateway::start_agent);
        prepare(request, reporter).await?.train().await
    }
}
