//! Input of a run: its run file, plugins and folder.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gymkhana_config::RunFile;
use gymkhana_orchestration::RunResult;
use gymkhana_orchestration::plugins::{self, PluginFile};
use gymkhana_orchestration::remote::RunWorkers;
use gymkhana_registry::Lock;
use gymkhana_rollout::StartAgent;

use crate::stop::StopRequest;

/// Input of a run.
pub struct RunRequest {
    /// Run file with its overlay, checked by itself.
    pub file: RunFile,
    /// Folder against which paths of the run file are resolved.
    pub base: PathBuf,
    /// Folder of the run: absent for a new run, existing for a resumed one.
    pub out: PathBuf,
    /// Whether the run in `out` is resumed.
    pub resume: bool,
    /// Whether a new run replaces a run in `out` that has made no training step.
    pub overwrite: bool,
    /// The plugins, sorted as in `lock`.
    pub plugins: Vec<PluginFile>,
    /// Pins of the plugins.
    pub lock: Lock,
    /// Address of the metrics page, if one is served.
    pub metrics: Option<SocketAddr>,
    /// File for spans, if they are traced.
    pub trace: Option<PathBuf>,
    /// Handle by which a program stops the run early.
    pub stop: StopRequest,
    /// Workers that play the episodes; absent if this process does.
    pub workers: Option<Box<dyn RunWorkers>>,
    /// Starts the agent program of the run file; absent in a program without the gateway.
    pub agents: Option<StartAgent>,
}

impl RunRequest {
    /// A new run in `out` with these plugin files, without a metrics page or a trace.
    ///
    /// # Errors
    /// If a plugin cannot be read, or two plugins share a name.
    pub fn new(file: RunFile, out: impl Into<PathBuf>, plugins: &[impl AsRef<Path>]) -> RunResult<Self> {
        let read: RunResult<Vec<_>> = plugins.iter().map(|path| plugins::read_file(path.as_ref())).collect();
        let (plugins, lock) = plugins::pin(read?)?;
        Ok(Self::of_plugins(file, out, plugins, lock))
    }

    /// As [`RunRequest::new`], with plugins that were read or downloaded and pinned.
    pub fn of_plugins(file: RunFile, out: impl Into<PathBuf>, plugins: Vec<PluginFile>, lock: Lock) -> Self {
        Self {
            file,
            base: PathBuf::new(),
            out: out.into(),
            resume: false,
            overwrite: false,
            plugins,
            lock,
            metrics: None,
            trace: None,
            stop: StopRequest::default(),
            workers: None,
            agents: None,
        }
    }
}
