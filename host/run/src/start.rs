//! The start of a run in phases: requested → resolved → assembled → opened → prepared.
//!
//! Each phase owns the inputs of the next one and ends with its list of checks. Only the last step,
//! [`Prepared::train`], writes: all user errors are found before that.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gymkhana_config::RunFile;
use gymkhana_registry::Lock;
use gymkhana_rollout::{PluginSet, RewardSum, Rollout};
use gymkhana_sandbox::Sandbox;
use gymkhana_store::{RunFolder, RunReader};
use gymkhana_trainer::Trainer;

use crate::banner::Banner;
use crate::checks::{self, pass};
use crate::metrics::Listener;
use crate::progress::ProgressMeter;
use crate::resume::{begun_as, reopen, same_seats, taken};
use crate::seats::{self, SeatPolicies, weight_sync};
use crate::session::{Outcome, Session};
use crate::setup::chat::{chat_files, chat_format};
use crate::setup::models::Models;
use crate::stages::{batch, tasks};
use crate::state::State;
use crate::stop::StopRequest;
use crate::trace::Trace;
use gymkhana_orchestration::Reporter;
use gymkhana_orchestration::chat::write_chat_files;
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::plugins::{self, PluginFile};
use gymkhana_orchestration::{Classify, RunResult};
use gymkhana_orchestration::{places, rewards, rollout};

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
}

impl RunRequest {
    /// A new run in `out` with these plugin files, without a metrics page or a trace.
    ///
    /// # Errors
    /// If a plugin cannot be read, or two plugins share a name.
    pub fn new(file: RunFile, out: impl Into<PathBuf>, plugins: &[impl AsRef<Path>]) -> RunResult<Self> {
        let read: RunResult<Vec<_>> = plugins.iter().map(|path| plugins::read_file(path.as_ref())).collect();
        let (plugins, lock) = plugins::pin(read?)?;
        let (out, base) = (out.into(), PathBuf::new());
        let stop = StopRequest::default();
        Ok(Self { file, base, out, resume: false, overwrite: false, plugins, lock, metrics: None, trace: None, stop })
    }
}

/// A request whose assets are pinned.
pub(crate) struct Resolved {
    pub request: RunRequest,
    assets: AssetFiles,
}

/// A run whose plugins are compiled and bound.
pub(crate) struct Assembled {
    pub file: RunFile,
    pub set: PluginSet,
    /// Capacity for live plugin instances.
    pub places: u32,
    sandbox: Sandbox,
    rewards: RewardSum,
}

/// A run whose models are open.
pub(crate) struct Opened {
    pub file: RunFile,
    pub rollout: Rollout,
    pub seats: SeatPolicies,
    /// The folder of a resumed run.
    pub folder: Option<RunFolder>,
    pub state: Option<State>,
}

/// A run that has passed every check and has written nothing.
pub struct Prepared {
    pub(crate) opened: Opened,
    out: PathBuf,
    overwrite: bool,
    plugins: Vec<PluginFile>,
    lock: Lock,
    assets: AssetFiles,
    sandbox: Sandbox,
    places: u32,
    listener: Option<Listener>,
    trace: Option<PathBuf>,
    stop: StopRequest,
    reporter: Arc<dyn Reporter>,
}

/// Runs all checks, from the run file to the models.
///
/// # Errors
/// The first failed check, in the order of the phases. Nothing has been written to `request.out`.
pub async fn prepare(request: RunRequest, reporter: Arc<dyn Reporter>) -> RunResult<Prepared> {
    if !request.resume {
        taken::check(&request.out, request.overwrite)?;
    }
    let Resolved { request, assets } = resolve(request)?;
    let listener = match request.metrics {
        Some(address) => Some(Listener::bind(address).await?),
        None => None,
    };
    let RunRequest { file, out, resume, overwrite, plugins, lock, trace, stop, .. } = request;
    let assembled = assemble(file, &plugins, &assets, &reporter).await?;
    let (sandbox, places) = (assembled.sandbox.clone(), assembled.places);
    let resumed = if resume { Some(reopen(&out, &lock)?) } else { None };
    let opened = open(assembled, resumed, &reporter).await?;
    Ok(Prepared { opened, out, overwrite, plugins, lock, assets, sandbox, places, listener, trace, stop, reporter })
}

/// Pins the assets of the run file.
fn resolve(mut request: RunRequest) -> RunResult<Resolved> {
    let resumed = request.resume.then(|| RunReader::open(&request.out).ok()).flatten();
    let assets = AssetFiles::pin(&mut request.file, &request.base, resumed.as_ref())?;
    let resolved = Resolved { request, assets };
    pass(&resolved, &checks::RESOLVED)?;
    Ok(resolved)
}

