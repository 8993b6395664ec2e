//! `host run`: stages of training over plugins, recorded so that they can be resumed and replayed.

mod ahead;
mod batch;
mod cast;
mod chat;
mod eval;
mod evaluate;
mod flights;
mod frozen;
mod glance;
mod rl;
mod served;
mod sft;
mod state;
mod tasks;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gymkhana_episode::{EpisodeId, Phase, Seed, TaskRef};
use gymkhana_registry::{LOCK_FILE, Lock};
use gymkhana_rollout::{Assembly, PluginSet, ProbeError, Rollout, Voice};
use gymkhana_sandbox::Sandbox;
use gymkhana_store::{EpisodeStore, Metrics, RunFolder, RunReader, StageSummary, Summary};
use gymkhana_trainer::{Keeps, Trainer};
use tokio::task::JoinSet;

use crate::args::RunArgs;
use crate::assembly;
use crate::error::{Blame, CliError, CliResult};
use crate::metrics::{Listener, Page, exposition};
use crate::models::Models;
use crate::plugins;
use crate::printer::Printer;
use crate::registry;
use crate::runfile::{RlStage, RunFile, Stage, did_you_mean};
use crate::trace::Trace;
use crate::world::{Asking, AssetFiles};
use cast::Cast;
use glance::Glance;
use state::{Progress, State};

pub use chat::{chat_files, read_chat_files, write_chat_files};
pub use eval::eval;

/// Everything that a run works with.
struct Session<'a> {
    file: RunFile,
    printer: &'a Printer,
    folder: RunFolder,
    rollout: Arc<Rollout>,
    cast: Cast,
    episodes: EpisodeStore,
    metrics: Metrics,
    seed: Seed,
    progress: Progress,
    /// The last checkpoint's name; none while the weights are those that the run began with.
    checkpoint: Option<String>,
    /// How many instances of plugins may live at once.
    places: u32,
    /// When this process began, less what earlier ones took.
    begun: Instant,
}

