//! Checkpoints: a folder that transformers loads, with additional files for resuming training.
//!
//! `config.json`, `model.safetensors` and the tokenizer's files form a Hugging Face model. `trainer/state.safetensors`
//! holds the optimiser's state. `average` holds the moving average of the weights, if there is one, as a model of its
//! own. `trainer.json` holds counters and the caller's position. `SHA256SUMS` holds the digest
//! of every other file, and is written last. The folder gets its name only when all files are on disk, so it is either
//! complete or refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tch::{Device, Tensor, no_grad_guard};

use crate::lora;
use crate::model::{EMBEDDING, Model, OUTPUT_LAYER};
use crate::stage::{Models, Stage, StageState};
use crate::storage::files::{ADAPTER_CONFIG, ModelFiles, check_base};
use crate::storage::token_count::TokenCount;
use crate::storage::{checksums, tensor_file, weight_files};
use crate::storage::{read_text, sync_folder, write_synced, write_whole};
use crate::{Lora, ModelConfig, StageModels, TrainerError, TrainerSettings};

/// Version of the format of `trainer.json`; it grows when an older reader would misread a file. Since schema 4, the
/// digests are in `SHA256SUMS`. Since schema 5, the optimiser's state is in a folder of its own.
const SCHEMA: u32 = 5;
/// Oldest schema that is read.
const OLDEST_SCHEMA: u32 = 4;
const CONFIG: &str = "config.json";
const WEIGHTS: &str = weight_files::SINGLE;
/// Folder of the optimiser's state: inference servers load every `*.safetensors` next to `config.json` as weights.
const STATE_FOLDER: &str = "trainer";
const STATE_TENSORS: &str = "trainer/state.safetensors";
/// Name of that file in schema 4.
const OLD_STATE_TENSORS: &str = "trainer.safetensors";
const STATE: &str = "trainer.json";
/// Files that every checkpoint has and lists in `SHA256SUMS`, in addition to the optimiser's state.
const REQUIRED: [&str; 3] = [CONFIG, WEIGHTS, STATE];
/// Adapters have a folder of their own, because transformers loads a folder with an adapter in it as an adapter only.
const ADAPTER: &str = "adapter";
/// Folder of the averaged model.
const AVERAGE: &str = "average";
const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointState {
    schema: u32,
    weight_version: u32,
    optimizer_steps: u64,
    stage_models: StageModels,
    /// LoRA adapters that are trained instead of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lora: Option<Lora>,
    stage_state: StageState,
    position: serde_json::Value,
}

impl CheckpointState {
    /// Path of the optimiser's state below the checkpoint's folder.
    fn tensors(&self) -> &'static str {
        if self.schema == OLDEST_SCHEMA { OLD_STATE_TENSORS } else { STATE_TENSORS }
    }
}

/// Data to write.
pub(crate) struct Snapshot<'a> {
    pub model: &'a Model,
    pub stage: &'a Stage,
    pub files: &'a ModelFiles,
    pub weight_version: u32,
    pub position: &'a serde_json::Value,
}

/// Data read from a checkpoint.
pub(crate) struct OpenedCheckpoint {
    pub model: Model,
    pub stage: Stage,
    pub files: ModelFiles,
    pub weight_version: u32,
    /// Position passed to [`save`]; `None` for a plain Hugging Face folder.
    pub position: Option<serde_json::Value>,
}

/// Writes a checkpoint to a folder that does not exist yet.
pub(crate) fn save(folder: &Path, snapshot: &Snapshot<'_>) -> Result<(), TrainerError> {
    write_whole(folder, |partial| write_all(partial, snapshot))
}

/// Writes only the model, for an inference server, to a folder that does not exist yet. An output layer that shares the
/// embedding's weights is written as a layer of its own: vLLM keeps the old one when it reloads a tied model.
pub(crate) fn export(folder: &Path, model: &Model, files: &ModelFiles) -> Result<(), TrainerError> {
    let mut weights = merged(model);
    if model.config().tie_word_embeddings {
        let embedding = weights.iter().find(|(name, _)| name == EMBEDDING).map(|(_, tensor)| tensor.shallow_clone());
        weights.extend(embedding.map(|tensor| (OUTPUT_LAYER.to_owned(), tensor)));
    }
    write_whole(folder, |partial| {
        write_model(partial, &model.config().untied(), &weights, files)?;
        sync_folder(partial)
    })
}

/// Copies the model of a Hugging Face folder or of a checkpoint to a folder that does not exist yet, in the form in
/// which [`Trainer::export`](crate::Trainer::export) writes it for an inference server.
///
/// # Errors
/// If a model cannot be read or written.
pub fn export_model(from: &Path, to: &Path) -> Result<(), TrainerError> {
    let settings = TrainerSettings { learns: false, ..TrainerSettings::default() };
    let OpenedCheckpoint { model, files, .. } = open(from, &settings, Device::Cpu)?;
    export(to, &model, &files)
}

