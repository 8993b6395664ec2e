//! Policies of the environment's seats: the run's policy, further models, or the environment's oracle.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gymkhana_policy::Policy;
use gymkhana_policy_server::ServerPool;
use gymkhana_record::{Seed, StepMetrics};
use gymkhana_rollout::{PluginSet, SeatPlayer};
use gymkhana_trainer::{Accelerator, Footprint, ModelFiles, Trainer, TrainerSettings};

pub(crate) mod frozen;
mod learner;
pub(crate) mod weight_sync;

use crate::checkpoint_name::CheckpointName;
use crate::remote;
use crate::setup::models::Models;
use frozen::Frozen;
use gymkhana_config::{Checkpoint, RunFile, SeatBinding, SeatSection};
use gymkhana_orchestration::seat_players::SeatPlayers;
use gymkhana_orchestration::seats::{Binding, bindings};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_orchestration::{OnHost, machine};
use learner::ModelTrainer;

/// A model and its seats.
#[derive(Clone)]
pub(crate) struct SeatModel {
    /// Number and name of the seat that owns the model; absent for the run's policy.
    own: Option<(u32, String)>,
    /// Generates, and trains the model if `trained`.
    pub trainer: ModelTrainer,
    /// Inference servers that generate instead of the engine, if any.
    server: Option<OnHost<ServerPool>>,
    /// Whether the weights are trained.
    trained: bool,
    /// Seats that the model plays.
    pub seats: Vec<u32>,
}

impl SeatModel {
    /// Prefixes metrics with the seat's name, so that names are unique across models.
    pub fn named(&self, measured: StepMetrics) -> StepMetrics {
        match self.seat_name() {
            Some(name) => measured.of_seat(name),
            None => measured,
        }
    }

    /// Name of the seat that owns the model; `None` for the run's policy.
    pub fn seat_name(&self) -> Option<&str> {
        self.own.as_ref().map(|(_, name)| name.as_str())
    }

    /// The generating side: the server if there is one, else the engine.
    fn generator(&self) -> &dyn Policy {
        match &self.server {
            Some(server) => server,
            None => self.trainer.policy(),
        }
    }

    /// Name of the model's part of a checkpoint.
    pub fn checkpoint(&self, checkpoint: &str) -> String {
        self.own.as_ref().map_or_else(|| checkpoint.to_owned(), |(seat, _)| part(checkpoint, *seat))
    }
}

/// Separator between a checkpoint's name and a seat number.
const SEAT: &str = "-seat";

/// Name of a separate seat's part: it holds the seat's number, because a seat's name may not be a valid file name.
fn part(checkpoint: &str, seat: u32) -> String {
    format!("{checkpoint}{SEAT}{seat}")
}

/// The checkpoint of which a folder's name is a part.
pub(crate) fn checkpoint_of(part: &str) -> Option<CheckpointName> {
    let name = part.split_once(SEAT).map_or(part, |(name, _)| name);
    name.to_owned().try_into().ok()
}

/// Reports whether a folder's name is a part of a checkpoint.
pub(crate) fn is_part_of(name: &str, checkpoint: &str) -> bool {
    name.strip_prefix(checkpoint).is_some_and(|rest| rest.is_empty() || rest.starts_with(SEAT))
}

/// Models of all seats.
#[derive(Clone)]
pub(crate) struct SeatPolicies {
    /// The run's policy first, then the models of single seats.
    models: Vec<SeatModel>,
    /// Seat names.
    pub seats: Vec<String>,
    /// Digests of frozen models.
    pub frozen: Frozen,
}

impl SeatPolicies {
    /// Trainer of the run's policy.
    pub fn policy(&self) -> &ModelTrainer {
        &self.models[0].trainer
    }

    /// Inference servers of the run's policy, if any.
    pub fn server(&self) -> Option<&ServerPool> {
        self.models[0].server.as_ref().map(OnHost::client)
    }

    /// Sets the inference servers of the run's policy. Their requests run on the current runtime.
    pub fn serve(&mut self, server: Arc<ServerPool>) {
        self.models[0].server = Some(OnHost::new(server));
    }

