//! A Tinker server as the run's trainer.

use std::path::Path;
use std::sync::Arc;

use gymkhana_config::{LossReduction, RunFile, TinkerSection};
use gymkhana_orchestration::grants::secret;
use gymkhana_orchestration::server::status_sink;
use gymkhana_orchestration::{Classify, Reporter, RunResult};
use gymkhana_policy::ServerFailure;
use gymkhana_record::Seed;
use gymkhana_tinker::{
    Counters, LoraSettings, Reduction, TinkerClient, TinkerEngine, TinkerError, TinkerModel, TinkerPolicy,
    TinkerSettings,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::outside::{Known, Outside, OutsideEngine, opened};

/// What a checkpoint holds of the model on the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TinkerState {
    /// Path of the weights and of the optimiser's state.
    path: String,
    /// Path of the reference policy's weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    optimizer_steps: u64,
}

impl OutsideEngine for TinkerEngine {
    const FILE: &'static str = "tinker.json";
    type State = TinkerState;
    type Policy = TinkerPolicy;

    /// The server keeps its optimiser's state.
    async fn begin(&mut self, reference: bool) -> Result<(), TinkerError> {
        self.counters.optimizer_steps = 0;
        if reference { self.refer_to_current().await } else { self.set_reference(None).await }
    }

    async fn publish(&mut self, policy: &TinkerPolicy, version: u32) -> Result<(), TinkerError> {
        // A new adapter changes nothing, so that the base model samples like it.
        if version == 0 || policy.has_weights(version).await {
            return Ok(());
        }
        let path = self.save_for_sampling(version).await?;
        policy.load(path, version).await;
        Ok(())
    }

    fn gave_up(policy: &TinkerPolicy) -> Option<ServerFailure> {
        policy.gave_up()
    }

    /// The weights stay on the server.
    fn save(&mut self, _folder: &Path, name: &str) -> Result<TinkerState, TinkerError> {
        let path = self.save_as(name)?;
        let reference = self.reference().map(str::to_owned);
        Ok(TinkerState { path, reference, optimizer_steps: self.counters.optimizer_steps })
    }

    fn export(&mut self, _folder: &Path) -> Result<(), TinkerError> {
        Err(TinkerError::NoExport)
    }
}

/// Connects to the server and creates a model, or opens the one of a checkpoint in `left_off`. `first` is the folder of the
/// run's model.
pub(super) async fn start(
    section: &TinkerSection,
    file: &RunFile,
    first: &Path,
    left_off: Option<&Path>,
    reporter: &Arc<dyn Reporter>,
) -> RunResult<Outside<TinkerEngine>> {
    let (description, saved) = opened::<TinkerEngine>(first, left_off)?;
    let config = description.config().user_error()?;
    let key = section.key_env.as_ref().map(|env| secret(env, "trainer.key_env")).transpose()?;
    let (url, requests) = (section.url.clone(), section.request_policy());
    let settings = TinkerSettings { url, model: section.model.clone(), key, timeout: section.timeout(), requests };
    let client = Arc::new(TinkerClient::connect(settings, status_sink(reporter)).await.user_error()?);
    let seed = Seed(file.seed).child("trainer");
    let lora = LoraSettings { rank: section.rank, seed: (seed.child("adapter").0 >> 33) as u32 };
    let reduction = match section.reduction {
        LossReduction::Sum => Reduction::Sum,
        LossReduction::SequenceMean => Reduction::SequenceMean,
    };
    let model = match &saved {
        Some(saved) => TinkerModel::open(Arc::clone(&client), lora, reduction, &saved.engine.path).await,
        None => TinkerModel::create(Arc::clone(&client), lora, reduction).await,
    };
    let positions = usize::try_from(config.positions()).unwrap_or(usize::MAX);
    let context = file.context_tokens().map_or(positions, |tokens| tokens.min(positions));
    let vocabulary = usize::try_from(config.vocab_size).unwrap_or(0);
    let policy = TinkerPolicy::new(client, section.requests, vocabulary, context);
    let optimizer_steps = saved.as_ref().map_or(0, |saved| saved.engine.optimizer_steps);
    let mut engine = TinkerEngine::new(model.user_error()?, Counters { optimizer_steps, saved: 0 }, Handle::current());
    let reference = saved.as_ref().and_then(|saved| saved.engine.reference.clone());
    engine.set_reference(reference).await.user_error()?;
    let known = Known { parameter_count: config.parameter_count(), description, vocabulary, seed };
    Ok(Outside::new(known, engine, policy, saved))
}

#[cfg(test)]
mod tests {
    use gymkhana_trainer::Preset;

    use super::*;

    const FILE: &str = "success = \"environment.success\"\n[policy]\ncheckpoint = \"model\"\n[trainer]\nkind = \"tinker\"\nurl = \
                        \"http://127.0.0.1:1\"\n[[stages]]\nkind = \"rl\"\n";

    /// The page's table of presets.
    #[test]
    fn the_page_says_how_many_passes_each_preset_takes() {
        let page = include_str!("../../../../docs/how-to/train-on-a-tinker-server.md");
        let row = |passes: &str| {
            let line = page.lines().find_map(|line| line.strip_prefix(&format!("| {passes} | ")[..])).expect("a row");
            line.trim_end_matches(" |").split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>()
        };
        let mut found = ["one", "two", "refused"].map(|passes| (passes, Vec::new()));
        for name in Preset::names() {
            let flags = Preset::named(name).and_then(|preset| preset.algorithm()).expect("a preset");
            let is_run = RunFile::parse(FILE, "run.toml", &[format!("stages.rl.algorithm=\"{name}\"")]).is_ok();
            let place = if is_run { gymkhana_tinker::passes(&flags) as usize - 1 } else { 2 };
            found[place].1.push(name.to_owned());
        }
        for (passes, names) in found {
            assert_eq!(row(passes), names, "{passes}");
        }
    }
}