/// Compiles and binds the plugins.
async fn assemble(
    file: RunFile,
    files: &[PluginFile],
    assets: &AssetFiles,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Assembled> {
    let sandbox = plugins::sandbox(&file, reporter)?;
    let set = plugins::assemble(&file, &sandbox, files, assets, OutboundMode::Live).await?;
    let rewards = rewards::reward_sum(&file, &set)?;
    tasks::check_splits(&file, &set).await?;
    let places = sandbox.counters().places;
    let assembled = Assembled { file, set, places, sandbox, rewards };
    pass(&assembled, &checks::ASSEMBLED)?;
    if let Some(fewer) = places::fewer_in_flight(&assembled.file, &assembled.set, places) {
        reporter.warn(&fewer);
    }
    Ok(assembled)
}

/// Opens the models of the run file, or those of the last checkpoint.
async fn open(
    assembled: Assembled,
    resumed: Option<(RunFolder, Option<State>)>,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Opened> {
    let Assembled { mut file, set, rewards, .. } = assembled;
    let (folder, state) = resumed.map_or((None, None), |(folder, state)| (Some(folder), state));
    let places = batch::deterministic_places(&file, &set)?;
    let slots = places.map_or(file.policy.max_concurrent_sequences, |places| places * set.seats());
    let begun = folder.as_ref().and_then(begun_as);
    let last = state.as_ref().map(|state| state.checkpoint.name.to_string());
    let models = Models::pin(&mut file, begun.as_ref(), last.is_some(), reporter).await?;
    if let Some((folder, begun)) = folder.as_ref().zip(begun) {
        same_seats(folder, &begun, &file, state.as_ref())?;
    }
    let checkpoints = folder.as_ref().map(|folder| folder.reader().checkpoints_path());
    let frozen = state.as_ref().map(|state| state.frozen.clone()).unwrap_or_default();
    let left_off = checkpoints.as_deref().zip(last.as_deref());
    let mut seats = seats::start(&file, &models, &set, &seats::settings(&file, slots), left_off, &frozen)?;
    weight_sync::connect(&mut seats, &file, reporter).await?;
    weight_sync::check_served(&seats, &file)?;
    file.limits.fit_model(seats.context()).user_error()?;
    let chat = chat_format(seats.policy())?;
    let rollout = rollout::rollout(&file, set, chat, rewards, places)?;
    let opened = Opened { file, rollout, seats, folder, state };
    pass(&opened, &checks::OPENED)?;
    checks::pass_trials(&opened.file, &opened.rollout, reporter.as_ref()).await?;
    Ok(opened)
}

impl Prepared {
    /// Model, plugins, stages and folder in words.
    pub(crate) fn banner(&self) -> String {
        let Opened { file, seats, folder, state, .. } = &self.opened;
        let resumed = folder
            .as_ref()
            .zip(state.as_ref())
            .map(|(folder, state)| folder.reader().checkpoints_path().join(state.checkpoint.name.to_string()));
        let banner = Banner {
            policy: &file.policy,
            parameters: seats.policy().parameter_count(),
            resumed: resumed.as_deref(),
            lock: &self.lock,
            stages: &file.stages,
            out: &self.out,
        };
        banner.to_string()
    }

    /// Trains: creates or reopens the run's folder and runs the stages, or until a stop is requested.
    ///
    /// # Errors
    /// If the folder cannot be written, a plugin or a model fails too often, or the trainer fails.
    pub async fn train(self) -> RunResult<Outcome> {
        let banner = self.banner();
        let Self { opened, out, overwrite, plugins, lock, assets, sandbox, places, listener, trace, stop, reporter } =
            self;
        let Opened { file, rollout, seats, folder, state } = opened;
        let trace = Trace::start(trace.as_deref())?;
        let folder = match folder {
            Some(folder) => folder,
            None => taken::create(&out, overwrite, &file.resolved().internal()?)?,
        };
        fill(&folder, &plugins, &lock, seats.policy())?;
        reporter.status(&banner);
        assets.store(&folder)?;
        // A server that cannot take weights is reported now, and not after the first stage.
        weight_sync::update(&seats, folder.reader().path()).await?;
        let session = Session::new(file, Arc::clone(&reporter), folder, rollout, seats, state, places)?;
        let mut session = Session { stop, ..session };
        // The page and the meter end when they are dropped.
        let _page = listener.map(|listener| session.serve_metrics(listener, sandbox.clone()));
        let metrics = Arc::clone(session.rollout.metrics());
        let _meter = ProgressMeter::start(metrics, move || sandbox.counters(), Arc::clone(&reporter))?;
        let outcome = session.run().await;
        let traced = trace.finish(reporter.as_ref()).await;
        let outcome = outcome?;
        traced?;
        Ok(outcome)
    }
}

/// Writes the plugins, the lock and the chat format into the run's folder, or those that a crash left missing.
fn fill(folder: &RunFolder, files: &[PluginFile], lock: &Lock, trainer: &Trainer) -> RunResult<()> {
    for plugin in files {
        folder.add_plugin(&plugin.bytes)?;
    }
    folder.write_lock(lock)?;
    write_chat_files(folder.reader().path(), &chat_files(trainer.files()))
}