    /// Each model of this process: its seat name (absent for the run's policy), whether it is trained, and its memory.
    pub fn footprints(&self) -> impl Iterator<Item = (Option<&str>, bool, Footprint)> {
        let own = |model: &'_ SeatModel| model.trainer.own().map(Trainer::footprint);
        self.models.iter().filter_map(move |model| Some((model.seat_name(), model.trained, own(model)?)))
    }

    /// What a user should know of the models of this process, each once.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.models.iter().filter_map(|model| model.trainer.own()).flat_map(Trainer::warnings);
        all.collect::<std::collections::BTreeSet<String>>().into_iter().collect()
    }

    /// Seats that the run's policy plays.
    pub fn own_seats(&self) -> &[u32] {
        &self.models[0].seats
    }

    /// Trained models, the run's policy first.
    pub fn trained(&self) -> impl Iterator<Item = &SeatModel> {
        self.models.iter().filter(|model| model.trained)
    }

    /// Seats of each trained model.
    pub fn trained_seats(&self) -> Vec<Vec<u32>> {
        self.trained().map(|model| model.seats.clone()).collect()
    }

    /// Smallest context length of all models, in tokens.
    pub fn context(&self) -> usize {
        self.models.iter().map(|model| model.generator().context()).min().unwrap_or(0)
    }

    /// Idle time of each model, by its seat's name or as `policy`.
    pub fn idle(&self) -> Vec<(String, Duration)> {
        let name = |model: &SeatModel| model.seat_name().unwrap_or("policy").to_owned();
        self.models.iter().map(|model| (name(model), model.trainer.idle())).collect()
    }
}

impl SeatPlayers for SeatPolicies {
    fn players(&self) -> Vec<SeatPlayer<'_>> {
        let model = |seat| self.models.iter().find(|model| model.seats.contains(&seat));
        let player = |seat| model(seat).map_or(SeatPlayer::Oracle, |model| SeatPlayer::Policy(model.generator()));
        (0..self.seats.len() as u32).map(player).collect()
    }
}

/// Settings of the models; `slots` is the number of sequences that each generates concurrently.
pub(crate) fn settings(file: &RunFile, slots: usize) -> TrainerSettings {
    TrainerSettings {
        threads: file.threads,
        max_concurrent_sequences: slots,
        // Episodes cannot exceed the context limit.
        context: file.context_tokens(),
        deterministic: file.deterministic,
        seed: Seed(file.seed).child("trainer"),
        device: file.policy.device,
        precision: file.policy.precision,
        output_precision: file.policy.output_precision,
        logits_chunk_mib: file.policy.logits_chunk_mib,
        cache_mib: cache_mib(file),
        lora: file.policy.lora.clone(),
        ..TrainerSettings::default()
    }
}

/// Bound of the keys and values, in MiB: what the run file says, else half of the available memory of the processor.
/// It is divided among the run's policy and the seats with models of their own.
fn cache_mib(file: &RunFile) -> Option<usize> {
    let own = |seat: &&SeatSection| matches!(seat.policy, SeatBinding::Frozen | SeatBinding::Separate);
    let models = 1 + file.rules.seats.values().filter(own).count() as u64;
    let share = || Some(usize::try_from((machine::memory()?.available >> 21) / models).unwrap_or(usize::MAX).max(1));
    let on_cpu = file.policy.device == Accelerator::Cpu;
    file.policy.cache_mib.or_else(|| if on_cpu { share() } else { None })
}

