//! PyTorch in processes of its own as the run's trainer.

use std::path::Path;
use std::sync::Arc;

use gymkhana_config::{RunFile, TorchSection};
use gymkhana_engine::message::{EngineAnswer, EngineRequest, MessageTensors, OpenLora, OpenModel, OpenedModel};
use gymkhana_orchestration::{Classify, Reporter, RunError, RunResult};
use gymkhana_policy::ServerFailure;
use gymkhana_record::Seed;
use gymkhana_torch::{TorchChild, TorchDevice, TorchEngine, TorchError, TorchPolicy, TorchSettings};
use gymkhana_trainer::{Accelerator, Precision};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::outside::{Known, Outside, OutsideEngine, opened};

/// Folder of a checkpoint with the state of the optimizer and of the reference policy.
const STATE: &str = "trainer";

/// What a checkpoint holds of the engine besides its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TorchState {
    optimizer_steps: u64,
    /// Whether the state has a reference policy.
    reference: bool,
}

impl OutsideEngine for TorchEngine {
    const FILE: &'static str = "torch.json";
    type State = TorchState;
    type Policy = TorchPolicy;

    async fn begin(&mut self, reference: bool) -> Result<(), TorchError> {
        self.begin_stage(reference).await
    }

    async fn publish(&mut self, policy: &TorchPolicy, version: u32) -> Result<(), TorchError> {
        if policy.version() == Some(version) {
            return Ok(());
        }
        TorchEngine::publish(self, version).await?;
        policy.set_version(version);
        Ok(())
    }

    fn gave_up(policy: &TorchPolicy) -> Option<ServerFailure> {
        policy.gave_up()
    }

    fn save(&mut self, folder: &Path, _name: &str) -> Result<TorchState, TorchError> {
        TorchEngine::save(self, folder, &folder.join(STATE))?;
        Ok(TorchState {
            optimizer_steps: gymkhana_engine::Engine::optimizer_steps(self),
            reference: self.has_reference(),
        })
    }

    fn export(&mut self, folder: &Path) -> Result<(), TorchError> {
        TorchEngine::export(self, folder)
    }
}

/// Starts the processes and loads the model, or the checkpoint in `left_off`. `first` is the folder of the run's model.
pub(super) async fn start(
    section: &TorchSection,
    file: &RunFile,
    first: &Path,
    left_off: Option<&Path>,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Outside<TorchEngine>> {
    let (description, saved) = opened::<TorchEngine>(first, left_off)?;
    let child = Arc::new(TorchChild::start(&settings(section, file)).await.user_error()?);
    let hello = child.hello();
    reporter.status(&format!(
        "PyTorch {} with transformers {}: {} on {}",
        hello.torch,
        hello.transformers,
        if hello.ranks == 1 { "one process".to_owned() } else { format!("{} processes", hello.ranks) },
        hello.device
    ));
    let seed = Seed(file.seed).child("trainer");
    // Adapters belong to the first model; other weights of a checkpoint are a model of their own.
    let model = left_off.filter(|_| file.policy.lora.is_none()).unwrap_or(first);
    let open = OpenModel {
        model: absolute(model)?,
        state: left_off.map(|folder| absolute(&folder.join(STATE))).transpose()?,
        reference: saved.as_ref().is_some_and(|saved| saved.engine.reference),
        dtype: match file.policy.precision {
            Precision::Float32 => "float32".to_owned(),
            Precision::Bfloat16 => "bfloat16".to_owned(),
        },
        checkpointing: file.policy.activation_checkpointing,
        lora: file.policy.lora.as_ref().map(|lora| OpenLora {
            rank: lora.rank.into(),
            alpha: lora.alpha,
            seed: seed.child("adapter").0,
        }),
        optimizer: section.optimizer.name().to_owned(),
        seed: seed.0,
    };
    let opened =
        child.ask("load the model", EngineRequest::Open(open), &MessageTensors::new()).await.user_error()?.answer;
    let EngineAnswer::Opened(OpenedModel { parameters, vocabulary, context, .. }) = opened else {
        return Err(RunError::internal("PyTorch answered to the request for a model with something else"));
    };
    let context = file.context_tokens().map_or(context, |tokens| tokens.min(context));
    let policy = TorchPolicy::new(Arc::clone(&child), section.requests, vocabulary, context);
    let (steps, reference) =
        saved.as_ref().map_or((0, false), |saved| (saved.engine.optimizer_steps, saved.engine.reference));
    let mut engine = TorchEngine::new(child, steps, reference, Handle::current());
    let version = saved.as_ref().map_or(0, |saved| saved.weight_version);
    OutsideEngine::publish(&mut engine, &policy, version).await.user_error()?;
    let known = Known { description, parameter_count: parameters, vocabulary, seed };
    Ok(Outside::new(known, engine, policy, saved))
}

fn settings(section: &TorchSection, file: &RunFile) -> TorchSettings {
    TorchSettings {
        python: section.python.clone(),
        processes: section.processes,
        device: match file.policy.device {
            Accelerator::Cpu => TorchDevice::Cpu,
            Accelerator::Cuda => TorchDevice::Cuda,
        },
        threads: file.threads,
        start: section.start(),
        answer: section.timeout(),
    }
}

/// A path that the processes can open.
fn absolute(path: &Path) -> RunResult<String> {
    let absolute = std::path::absolute(path).user_context(format!("`{}` cannot be opened", path.display()))?;
    Ok(absolute.to_string_lossy().into_owned())
}
