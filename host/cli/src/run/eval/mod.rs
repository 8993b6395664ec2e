//! `host eval`: how well a model does on held-out tasks, from its folder or its name on a hub alone.

mod figures;

use std::path::Path;
use std::sync::Arc;

use gymkhana_episode::{Ending, EpisodeRecord, Phase, Seed, TaskRef, Turn};
use gymkhana_rollout::Rollout;
use gymkhana_store::RunReader;
use gymkhana_trainer::Settings;
use serde_json::json;
use tokio::sync::Semaphore;

use super::batch::{self, Failures, last_failure};
use super::cast::{self, Cast};
use super::flights::{Arrival, Batch, Flights, Player};
use super::frozen::Frozen;
use super::served;
use super::tasks;
use crate::args::EvalArgs;
use crate::assembly;
use crate::error::{Blame, CliError, CliResult};
use crate::models::{Models, named};
use crate::plugins::{self, PluginFile};
use crate::printer::Printer;
use crate::registry;
use crate::runfile::{Checkpoint, RunFile, SeatPolicy};
use crate::world::{Asking, AssetFiles};
use figures::{Attempt, Figures};

/// Where there is no run file, these are its stages, of which nothing is done.
const NO_RUN_FILE: &str = "[[stages]]\nkind = \"rl\"\n";
/// The number of the JSON's shape.
const SCHEMA: u32 = 1;

/// What is evaluated on: the run file, the plugins and what they may read.
struct Course {
    file: RunFile,
    plugins: Vec<PluginFile>,
    assets: AssetFiles,
}

/// What was played.
struct Played {
    attempts: Vec<Attempt>,
    /// How many were dropped, as the host or a model was at fault.
    dropped: usize,
    /// How many met a failure of a plugin's.
    failed: usize,
}