/// Starts the models: from the last checkpoint in `left_off`, else as the run file says, with the models in `given`.
/// `begun` holds the digests of frozen models at the start of the run.
pub(crate) async fn start(
    file: &RunFile,
    given: &Models,
    plugins: &PluginSet,
    settings: &TrainerSettings,
    left_off: Option<(&Path, &str)>,
    begun: &Frozen,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<SeatPolicies> {
    let bindings = bindings(&file.rules.seats, plugins.seat_names());
    let shared = bindings.iter().filter(|binding| binding.section.policy == SeatBinding::Shared);
    let seats = shared.map(|binding| binding.seat).collect();
    // With an inference server, the model only trains and scores.
    let slots = if file.policy.server.is_some() { 1 } else { settings.max_concurrent_sequences };
    let own = TrainerSettings { max_concurrent_sequences: slots, ..settings.clone() };
    let checkpoint = left_off.map(|(folder, checkpoint)| folder.join(checkpoint));
    let trainer = match (&file.trainer, &file.policy.checkpoint, checkpoint.as_deref()) {
        (Some(section), Some(first), saved) => {
            ModelTrainer::Remote(remote::start(section, file, given.folder(first)?, saved, reporter).await?)
        }
        (_, _, Some(saved)) => ModelTrainer::Own(reopen(saved, &own)?),
        (_, _, None) => ModelTrainer::Own(first_weights(file, given, &own)?),
    };
    let mut models = vec![SeatModel { own: None, trainer, server: None, trained: true, seats }];
    let mut frozen = Frozen::new();
    for Binding { seat, name, section } in bindings {
        let trained = match section.policy {
            SeatBinding::Shared | SeatBinding::Oracle => continue,
            SeatBinding::Frozen => false,
            SeatBinding::Separate => true,
        };
        let learns = trained && settings.learns;
        let settings = TrainerSettings { seed: settings.seed.child("seat").child(seat), learns, ..settings.clone() };
        let trainer = match (left_off.filter(|_| trained), &section.checkpoint) {
            (Some((folder, checkpoint)), _) => reopen(&folder.join(part(checkpoint, seat)), &settings)?,
            (None, Some(checkpoint)) => {
                let unusable = format!("seats.{name}.checkpoint cannot be used\nhint: name the folder of a model");
                Trainer::open(given.folder(checkpoint)?, &settings).user_context(unusable)?
            }
            (None, None) => first_weights(file, given, &settings)?,
        };
        same_format(models[0].trainer.files(), trainer.files(), name)?;
        // A commit of a hub is immutable; a folder is hashed.
        let weights = section.checkpoint.as_ref().or(file.policy.checkpoint.as_ref());
        if let Some(Checkpoint::Folder(folder)) = weights.filter(|_| !trained) {
            let digest = frozen::digest(folder)?;
            frozen::check(begun, name, folder, &digest)?;
            frozen.insert(name.to_owned(), digest);
        }
        let trainer = ModelTrainer::Own(trainer);
        models.push(SeatModel {
            own: Some((seat, name.to_owned())),
            trainer,
            server: None,
            trained,
            seats: vec![seat],
        });
    }
    Ok(SeatPolicies { models, seats: plugins.seat_names().to_vec(), frozen })
}

/// Opens a model from a checkpoint of the run.
fn reopen(path: &Path, settings: &TrainerSettings) -> RunResult<Trainer> {
    let damaged = format!("`{}` cannot be used\nhint: restore it, or start a new run in another --out", path.display());
    Trainer::open(path, settings).user_context(damaged)
}

/// Initial weights of the run's policy.
fn first_weights(file: &RunFile, models: &Models, settings: &TrainerSettings) -> RunResult<Trainer> {
    if let Some(checkpoint) = &file.policy.checkpoint {
        return Trainer::open(models.folder(checkpoint)?, settings).user_error();
    }
    let tiny = file.policy.tiny.clone().unwrap_or_default();
    Trainer::create(&tiny, settings).user_error()
}

/// Rejects a model with another chat format, because all seats of an episode share one.
fn same_format(policy: &ModelFiles, other: &ModelFiles, seat: &str) -> RunResult<()> {
    let text = |files: &ModelFiles, wanted: &str| {
        files.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.to_owned())
    };
    let differs = |name: &&str| text(policy, name) != text(other, name);
    match ["tokenizer.json", "chat_template.jinja"].into_iter().find(differs) {
        Some(name) => Err(RunError::user(format!(
            "the model of seats.{seat} has another {name} than the run's policy, but all seats share one chat \
             format\nhint: use a model of the same family"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_checkpoint_are_recognised() {
        for part in ["0-000010", "0-000010-seat1", "0-000010-seat12"] {
            assert!(is_part_of(part, "0-000010"), "{part}");
        }
        for other in ["0-0000101", "0-000010-old", "1-000010", "0-00001"] {
            assert!(!is_part_of(other, "0-000010"), "{other}");
        }
    }
}
