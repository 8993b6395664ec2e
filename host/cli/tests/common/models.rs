//! Tiny models in folders.

use std::path::Path;

use gymkhana_record::Seed;
use gymkhana_trainer::{TinyModel, Trainer, TrainerSettings};

/// Writes a model with random weights from a seed; its context length is 320 tokens.
pub fn write_model(seed: u64, folder: &Path) {
    write_model_with_context(seed, 320, folder);
}

/// Writes a model with random weights from a seed and a context length in tokens.
pub fn write_model_with_context(seed: u64, context: u32, folder: &Path) {
    let tiny = TinyModel { layers: 1, width: 16, heads: 2, kv_heads: 1, mlp: 32, context };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let trainer = Trainer::create(&tiny, &TrainerSettings { seed: Seed(seed), ..TrainerSettings::default() })
            .expect("a model");
        trainer.save(folder, &serde_json::Value::Null).await.expect("saved");
    });
}
