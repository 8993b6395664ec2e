//! The start of a run in phases: requested → resolved → assembled → reopened → pinned → opened → prepared.
//!
//! Each phase owns the inputs of the next one and ends with its list of checks. Only [`Prepared::train`] writes, after
//! the last list: all user errors are found before that.

mod checks;
mod memory;
mod phases;
mod request;
mod warnings;

use std::sync::Arc;

use gymkhana_registry::{Lock, PluginFile};
use gymkhana_store::{RunFolder, RunReader};
use gymkhana_trainer::ModelFiles;

pub use phases::Prepared;
pub use request::RunRequest;

use crate::banner::Banner;
use crate::metrics::MetricsListener;
use crate::progress::ProgressMeter;
use crate::resume::taken::{self, check_run};
use crate::setup::chat::chat_files;
use crate::stages::RunOutcome;
use crate::state::TrainingState;
use crate::training_run::TrainingRun;
use checks::pass;
use gymkhana_orchestration::chat::write_chat_files;
use gymkhana_orchestration::grants::AssetFiles;
use gymkhana_orchestration::places;
use gymkhana_orchestration::trace::Trace;
use gymkhana_orchestration::{Classify, Reporter, RunResult};
use phases::{OpenedRun, Resumed};

/// Runs all checks, from the run file to the models.
///
/// # Errors
/// The first failed check, in the order of the phases. Nothing has been written to `request.out`.
pub async fn prepare(mut request: RunRequest, reporter: Arc<dyn Reporter>) -> RunResult<Prepared> {
    pass(&request, &checks::REQUESTED).await?;
    let mut workers = request.workers.take();
    let resumed = request.resume.then(|| RunReader::open(&request.out).ok()).flatten();
    resumed.as_ref().map_or(Ok(()), check_run)?;
    request.file.check_trains().user_error()?;
    request.file.stages.iter_mut().for_each(|stage| stage.resolve(&request.base));
    let assets = AssetFiles::pin(&mut request.file.rules, &request.base, resumed.as_ref())?;
    pass(&request, &checks::RESOLVED).await?;
    let listener = match request.metrics {
        Some(address) => Some(MetricsListener::bind(address)?),
        None => None,
    };
    let assembled = phases::assemble(request.file.clone(), &request.plugins, &assets, &reporter).await?;
    pass(&assembled, &checks::ASSEMBLED).await?;
    let (sandbox, places) = (assembled.sandbox.clone(), assembled.places);
    let mut sets = assembled.bound.iter().map(|bound| &bound.set);
    if let Some(fewer) = sets.find_map(|set| places::fewer_in_flight(&assembled.file, set, places)) {
        reporter.warn(&fewer);
    }
    warnings::of_settings(&assembled.file, &assembled.bound, reporter.as_ref())?;
    let resumed = match request.resume {
        true => {
            let folder = RunFolder::open_for_resume(&request.out)?;
            let state = folder.reader().state::<TrainingState>()?;
            let resumed = Resumed { folder, state, lock: request.lock.clone() };
            pass(&resumed, &checks::REOPENED).await?;
            Some(resumed)
        }
        false => None,
    };
    let pinned = phases::pin(assembled, resumed, &reporter).await?;
    pass(&pinned, &checks::PINNED).await?;
    let opened = phases::open(pinned, request.agents, &reporter).await?;
    pass(&opened, &checks::OPENED).await?;
    if let Some(workers) = &mut workers {
        workers.connect().await?;
    }
    let trace = Trace::open(request.trace.as_deref())?;
    let RunRequest { out, overwrite, plugins, lock, stop, .. } = request;
    Ok(Prepared { opened, out, overwrite, plugins, lock, assets, sandbox, places, listener, trace, stop, workers })
}

impl Prepared {
    /// Model, plugins, stages and folder in words.
    pub(crate) fn banner(&self) -> String {
        let OpenedRun { file, seats, folder, state, .. } = &self.opened;
        let resumed = folder
            .as_ref()
            .zip(state.as_ref())
            .map(|(folder, state)| folder.reader().checkpoints_path().join(state.checkpoint.name.to_string()));
        let banner = Banner {
            policy: &file.policy,
            parameters: seats.policy().parameter_count(),
            resumed: resumed.as_deref(),
            lock: &self.lock,
            environments: &file.environments,
            stages: &file.stages,
            out: &self.out,
        };
        banner.to_string()
    }

    /// Trains: creates or reopens the run's folder and runs the stages, or until a stop is requested.
    ///
    /// # Errors
    /// If the inference server does not take the weights, the folder cannot be written, a plugin or a model fails too
    /// often, or the trainer fails.
    pub async fn train(self) -> RunResult<RunOutcome> {
        pass(&self, &checks::PREPARED).await?;
        let banner = self.banner();
        let Self { opened, out, overwrite, plugins, lock, assets, sandbox, places, listener, trace, stop, mut workers } =
            self;
        let OpenedRun { file, environments, seats, folder, state, sources, reporter } = opened;
        trace.start()?;
        let folder = match folder {
            Some(folder) => folder,
            None => taken::create(&out, overwrite, &file.resolved().internal()?)?,
        };
        fill(&folder, &plugins, &lock, seats.policy().files())?;
        reporter.status(&banner);
        assets.store(&folder)?;
        let session = TrainingRun::new(file, Arc::clone(&reporter), folder, environments, seats, state, places)?;
        let mut session = TrainingRun { stop, sources, ..session };
        // The page and the meter end when they are dropped.
        let _page = listener.map(|listener| session.serve_metrics(listener, sandbox.clone()));
        let metrics = Arc::clone(session.metrics_of_rollouts());
        let _meter = ProgressMeter::start(metrics, move || sandbox.counters(), Arc::clone(&reporter))?;
        if let Some(workers) = &mut workers {
            session.give_out(&mut **workers).await?;
        }
        let outcome = session.run().await;
        if let Some(workers) = workers {
            workers.end(reporter.as_ref()).await;
        }
        let traced = trace.finish(reporter.as_ref()).await;
        let outcome = outcome?;
        traced?;
        Ok(outcome)
    }
}

/// Writes the plugins, the lock and the chat format into the run's folder, or those that a crash left missing.
fn fill(folder: &RunFolder, files: &[PluginFile], lock: &Lock, model: &ModelFiles) -> RunResult<()> {
    for plugin in files {
        folder.add_plugin(&plugin.bytes)?;
    }
    folder.write_lock(lock)?;
    write_chat_files(folder.reader().path(), &chat_files(model))
}