/// Evaluates and prints.
pub fn eval(args: &EvalArgs, printer: &Printer) -> CliResult<()> {
    let sampling = args.sampling.sampling()?;
    if sampling.is_greedy() && args.samples > 1 {
        return Err(CliError::mistake(
            "--samples is above 1, but at temperature 0 all of them are the same; leave it out",
        ));
    }
    let Course { mut file, plugins, assets } = course(args, printer)?;
    let checkpoint = named(&args.model, args.revision.as_deref())?;
    let parts = parts(&file, &checkpoint)?;
    (file.policy.checkpoint, file.policy.tiny) = (Some(checkpoint), None);
    if let Some(split) = &args.split {
        file.environment.held_out.clone_from(split);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().ours()?;
    runtime.block_on(async {
        let sandbox = plugins::sandbox(&file, printer)?;
        let set = plugins::assemble(&file, &sandbox, &plugins, &assets, Asking::Live).await?;
        let assembly = assembly::assembly(&file, &set)?;
        cast::check(&file, &set)?;
        let split = file.environment.held_out.clone();
        let most = args.tasks.unwrap_or(file.evaluation.tasks.max(1));
        let count = tasks::count_tasks(&set, &split).await?.map_or(most, |count| count.min(most));
        let places = sandbox.counters().places;
        batch::check_group("evaluation", 1, &set, places)?;
        let lanes = batch::lanes(&file, &set)?;
        let slots = lanes.map_or(file.policy.slots, |lanes| lanes * set.seats());
        let models = Models::pin(&mut file, None, parts.is_some(), printer).await?;
        let left_off = parts.as_ref().map(|(folder, name)| (folder.as_path(), name.as_str()));
        let settings = Settings { learns: false, ..cast::settings(&file, slots) };
        let mut cast = cast::start(&file, &models, &set, &settings, left_off, &Frozen::new())?;
        served::connect(&mut cast, &file, printer).await?;
        if let Some(server) = &file.policy.server {
            printer.talk(format!("the server at {} plays, with the weights that it has", server.url));
        }
        file.limits.fit_model(cast.context()).users()?;
        let room = Arc::new(Semaphore::new(file.policy.slots.min(batch::most_in_flight(&set, places))));
        let rollout = Arc::new(super::rollout(&file, set, assembly, &cast, lanes)?);
        let seeds = Seed(file.seed).child("episode");
        let player = Player { rollout: Arc::clone(&rollout), cast: cast.clone(), seeds, stage: 0, room };
        let tasks = (0..count).flat_map(|index| (0..args.samples).map(move |_| index));
        let tasks = tasks.map(|index| TaskRef { split: split.clone(), index }).collect();
        let phase = if sampling.is_greedy() { Phase::After } else { Phase::AfterSampled };
        let batch = Batch::of_single_episodes(phase, 0, tasks, sampling);
        let played = play(player, &batch, file.failures.limit, printer).await?;
        let figures = Figures::of(&played.attempts, args.samples as usize)
            .ok_or_else(|| CliError::mistake("every episode was dropped; mend what the messages above name"))?;
        if args.json {
            let model = file.policy.checkpoint.as_ref();
            printer.json(as_json(model, &split, args.samples, &played, &figures)?);
        } else {
            print(&split, args.samples, &played, &figures, printer);
        }
        Ok(())
    })
}

/// What to evaluate on: a run's folder holds all of it.
fn course(args: &EvalArgs, printer: &Printer) -> CliResult<Course> {
    if let Some(run) = args.run.as_deref().filter(|run| run.is_dir()) {
        let run = RunReader::open(run)?;
        let file = RunFile::parse(&run.run_text()?, "run.toml", &args.set).users()?;
        let plugins = match &args.plugins[..] {
            [] => plugins::recorded_files(&run)?,
            given => registry::gather(given, args.fetch, None, printer)?.0,
        };
        let assets = AssetFiles::recorded(&file, &run)?;
        return Ok(Course { file, plugins, assets });
    }
    if args.plugins.is_empty() {
        return Err(CliError::mistake(
            "there are no plugins to evaluate on; give their files as --plugins, or a run's folder, which holds them",
        ));
    }
    let mut file = match &args.run {
        Some(path) => RunFile::read(path, &args.set).users()?,
        None if args.set.iter().any(|set| set.trim_start().starts_with("success=")) => {
            RunFile::parse(NO_RUN_FILE, "the command line", &args.set).users()?
        }
        None => {
            return Err(CliError::mistake(
                "without a run file nothing says what counts as solved; give one, or --set success=REWARD.COMPONENT or \
                 --set success=environment.FACT",
            ));
        }
    };
    let (plugins, _) = registry::gather(&args.plugins, args.fetch, None, printer)?;
    let beside = args.run.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let assets = AssetFiles::pin(&mut file, beside, None)?;
    Ok(Course { file, plugins, assets })
}

/// Where the parts of a checkpoint are, if single seats have models of their own: its folder's folder and its name.
fn parts(file: &RunFile, checkpoint: &Checkpoint) -> CliResult<Option<(std::path::PathBuf, String)>> {
    let separate = file.seats.iter().find(|(_, seat)| seat.policy == SeatPolicy::Separate);
    let Some((seat, _)) = separate else { return Ok(None) };
    let Checkpoint::Folder(folder) = checkpoint else {
        return Err(CliError::mistake(format!(
            "seats.{seat} has a model of its own, which lies beside a run's checkpoint; give that checkpoint's folder"
        )));
    };
    let whole =
        folder.canonicalize().users_as(format!("`{}` cannot be looked at; check the path", folder.display()))?;
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(whole.parent().map(Path::to_owned).zip(name))
}

/// Plays every attempt; fails when more than the share `limit` meets a failure.
async fn play(player: Player, batch: &Batch, limit: f64, printer: &Printer) -> CliResult<Played> {
    let (cast, rollout) = (player.cast.clone(), Arc::clone(&player.rollout));
    let progress = printer.progress("eval", 0, batch.tasks.len() as u64);
    let mut flights = Flights::new(player);
    let _flight = flights.start(batch);
    let mut ended: Vec<(usize, Attempt)> = Vec::new();
    let (mut failures, mut last) = (Failures::default(), None);
    let (mut done, mut dropped, mut failed) = (0, 0, 0);
    while let Some(arrival) = flights.next().await {
        let Arrival { place, records, .. } = arrival?;
        for record in &records {
            check(&rollout, record)?;
            failures.count(record);
            last = last_failure(record).or(last);
            match attempt(record, &cast) {
                Some(attempt) => ended.push((place, attempt)),
                None => dropped += 1,
            }
            failed += usize::from(!record.failures.is_empty());
        }
        done += 1;
        let solved = ended.iter().filter(|(_, attempt)| attempt.success).count();
        progress.at(done, &format!("success {:.1} %", 100.0 * solved as f64 / ended.len().max(1) as f64));
    }
    failures.judge(limit, last)?;
    // In the order of tasks, so that sums do not depend on which episode was faster.
    ended.sort_by_key(|(place, _)| *place);
    Ok(Played { attempts: ended.into_iter().map(|(_, attempt)| attempt).collect(), dropped, failed })
}

fn check(rollout: &Rollout, record: &EpisodeRecord) -> CliResult<()> {
    rollout.check_facts(record).map_err(|error| assembly::with_nearest_name(&error))
}

/// What an episode says of the model; nothing if the host gave it up.
fn attempt(record: &EpisodeRecord, cast: &Cast) -> Option<Attempt> {
    let own = |seat: &u32| cast.own_seats().contains(seat);
    let is_turn = |turn: &&gymkhana_episode::PolicyTurn| own(&turn.seat) && turn.note.is_none();
    let is_call = |turn: &&Turn| matches!(turn, Turn::Call { seat, .. } if own(seat));
    (record.ending != Ending::Dropped).then(|| Attempt {
        task: record.task.index,
        success: record.success,
        turns: record.policy_turns.iter().filter(is_turn).count(),
        calls: record.turns.iter().filter(is_call).count(),
        reward: cast.own_seats().iter().filter_map(|seat| record.rewards.get(*seat as usize)).sum(),
    })
}

fn as_json(
    model: Option<&Checkpoint>,
    split: &str,
    samples: u32,
    played: &Played,
    figures: &Figures,
) -> CliResult<String> {
    let mut text = json!({ "schema": SCHEMA, "model": model, "split": split, "samples": samples });
    let figures = serde_json::to_value(figures).ours()?;
    if let (Some(text), serde_json::Value::Object(figures)) = (text.as_object_mut(), figures) {
        text.extend(figures);
        text.insert("dropped".into(), played.dropped.into());
        text.insert("failed".into(), played.failed.into());
    }
    Ok(format!("{text:#}"))
}

fn print(split: &str, samples: u32, played: &Played, figures: &Figures, printer: &Printer) {
    let row = |name: &str, value: String| printer.result(format!("{name:>18}  {value}"));
    row("split", split.to_owned());
    row("tasks", format!("{}, {samples} attempts each, {} episodes", figures.tasks, figures.episodes));
    for (name, count) in [("dropped", played.dropped), ("failed", played.failed)] {
        if count > 0 {
            row(name, count.to_string());
        }
    }
    let error = figures.success_error.map(|error| format!(" ± {error:.3}")).unwrap_or_default();
    row("success", format!("{:.3}{error}", figures.success));
    for (k, pass) in &figures.pass_at {
        row(&format!("pass@{k}"), format!("{pass:.3}"));
    }
    for (k, pass) in &figures.pass_hat {
        row(&format!("pass^{k}"), format!("{pass:.3}"));
    }
    row("reward", format!("{:.3}", figures.reward));
    let calls = figures.calls_per_success.map_or("none solved".to_owned(), |calls| format!("{calls:.2}"));
    row("calls per success", calls);
    row("calls per episode", format!("{:.2}", figures.calls_per_episode));
    printer.result("");
    printer.result(format!("{:>18}  {:>7}  {:>7}  {:>13}", "turns", "ended", "solved", "solved so far"));
    for at in &figures.by_turn {
        printer.result(format!("{:>18}  {:>7}  {:>7}  {:>13.3}", at.turns, at.ended, at.solved, at.solved_so_far));
    }
}