/// Runs.
pub fn run(args: &RunArgs, printer: &Printer) -> CliResult<()> {
    let mut file = RunFile::read(&args.run_file, &args.set).users()?;
    file.check_learns_from_server().users()?;
    let began_with = args.resume.then_some(args.out.as_path());
    let (files, lock) = registry::gather(&args.plugins, args.fetch, began_with, printer)?;
    let beside = args.run_file.parent().unwrap_or(Path::new(""));
    let resumed = args.resume.then(|| RunReader::open(&args.out).ok()).flatten();
    let assets = AssetFiles::pin(&mut file, beside, resumed.as_ref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().ours()?;
    runtime.block_on(async {
        let listener = match args.metrics {
            Some(address) => Some(Listener::bind(address).await?),
            None => None,
        };
        let sandbox = plugins::sandbox(&file, printer)?;
        let set = plugins::assemble(&file, &sandbox, &files, &assets, Asking::Live).await?;
        let assembly = assembly::assembly(&file, &set)?;
        cast::check(&file, &set)?;
        tasks::check_splits(&file, &set).await?;
        let places = sandbox.counters().places;
        batch::check_places(&file, &set, places)?;
        if let Some(fewer) = batch::fewer_in_flight(&file, &set, places) {
            printer.talk(fewer);
        }
        let lanes = batch::lanes(&file, &set)?;
        let slots = lanes.map_or(file.policy.slots, |lanes| lanes * set.seats());
        let (folder, state) = if args.resume { reopen(args, &lock)? } else { (None, None) };
        let begun = folder.as_ref().and_then(begun_as);
        let last = state.as_ref().and_then(|state| state.checkpoint.as_deref());
        let models = Models::pin(&mut file, begun.as_ref(), last.is_some(), printer).await?;
        if let Some((folder, begun)) = folder.as_ref().zip(begun) {
            same_seats(folder, &begun, &file)?;
        }
        let checkpoints = folder.as_ref().map(|folder| folder.reader().checkpoints_path());
        let frozen = state.as_ref().map(|state| state.frozen.clone()).unwrap_or_default();
        let left_off = checkpoints.as_deref().zip(last);
        let mut cast = cast::start(&file, &models, &set, &cast::settings(&file, slots), left_off, &frozen)?;
        served::connect(&mut cast, &file, printer).await?;
        file.limits.fit_model(cast.context()).users()?;
        file.check().users()?;
        if let Some(folder) = &folder {
            same_run_file(folder, &file)?;
            if let Some(problem) = state.as_ref().and_then(|state| state.check(&file.stages).err()) {
                return Err(lost_state(folder, &format!("does not fit the run: {problem}")));
            }
        }
        let rollout = rollout(&file, set, assembly, &cast, lanes)?;
        check_probe(&file, &rollout, &cast).await?;
        let left_off = left_off.map(|(folder, checkpoint)| folder.join(checkpoint));
        served::begin(&cast, &file, &models, left_off).await?;
        check_teachers(&file)?;
        // Nothing is written before all that the user can have got wrong has been looked at.
        let trace = args.trace.as_deref().map(Trace::start).transpose()?;
        let folder = match folder {
            Some(folder) => folder,
            None => RunFolder::create(&args.out, &file.resolved().ours()?)?,
        };
        fill(&folder, &files, &lock, cast.policy())?;
        assets.keep(&folder)?;
        let mut session = Session::new(file, printer, folder, rollout, cast, state, places)?;
        // Both end when they are dropped.
        let _served = listener.map(|listener| serve(listener, &session, sandbox.clone()));
        let _glance = Glance::start(Arc::clone(session.rollout.watch()), sandbox, printer.clone())?;
        session.stages().await?;
        trace.map_or(Ok(()), |trace| trace.all_written())
    })
}

/// What plays episodes as the run file says, in the chat format of the run's policy.
fn rollout(
    file: &RunFile,
    set: PluginSet,
    assembly: Assembly,
    cast: &Cast,
    lanes: Option<usize>,
) -> CliResult<Rollout> {
    let chat = chat::chat_format(cast.policy())?;
    let limits = (&file.limits).into();
    let rollout = Rollout::new(set, chat, limits, assembly, file.policy.system.clone(), file.failures.retries);
    let rollout = rollout.with_stop_texts(&file.limits.stop);
    let rollout = rollout.with_context(file.context.clone()).users()?.with_probe(file.probe.clone()).users()?;
    Ok(match lanes {
        Some(lanes) => rollout.in_lanes(lanes),
        None => rollout,
    })
}

/// Serves the run's figures until what this gives is dropped.
fn serve(listener: Listener, session: &Session<'_>, sandbox: Sandbox) -> JoinSet<()> {
    session.printer.talk(format!("metrics at {}", listener.url()));
    let (watch, cast) = (Arc::clone(session.rollout.watch()), session.cast.clone());
    let page: Page = Arc::new(move || exposition(&watch, &sandbox.counters(), &cast.idle()));
    let mut served = JoinSet::new();
    served.spawn(listener.serve(page));
    served
}

/// Looks whether every seat's policy can do what the run's probe asks of it, and whether the first task to be trained on
/// has what it scores.
async fn check_probe(file: &RunFile, rollout: &Rollout, cast: &Cast) -> CliResult<()> {
    for (seat, voice) in cast.seats.iter().zip(cast.voices()) {
        if let Voice::Policy(policy) = voice {
            rollout.check_policy(seat, policy).users()?;
        }
    }
    let task = TaskRef { split: file.environment.train.clone(), index: 0 };
    rollout.check_answer(&task, Seed(file.seed)).await.map_err(|error| {
        let near = match &error {
            ProbeError::NoField { field, known, .. } => did_you_mean(field, known.iter().map(String::as_str)),
            ProbeError::CannotScore { .. } | ProbeError::NoView { .. } => String::new(),
        };
        CliError::mistake(format!("{error}{near}"))
    })
}

/// Puts into the run's folder what the run is made of, or what of it is missing: a run may have died in the midst of
/// it.
fn fill(folder: &RunFolder, files: &[plugins::PluginFile], lock: &Lock, trainer: &Trainer) -> CliResult<()> {
    for plugin in files {
        folder.add_plugin(&plugin.bytes)?;
    }
    folder.write_lock(lock)?;
    write_chat_files(folder.reader().path(), trainer)
}

/// Takes up the run that is there, which must have the same plugins.
fn reopen(args: &RunArgs, lock: &Lock) -> CliResult<(Option<RunFolder>, Option<State>)> {
    let folder = RunFolder::open_for_resume(&args.out)?;
    let state = folder.reader().state::<State>()?;
    if state.is_none() && !died_early(&folder)? {
        return Err(lost_state(&folder, "is missing, and the run has episodes or checkpoints that came after it"));
    }
    let died_early = state.is_none() && !args.out.join(LOCK_FILE).exists();
    if !died_early && folder.reader().lock()? != *lock {
        let out = args.out.display();
        return Err(CliError::mistake(format!(
            "the run in `{out}` was started with other plugins; its own are pinned in `{out}/gymkhana.lock`"
        )));
    }
    Ok((Some(folder), state))
}

/// Whether the folder holds no more than a run leaves that died before it first said where it was: its first
/// evaluation, and at most the checkpoint that would have been said.
fn died_early(folder: &RunFolder) -> CliResult<bool> {
    let first = |id: &EpisodeId| id.stage == 0 && matches!(id.phase, Phase::Before | Phase::BeforeSampled);
    let checkpoints = state::checkpoints(&folder.reader().checkpoints_path())?;
    let named = checkpoints.iter().filter(|name| !name.starts_with('.'));
    Ok(folder.reader().episodes()?.ids().iter().all(first)
        && named.into_iter().all(|name| cast::is_part_of(name, &state::name(0, 0))))
}

fn lost_state(folder: &RunFolder, problem: &str) -> CliError {
    let out = folder.reader().path().display();
    CliError::mistake(format!(
        "`{out}/state.json` {problem}; restore the file, or start a new run in another --out: `host show` and `host \
         replay` still read this one"
    ))
}

/// A run goes on as it began.
fn same_run_file(folder: &RunFolder, file: &RunFile) -> CliResult<()> {
    if folder.reader().run_text()? == file.resolved().ours()? {
        return Ok(());
    }
    Err(another_run_file(folder))
}

/// Seats that are bound otherwise have no checkpoint to go on from: that is said before one is missed.
fn same_seats(folder: &RunFolder, begun: &RunFile, file: &RunFile) -> CliResult<()> {
    if begun.seats == file.seats { Ok(()) } else { Err(another_run_file(folder)) }
}

/// The run file with which a run began, if its folder still tells.
fn begun_as(folder: &RunFolder) -> Option<RunFile> {
    RunFile::parse(&folder.reader().run_text().ok()?, "run.toml", &[]).ok()
}

fn another_run_file(folder: &RunFolder) -> CliError {
    let out = folder.reader().path().display();
    CliError::mistake(format!(
        "the run in `{out}` was started with another run file or other --set values; resume it with those of \
         `{out}/run.toml`, or start a new run in another --out"
    ))
}

impl<'a> Session<'a> {
    fn new(
        file: RunFile,
        printer: &'a Printer,
        folder: RunFolder,
        rollout: Rollout,
        cast: Cast,
        state: Option<State>,
        places: u32,
    ) -> CliResult<Self> {
        let mut episodes = folder.episodes()?;
        let mut metrics = folder.metrics()?;
        let checkpoint = state.as_ref().and_then(|state| state.checkpoint.clone());
        let progress = state.map(|state| state.progress).unwrap_or_default();
        // A run that died while it wrote or removed a checkpoint has left a part of it.
        let checkpoints = folder.reader().checkpoints_path();
        state::forget_checkpoints(&checkpoints, progress.stage, checkpoint.as_deref())?;
        progress.rewind(&mut episodes, &mut metrics)?;
        let begun = progress.begun_before(Instant::now());
        let seed = Seed(file.seed);
        let rollout = Arc::new(rollout);
        Ok(Self { file, printer, folder, rollout, cast, episodes, metrics, seed, progress, checkpoint, places, begun })
    }

    async fn stages(&mut self) -> CliResult<()> {
        let stages = self.file.stages.clone();
        while let Some(stage) = stages.get(self.progress.stage) {
            self.stage(stage).await?;
        }
        self.finish()
    }

    async fn stage(&mut self, stage: &Stage) -> CliResult<()> {
        if self.progress.current.is_none() {
            // The stage before has measured the same weights on the same tasks.
            let before = match self.progress.finished.last() {
                Some(last) => evaluate::Success { greedy: last.success_after, sampled: last.success_after_sampled },
                None => self.evaluate(evaluate::When::Before).await?,
            };
            let keeps = match stage {
                Stage::Sft(_) => Keeps::default(),
                Stage::Rl(stage) => {
                    Keeps { teacher: stage.teacher.clone(), ..stage.settings().users()?.algorithm.keeps() }
                }
            };
            for model in self.cast.trained() {
                model.trainer.begin_stage(keeps.clone()).await.ours()?;
            }
            self.progress.begin(stage.name(), before);
            self.checkpoint().await?;
        }
        match stage {
            Stage::Sft(stage) => self.sft(stage).await?,
            Stage::Rl(stage) => self.rl(stage).await?,
        }
        let after = self.evaluate(evaluate::When::After).await?;
        let summary = self.progress.finish(after, self.begun.elapsed());
        self.printer.talk(describe(&summary));
        self.episodes.commit()?;
        self.write_state()
    }

    fn finish(&mut self) -> CliResult<()> {
        let last = self.progress.finished.last();
        let summary = Summary {
            schema: gymkhana_store::SUMMARY_SCHEMA,
            success: last.and_then(|stage| stage.success_after),
            success_sampled: last.and_then(|stage| stage.success_after_sampled),
            stages: self.progress.finished.clone(),
            seconds: self.begun.elapsed().as_secs_f64(),
        };
        self.folder.write_summary(&summary)?;
        for stage in &summary.stages {
            self.printer.result(describe(stage));
        }
        let counters =
            format!("{} episodes in {}", self.episodes.stored().len(), self.folder.reader().path().display());
        self.printer.result(format!("{counters}, {:.0} s", summary.seconds));
        Ok(())
    }

    /// Below this stands the seed of every episode, by its name, whatever else is played beside it.
    fn episode_seeds(&self) -> Seed {
        self.seed.child("episode")
    }
}

fn describe(stage: &StageSummary) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let success = match (stage.success_before, stage.success_after) {
        (Some(before), Some(after)) => format!("{} to {}", percent(before), percent(after)),
        _ => "not measured".to_owned(),
    };
    let sampled = match (stage.success_before_sampled, stage.success_after_sampled) {
        (Some(before), Some(after)) => format!(" (sampled {} to {})", percent(before), percent(after)),
        _ => String::new(),
    };
    format!(
        "stage {}: success {success}{sampled}, {} episodes, {} tokens, {:.0} s",
        stage.name, stage.episodes, stage.tokens, stage.seconds
    )
}

/// Looks whether the teachers of stages are there, as they are opened only when their stage begins.
fn check_teachers(file: &RunFile) -> CliResult<()> {
    for stage in &file.stages {
        if let Stage::Rl(RlStage { name, teacher: Some(folder), .. }) = stage
            && !folder.join("config.json").is_file()
        {
            return Err(CliError::mistake(format!(
                "the teacher of stage `{name}`, `{}`, is no folder of a model: it has no config.json; name a checkpoint",
                folder.display()
            )));
        }
    }
    Ok(())
}
