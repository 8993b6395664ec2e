//! Writes a checkpoint and the logits that this trainer computes with it.
//!
//! Usage: `write_checkpoint FOLDER LOGITS.safetensors [FROM [adapted]]`. The model is that of the folder FROM, or a
//! tiny one; with `adapted`, LoRA adapters are trained. `tests/reference/check_checkpoint.py` compares the logits with
//! those of transformers.

use std::path::PathBuf;

use gymkhana_record::{Seed, Segment};
use gymkhana_trainer::{Lora, Module, Optimizer, SftSettings, TinyModel, Trainer, TrainerSettings};
use tch::{Device, Tensor};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let settings = TrainerSettings { seed: Seed(1), ..TrainerSettings::default() };
    let (folder, logits_file, trainer) = match &paths[..] {
        [folder, logits] => (folder, logits, Trainer::create(&TinyModel::default(), &settings)?),
        [folder, logits, from] => (folder, logits, Trainer::open(from, &settings)?),
        [folder, logits, from, adapted] if adapted.as_os_str() == "adapted" => {
            let modules = vec![Module::QProj, Module::VProj, Module::DownProj];
            let lora = Some(Lora { rank: 2, alpha: 6.0, modules });
            (folder, logits, Trainer::open(from, &TrainerSettings { lora, ..settings })?)
        }
        _ => return Err("write_checkpoint FOLDER LOGITS.safetensors [FROM [adapted]]".into()),
    };
    // Training steps, so that biases, norms and adapters differ from their initial values.
    let mut segment = Segment::default();
    segment.append_given(&[257, 117, 50, 43, 50, 258, 257, 97], 0);
    segment.append_sampled(&gymkhana_policy::certain(vec![52, 258]), 0)?;
    let optimizer = Optimizer { learning_rate: 1e-2, ..Optimizer::default() };
    let settings = SftSettings { optimizer, ..SftSettings::default() };
    for _ in 0..2 {
        trainer.sft_step(std::slice::from_ref(&segment), &settings).await?;
    }
    trainer.save(folder, &serde_json::Value::Null).await?;
    let model = gymkhana_trainer::open_model(folder, Device::Cpu)?;
    let tokens: Vec<u32> = (0..model.positions().min(300) as u32).map(|index| index * 7 % 263).collect();
    let logits = model.logits(&tokens)?;
    let tokens: Vec<i32> = tokens.into_iter().map(|token| token as i32).collect();
    Tensor::write_safetensors(&[("tokens", Tensor::from_slice(&tokens)), ("logits", logits)], logits_file)?;
    Ok(())
}
