//! Memory of a run's policy beside what the machine has, before the model is opened.

use gymkhana_config::RunFile;
use gymkhana_orchestration::{RunError, RunResult, machine};
use gymkhana_trainer::{Accelerator, Footprint, Lora, ModelConfig, Module, MomentFormat, TrainerSettings};

use super::phases::Pinned;
use crate::plan::StageMemory;
use crate::seats;

/// Rank of the adapters that a hint proposes.
const RANK: u32 = 16;
/// Tokens of a pass that a hint proposes.
const FEW_TOKENS: usize = 1024;

/// Refuses a run whose policy cannot fit into the memory of the processor, with what takes how much and with settings that
/// would fit. The memory of a GPU is not known here, and a resumed run continues with a model that has fitted before.
pub(super) fn fits(run: &Pinned) -> RunResult<()> {
    let file = &run.file;
    if run.resumed.as_ref().is_some_and(|resumed| resumed.state.is_some()) {
        return Ok(());
    }
    let (Some(checkpoint), None, Accelerator::Cpu) = (&file.policy.checkpoint, &file.trainer, file.policy.device)
    else {
        return Ok(());
    };
    let path = run.models.folder(checkpoint)?.join("config.json");
    // A model that cannot be read is refused when it is opened.
    let Ok(config) = ModelConfig::read(&path) else { return Ok(()) };
    machine::memory().map_or(Ok(()), |memory| check(file, &config, memory.available))
}

/// Compares the memory of a run with what is available, both in bytes.
fn check(file: &RunFile, config: &ModelConfig, available: u64) -> RunResult<()> {
    let needed = of(file, config)?;
    if total(&needed) <= available {
        return Ok(());
    }
    let mut fitting = Vec::new();
    for (words, smaller) in smaller(file) {
        let bytes = total(&of(&smaller, config)?);
        if bytes <= available {
            fitting.push(format!("{words} ({})", gigabytes(bytes)));
        }
    }
    let parts: Vec<String> = needed.iter().map(|(part, bytes)| format!("{part} {}", gigabytes(*bytes))).collect();
    let hint = match &fitting[..] {
        [] => "use a machine with more memory, or a smaller model".to_owned(),
        fitting => format!("set {}, or use a machine with more memory", fitting.join(" or ")),
    };
    Err(RunError::user(format!(
        "the run needs about {} of memory, and {} are available: {}\nhint: {hint}",
        gigabytes(total(&needed)),
        gigabytes(available),
        parts.join(" + ")
    )))
}

/// Bytes of the policy by their use. The cache of keys and values takes what is left, but at least a conversation of full
/// length.
fn of(file: &RunFile, config: &ModelConfig) -> RunResult<Vec<(&'static str, u64)>> {
    let learns = !file.stages.is_empty();
    let own = TrainerSettings { learns, ..seats::settings(file, file.policy.max_concurrent_sequences) };
    let least = if file.deterministic { own } else { TrainerSettings { max_concurrent_sequences: 1, ..own } };
    let context = least.context.unwrap_or(usize::MAX).min(usize::try_from(config.positions()).unwrap_or(usize::MAX));
    let footprint = Footprint::of(config, &least, context);
    let mut parts = StageMemory::of(file, None)?.of_model(footprint, learns);
    if learns {
        let policy = &file.policy;
        let tokens = policy.micro_batch_tokens;
        let kept = config.activation_bytes(tokens, policy.precision, policy.activation_checkpointing);
        parts.push(("activations", kept));
    }
    Ok(parts)
}

/// The run with settings that take less memory, in words.
fn smaller(file: &RunFile) -> Vec<(String, RunFile)> {
    let recomputed = |file: &RunFile| {
        let mut file = file.clone();
        file.policy.activation_checkpointing = true;
        file.policy.micro_batch_tokens = file.policy.micro_batch_tokens.min(FEW_TOKENS);
        file
    };
    let adapted = |file: &RunFile| {
        let mut file = file.clone();
        let lora = Lora { rank: RANK, alpha: f64::from(2 * RANK), modules: Module::all() };
        file.policy.lora.get_or_insert(lora);
        file
    };
    let coded = |file: &RunFile| {
        let mut file = file.clone();
        file.stages.iter_mut().for_each(|stage| stage.optimizer_mut().moments = MomentFormat::Int8);
        file
    };
    let (passes, adapters) = (
        format!("policy.activation_checkpointing = true and policy.micro_batch_tokens = {FEW_TOKENS}"),
        format!("policy.lora = {{ rank = {RANK}, alpha = {} }}", 2 * RANK),
    );
    vec![
        (passes.clone(), recomputed(file)),
        ("optimizer.moments = \"int8\" in each stage".to_owned(), coded(file)),
        (adapters.clone(), adapted(file)),
        (format!("{passes} and {adapters}"), recomputed(&adapted(file))),
    ]
}

fn total(parts: &[(&'static str, u64)]) -> u64 {
    parts.iter().map(|(_, bytes)| bytes).sum()
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A model of 135 million parameters in float32 with its gradients and moments takes 2.2 GB.
    #[test]
    fn a_run_that_cannot_fit_is_refused_with_settings_that_would() {
        let keys = r#"{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
            "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": true,
            "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000}"#;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.json");
        std::fs::write(&path, keys).expect("written");
        let config = ModelConfig::read(Path::new(&path)).expect("a model");
        assert_eq!(config.parameter_count(), 134_515_008);
        let text = "success = \"environment.success\"\n\
            [[stages]]\nkind = \"rl\"\nname = \"rl\"\nalgorithm = \"grpo\"\nsteps = 1\ngroups = 2\ngroup_size = 2\n";
        let file = RunFile::parse(text, "run.toml", &[]).expect("a run file");
        let gigabyte = 1_000_000_000;
        check(&file, &config, 24 * gigabyte).expect("enough");
        let message = check(&file, &config, 3 * gigabyte).expect_err("too little").to_string();
        for part in ["weights 0.5 GB", "gradients 0.5 GB", "moments of AdamW 1.1 GB", "hint: set policy."] {
            assert!(message.contains(part), "{message}");
        }
        let message = check(&file, &config, gigabyte / 10).expect_err("nearly nothing").to_string();
        assert!(message.ends_with("hint: use a machine with more memory, or a smaller model"), "{message}");
    }
}
