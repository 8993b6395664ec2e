//! Writes a checkpoint and what our model computes with it: `write_checkpoint FOLDER LOGITS.safetensors [FROM]`.
//! It begins as the model in the folder FROM, or as a tiny one. `tests/peers/check_checkpoint.py` compares them with
//! transformers.

use std::path::PathBuf;

use gymkhana_episode::{Seed, Segment};
use gymkhana_trainer::model::Model;
use gymkhana_trainer::{Settings, SftSettings, TinyModel, Trainer};
use tch::{Device, Tensor};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let settings = Settings { seed: Seed(1), ..Settings::default() };
    let (folder, logits_file, trainer) = match &paths[..] {
        [folder, logits] => (folder, logits, Trainer::create(&TinyModel::default(), &settings)?),
        [folder, logits, from] => (folder, logits, Trainer::open(from, &settings)?),
        _ => return Err("write_checkpoint FOLDER LOGITS.safetensors [FROM]".into()),
    };
    // A step, so that biases and norms are not what every model begins with.
    let mut segment = Segment::default();
    segment.append_given(&[257, 117, 50, 43, 50, 258, 257, 97], 0, 0);
    segment.append_given(&[52, 258], 0, 0);
    segment.sampled[8..].fill(true);
    trainer.sft_step(&[segment], &SftSettings::default()).await?;
    trainer.save(folder, &serde_json::Value::Null).await?;
    let model = Model::open(folder, Device::Cpu)?;
    let tokens: Vec<u32> = (0..model.positions().min(300) as u32).map(|index| index * 7 % 263).collect();
    let logits = model.logits(&tokens)?;
    let tokens: Vec<i32> = tokens.into_iter().map(|token| token as i32).collect();
    Tensor::write_safetensors(&[("tokens", Tensor::from_slice(&tokens)), ("logits", logits)], logits_file)?;
    Ok(())
}
