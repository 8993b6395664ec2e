//! Phases of a start: the inputs that each one owns, and the step that leads to it.
//!
//! A step only opens and builds. What the user can have got wrong is checked between the steps, by the lists of
//! [`checks`](super::checks).

use std::path::PathBuf;
use std::sync::Arc;

use gymkhana_config::RunFile;
use gymkhana_registry::Lock;
use gymkhana_rollout::StartAgent;
use gymkhana_sandbox::Sandbox;
use gymkhana_store::RunFolder;

use crate::metrics::MetricsListener;
use crate::resume::begun_as;
use crate::seats::{self, SeatPolicies, weight_sync};
use crate::setup::chat::{chat_files, chat_format};
use crate::setup::models::Models;
use crate::sources::{self, LearningModel, Sources};
use crate::stages::batch;
use crate::state::TrainingState;
use crate::stop::StopRequest;
use gymkhana_orchestration::environments::{self, BoundEnvironment, Environments};
use gymkhana_orchestration::grants::{AssetFiles, OutboundMode};
use gymkhana_orchestration::plugins::{self, PluginFile};
use gymkhana_orchestration::remote::RunWorkers;
use gymkhana_orchestration::trace::Trace;
use gymkhana_orchestration::{Classify, Reporter, RunResult};

/// A run whose plugins are compiled and bound.
pub(crate) struct Assembled {
    pub file: RunFile,
    pub bound: Vec<BoundEnvironment>,
    /// Capacity for live plugin instances.
    pub places: u32,
    pub sandbox: Sandbox,
}

/// The folder of a resumed run.
pub(crate) struct Resumed {
    pub folder: RunFolder,
    /// Absent if the run died before its first state.
    pub state: Option<TrainingState>,
    /// Pins of the plugins that the run is resumed with.
    pub lock: Lock,
}

/// A run whose models are in local folders.
pub(crate) struct Pinned {
    pub file: RunFile,
    pub bound: Vec<BoundEnvironment>,
    pub models: Models,
    pub resumed: Option<Resumed>,
    /// The run file at the start of a resumed run, if it can be read.
    pub begun: Option<RunFile>,
}

/// A run that can play episodes.
pub(crate) struct OpenedRun {
    pub file: RunFile,
    pub environments: Environments,
    pub seats: SeatPolicies,
    /// The folder of a resumed run.
    pub folder: Option<RunFolder>,
    pub state: Option<TrainingState>,
    /// Demonstrations of the stages that are not over.
    pub sources: Sources,
    pub reporter: Arc<dyn Reporter>,
}

/// A run that has passed the checks of every phase and has written nothing.
pub struct Prepared {
    pub(crate) opened: OpenedRun,
    pub(crate) out: PathBuf,
    pub(crate) overwrite: bool,
    pub(crate) plugins: Vec<PluginFile>,
    pub(crate) lock: Lock,
    pub(crate) assets: AssetFiles,
    pub(crate) sandbox: Sandbox,
    pub(crate) places: u32,
    pub(crate) listener: Option<MetricsListener>,
    pub(crate) trace: Trace,
    pub(crate) stop: StopRequest,
    /// Connected workers.
    pub(crate) workers: Option<Box<dyn RunWorkers>>,
}

/// Compiles and binds the plugins.
pub(crate) async fn assemble(
    file: RunFile,
    files: &[PluginFile],
    assets: &AssetFiles,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Assembled> {
    let sandbox = plugins::sandbox(&file.rules.sandbox, reporter)?;
    let loaded = plugins::load(&file.rules, &file.wrappers(), &sandbox, files, assets, OutboundMode::Live)?;
    let bound = environments::bind(&file, loaded).await?;
    let places = sandbox.counters().places;
    Ok(Assembled { file, bound, places, sandbox })
}

/// Downloads the models of the run file.
pub(crate) async fn pin(
    assembled: Assembled,
    resumed: Option<Resumed>,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Pinned> {
    let Assembled { mut file, bound, .. } = assembled;
    let begun = resumed.as_ref().and_then(|resumed| begun_as(&resumed.folder));
    let has_state = resumed.as_ref().is_some_and(|resumed| resumed.state.is_some());
    let models = Models::pin(&mut file, begun.as_ref(), has_state, reporter).await?;
    Ok(Pinned { file, bound, models, resumed, begun })
}

/// Opens the models of the run file, or those of the last checkpoint, connects the inference server, builds the rollout
/// of each environment, and reads recorded demonstrations.
pub(crate) async fn open(
    pinned: Pinned,
    agents: Option<StartAgent>,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<OpenedRun> {
    let Pinned { mut file, bound, models, resumed, .. } = pinned;
    let set = environments::first_set(&bound)?;
    let places = batch::deterministic_places(&file, set)?;
    let slots = places.map_or(file.policy.max_concurrent_sequences, |places| places * set.seats());
    let left_off = resumed.as_ref().and_then(|Resumed { folder, state, .. }| {
        let name = state.as_ref()?.checkpoint.name.to_string();
        Some((folder.reader().checkpoints_path(), name))
    });
    let left_off = left_off.as_ref().map(|(folder, name)| (folder.as_path(), name.as_str()));
    let state = resumed.as_ref().and_then(|resumed| resumed.state.as_ref());
    let frozen = state.map(|state| state.frozen.clone()).unwrap_or_default();
    let mut seats =
        seats::start(&file, &models, set, &seats::settings(&file, slots), left_off, &frozen, reporter).await?;
    weight_sync::connect(&mut seats, &file, reporter).await?;
    weight_sync::check_served(&seats, &file)?;
    file.fit_model(seats.context()).user_error()?;
    let bound = environments::with_file(bound, &file);
    let environments = Environments::open(&file, bound, || chat_format(seats.policy().files()), places, agents)?;
    let (folder, state) = resumed.map_or((None, None), |Resumed { folder, state, .. }| (Some(folder), state));
    let files = chat_files(seats.policy().files());
    let learner = LearningModel { files: &files, chat: environments.first().rollout.chat(), context: seats.context() };
    // A finished stage may take more steps.
    let first = state.as_ref().map_or(0, |state| state.progress.stage.saturating_sub(1));
    let sources = sources::read(&file, first, learner, reporter.as_ref())?;
    Ok(OpenedRun { file, environments, seats, folder, state, sources, reporter: Arc::clone(reporter) })
}