/// The model's weights, with the adapters' terms added.
fn merged(model: &Model) -> Vec<(String, Tensor)> {
    model.merged().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

fn write_model(
    partial: &Path,
    config: &ModelConfig,
    weights: &[(String, Tensor)],
    files: &ModelFiles,
) -> Result<(), TrainerError> {
    write_synced(&partial.join(CONFIG), config.to_json().as_bytes())?;
    for (name, text) in files.iter() {
        write_synced(&partial.join(name), text.as_bytes())?;
    }
    tensor_file::write(&partial.join(WEIGHTS), weights)
}

/// Writes the moving average of the weights as a model of its own. Returns the names of its files.
fn write_average(partial: &Path, snapshot: &Snapshot<'_>) -> Result<Vec<String>, TrainerError> {
    let Some(average) = snapshot.stage.models.average.parameters() else { return Ok(Vec::new()) };
    let folder = partial.join(AVERAGE);
    std::fs::create_dir(&folder).map_err(TrainerError::file("create", &folder))?;
    let weights: Vec<(String, Tensor)> =
        snapshot.model.merged_with(average).map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    write_model(&folder, snapshot.model.config(), &weights, snapshot.files)?;
    sync_folder(&folder)?;
    let names = snapshot.files.iter().map(|(name, _)| name).chain([CONFIG, WEIGHTS]);
    Ok(names.map(|name| format!("{AVERAGE}/{name}")).collect())
}

/// Writes the adapters separately, for PEFT to load with the model from which training began.
fn write_adapter(partial: &Path, model: &Model, lora: &Lora) -> Result<(), TrainerError> {
    let folder = partial.join(ADAPTER);
    std::fs::create_dir(&folder).map_err(TrainerError::file("create", &folder))?;
    let halves = model.trained().named();
    let named: Vec<(String, Tensor)> =
        halves.map(|(name, tensor)| (format!("base_model.model.{name}"), tensor.shallow_clone())).collect();
    tensor_file::write(&folder.join(ADAPTER_WEIGHTS), &named)?;
    write_synced(&folder.join(ADAPTER_CONFIG), format!("{:#}", lora::config(lora, model.trained())).as_bytes())?;
    sync_folder(&folder)
}

fn write_models(partial: &Path, model: &Model, models: &Models) -> Result<(), TrainerError> {
    let folder = partial.join(STATE_FOLDER);
    std::fs::create_dir(&folder).map_err(TrainerError::file("create", &folder))?;
    tensor_file::write(&partial.join(STATE_TENSORS), &models.named(model)?)?;
    sync_folder(&folder)
}

fn write_all(partial: &Path, snapshot: &Snapshot<'_>) -> Result<(), TrainerError> {
    let model = snapshot.model;
    write_model(partial, model.config(), &merged(model), snapshot.files)?;
    write_models(partial, model, &snapshot.stage.models)?;
    let mut names: BTreeSet<String> = snapshot.files.iter().map(|(name, _)| name.to_owned()).collect();
    names.extend(REQUIRED.map(ToOwned::to_owned));
    names.insert(STATE_TENSORS.to_owned());
    names.extend(write_average(partial, snapshot)?);
    if let Some(lora) = model.lora() {
        write_adapter(partial, model, lora)?;
        names.extend([ADAPTER_WEIGHTS, ADAPTER_CONFIG].map(|name| format!("{ADAPTER}/{name}")));
    }
    let state = CheckpointState {
        schema: SCHEMA,
        weight_version: snapshot.weight_version,
        optimizer_steps: snapshot.stage.models.optimizer.steps(),
        stage_models: snapshot.stage.models.kinds(),
        lora: model.lora().cloned(),
        stage_state: snapshot.stage.state(),
        position: snapshot.position.clone(),
    };
    let path = partial.join(STATE);
    let text = serde_json::to_string(&state).map_err(|source| TrainerError::Json { path: path.clone(), source })?;
    write_synced(&path, text.as_bytes())?;
    checksums::write(partial, &names)?;
    sync_folder(partial)
}

/// Opens a checkpoint, or a plain Hugging Face folder as the start of training. Training state is read only if the
/// settings train the model with the adapters of the checkpoint. With other adapters or none, the checkpoint's adapters
/// stay merged into the weights, and the optimiser starts fresh.
pub(crate) fn open(
    folder: &Path,
    settings: &TrainerSettings,
    device: Device,
) -> Result<OpenedCheckpoint, TrainerError> {
    let incomplete = |problem: String| TrainerError::Folder { path: folder.to_owned(), problem };
    check_base(folder)?;
    let has_config = folder.join(CONFIG).is_file();
    if !has_config || weight_files::names(folder)?.is_none() {
        let name = if has_config { WEIGHTS } else { CONFIG };
        return Err(incomplete(format!(
            "`{name}` is missing\nhint: give a folder with a {CONFIG}, a {WEIGHTS} or a {}, and a tokenizer",
            weight_files::INDEX
        )));
    }
    let state = read_state(folder)?;
    let config = ModelConfig::read(&folder.join(CONFIG))?;
    let files = ModelFiles::read(folder)?;
    // A tokenizer that is not JSON is refused by its readers.
    TokenCount::of(files.tokenizer()).map_or(Ok(()), |count| count.check(&config)).map_err(incomplete)?;
    weight_files::check(folder, &config)?;
    let model = Model::of(config, settings, device)?;
    weight_files::fill(folder, &model)?;
    let goes_on = settings.learns && state.as_ref().is_some_and(|state| state.lora == settings.lora);
    let models =
        state.as_ref().filter(|_| goes_on).map_or_else(StageModels::default, |state| state.stage_models.clone());
    let teacher = open_teacher(&models, settings, device)?;
    let mut stage = Stage::new(&model, models, teacher)?;
    let Some(state) = state else {
        return Ok(OpenedCheckpoint { model, stage, files, weight_version: 0, position: None });
    };
    if goes_on {
        stage.models.begin(&model, &state.stage_state)?;
        read_models(&folder.join(state.tensors()), &model, &stage.models)?;
        stage.models.optimizer.set_steps(state.optimizer_steps);
        stage.restore(state.stage_state);
    }
    Ok(OpenedCheckpoint { model, stage, files, weight_version: state.weight_version, position: Some(state.position) })
}

/// Reads the model of a Hugging Face folder or of a checkpoint, without its training state. It is not trained.
///
/// # Errors
/// If the folder is incomplete, or the architecture is not supported.
pub fn open_model(folder: &Path, device: Device) -> Result<Model, TrainerError> {
    let settings = TrainerSettings { learns: false, ..TrainerSettings::default() };
    Ok(open(folder, &settings, device)?.model)
}

/// Reads the teacher of a stage, if it has one. Its passes have the precision of the model's.
pub(crate) fn open_teacher(
    models: &StageModels,
    settings: &TrainerSettings,
    device: Device,
) -> Result<Option<Model>, TrainerError> {
    let TrainerSettings { precision, output_precision, .. } = *settings;
    let settings = TrainerSettings { learns: false, precision, output_precision, ..TrainerSettings::default() };
    models.teacher.as_ref().map(|folder| Ok(open(folder, &settings, device)?.model)).transpose()
}

/// State of a checkpoint, after the digest of every file was verified; `None` for folders that are not checkpoints.
fn read_state(folder: &Path) -> Result<Option<CheckpointState>, TrainerError> {
    let path = folder.join(STATE);
    let incomplete = |problem: String| TrainerError::Folder { path: folder.to_owned(), problem };
    if !path.is_file() {
        // A list without it is that of a trainer outside of this process.
        let lists_state =
            || Ok::<_, TrainerError>(checksums::verify(folder)?.is_some_and(|names| names.contains(STATE)));
        if [STATE_TENSORS, OLD_STATE_TENSORS].iter().any(|name| folder.join(name).exists()) || lists_state()? {
            return Err(incomplete(format!("`{STATE}` is missing\nhint: use another checkpoint")));
        }
        return Ok(None);
    }
    let listed = checksums::verify(folder)?;
    let text = read_text(&path)?;
    let schema = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|state| state["schema"].as_u64());
    let readable = u64::from(OLDEST_SCHEMA)..=u64::from(SCHEMA);
    if let Some(schema) = schema.filter(|schema| !readable.contains(schema)) {
        return Err(incomplete(format!(
            "`{STATE}` has schema {schema}, not {OLDEST_SCHEMA} to {SCHEMA}\nhint: use the version that wrote it"
        )));
    }
    let Some(listed) = listed else {
        return Err(incomplete(format!("`{}` is missing\nhint: use another checkpoint", checksums::FILE)));
    };
    // The files that are read: those that must exist, and text files that exist.
    let present = ModelFiles::NAMES.into_iter().filter(|name| folder.join(name).exists());
    let state: CheckpointState = serde_json::from_str(&text).map_err(|source| TrainerError::Json { path, source })?;
    let required = REQUIRED.into_iter().chain([state.tensors()]);
    if let Some(name) = required.chain(present).find(|name| !listed.contains(*name)) {
        let list = checksums::FILE;
        return Err(incomplete(format!("`{list}` has no digest of `{name}`\nhint: use another checkpoint")));
    }
    Ok(Some(state))
}

fn read_models(path: &Path, model: &Model, models: &Models) -> Result<(), TrainerError> {
    let mut left: BTreeMap<String, Tensor> = models.named(model)?.into_iter().collect();
    let damaged = |problem: String| TrainerError::Weights { path: path.to_owned(), problem };
    tensor_file::read_state(path, |name, values| {
        let own = left.remove(name).ok_or_else(|| damaged(format!("unknown tensor `{name}`")))?;
        if values.size() != own.size() {
            return Err(damaged(format!("`{name}` has shape {:?} instead of {:?}", values.size(), own.size())));
        }
        // The copy of the handle writes to the learner's tensor.
        let _guard = no_grad_guard();
        own.shallow_clone().f_copy_(&values).map_err(TrainerError::torch("copied weights from a file"))
    })?;
    match left.keys().next() {
        None => Ok(()),
        Some(name) => Err(damaged(format!("`{name}` is missing"))),
    }
}
