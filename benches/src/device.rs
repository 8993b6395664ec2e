//! A device beside the CPU: agreement of their numbers, and rates of training and generation. `benches/gpu/check.sh`
//! starts these, each in its own process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use futures::future::try_join_all;
use gymkhana_policy::{Conversation, GenerateRequest, Policy, Sampling, ScoreRequest, certain};
use gymkhana_record::{Sampled, Seed, Segment, StepMetrics};
use gymkhana_trainer::{Accelerator, Optimizer, Precision, SftSettings, TinyModel, Trainer, TrainerSettings};
use serde_json::{Value, json};

/// Tokens of the text whose log-probabilities are compared, and of each greedy reply.
const COMPARED: usize = 48;

/// Prompts of greedy replies.
const PROMPTS: usize = 4;

/// Tokens of the prompts are the smallest ids, so that every vocabulary has them.
const VOCABULARY: u64 = 256;

/// Measurements.
#[derive(Debug, Subcommand)]
pub enum Device {
    /// Write a tiny model, whose tokenizer generated models use
    Tokenizer {
        /// Folder to write
        folder: PathBuf,
    },
    /// Load the device's libraries and create a tiny model on it
    Load {
        /// Device: cpu or cuda
        #[arg(long, default_value_t)]
        device: Accelerator,
    },
    /// Compare a device with the CPU
    Agree(Place),
    /// Measure training in tokens per second
    Train {
        #[command(flatten)]
        place: Place,
        /// Tokens of a pass
        #[arg(long, default_value_t = 8192)]
        tokens: usize,
        /// Tokens of a sequence
        #[arg(long, default_value_t = 1024)]
        length: usize,
        /// Measured steps
        #[arg(long, default_value_t = 5)]
        steps: u32,
    },
    /// Measure generation in tokens per second
    Generate {
        #[command(flatten)]
        place: Place,
        /// Conversations at once
        #[arg(long, default_value_t = 256)]
        conversations: usize,
        /// Tokens of a prompt
        #[arg(long, default_value_t = 128)]
        prompt: usize,
        /// Tokens of a reply
        #[arg(long, default_value_t = 128)]
        reply: usize,
    },
}

/// A model on a device.
#[derive(Debug, Args)]
pub struct Place {
    /// Folder of the model
    model: PathBuf,
    /// Device: cpu or cuda
    #[arg(long, default_value_t)]
    device: Accelerator,
    /// Compute passes in bfloat16
    #[arg(long)]
    bfloat16: bool,
    /// Logits that the output layer computes at once, in MiB of float32
    #[arg(long)]
    logits_chunk_mib: Option<usize>,
}

impl Place {
    fn precision(&self) -> Precision {
        if self.bfloat16 { Precision::Bfloat16 } else { Precision::Float32 }
    }

    fn open(&self, device: Accelerator, slots: usize, context: usize) -> Result<Trainer> {
        let settings = TrainerSettings {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            max_concurrent_sequences: slots,
            context: Some(context),
            device,
            precision: self.precision(),
            logits_chunk_mib: self.logits_chunk_mib,
            ..TrainerSettings::default()
        };
        Ok(Trainer::open(&self.model, &settings)?)
    }

    /// A result of this model and device.
    fn print(&self, figures: &Value) {
        let model = self.model.file_name().map(|name| name.to_string_lossy().into_owned());
        let precision = if self.bfloat16 { "bfloat16" } else { "float32" };
        let mut line = json!({
            "program": "gymkhana", "model": model, "device": self.device, "precision": precision,
            "logits_chunk_mib": self.logits_chunk_mib,
        });
        if let (Some(line), Some(figures)) = (line.as_object_mut(), figures.as_object()) {
            line.extend(figures.clone());
        }
        print(&line);
    }
}

/// Runs one measurement.
pub fn run(what: &Device) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match what {
        Device::Tokenizer { folder } => runtime.block_on(tokenizer(folder)),
        Device::Load { device } => load(*device),
        Device::Agree(place) => runtime.block_on(agree(place)),
        Device::Train { place, tokens, length, steps } => runtime.block_on(train(place, *tokens, *length, *steps)),
        Device::Generate { place, conversations, prompt, reply } => {
            runtime.block_on(generate(place, *conversations, *prompt, *reply))
        }
    }
}

async fn tokenizer(folder: &Path) -> Result<()> {
    let trainer = Trainer::create(&TinyModel::default(), &TrainerSettings::default())?;
    Ok(trainer.export(folder).await?)
}

fn load(device: Accelerator) -> Result<()> {
    let since = Instant::now();
    Trainer::create(&TinyModel::default(), &TrainerSettings { device, ..TrainerSettings::default() })?;
    let seconds = since.elapsed().as_secs_f64();
    print(&json!({ "check": "library loading", "device": device, "seconds": seconds, "passed": true }));
    Ok(())
}

/// Results of a device for fixed inputs.
struct Numbers {
    before: Vec<f32>,
    step: StepMetrics,
    after: Vec<f32>,
}

/// Forward pass, and the forward pass after one optimiser step, which needs the backward pass.
async fn numbers(trainer: &Trainer, replies: &[Vec<u32>]) -> Result<Numbers> {
    let before = score(trainer, replies).await?;
    let optimizer = Optimizer { learning_rate: 1e-4, ..Optimizer::default() };
    let settings = SftSettings { optimizer, other_tokens: 0.0, ..SftSettings::default() };
    let demonstrations: Vec<Segment> = (0..PROMPTS).zip(replies).map(|(place, reply)| segment(place, reply)).collect();
    let step = trainer.sft_step(&demonstrations, &settings).await?;
    let after = score(trainer, replies).await?;
    Ok(Numbers { before, step, after })
}

async fn greedy(trainer: &Trainer) -> Result<Vec<Vec<u32>>> {
    Ok(replies(trainer, Sampling::GREEDY).await?.into_iter().map(|reply| reply.tokens).collect())
}

async fn replies(trainer: &Trainer, sampling: Sampling) -> Result<Vec<Sampled>> {
    try_join_all((0..PROMPTS).map(|place| reply(trainer, place, COMPARED, COMPARED, sampling))).await
}

/// Number of equal tokens before the first difference of each reply.
fn equal_tokens(own: &[Vec<u32>], others: &[Vec<u32>]) -> usize {
    let equal =
        |(own, other): (&Vec<u32>, &Vec<u32>)| own.iter().zip(other).take_while(|(own, other)| own == other).count();
    own.iter().zip(others).map(equal).sum()
}

/// Log-probabilities of the replies behind their prompts.
async fn score(trainer: &Trainer, replies: &[Vec<u32>]) -> Result<Vec<f32>> {
    let mut log_probs = Vec::new();
    for (place, reply) in replies.iter().enumerate() {
        let (prefix, continuation) = (prompt(place, COMPARED).into(), Arc::from(&reply[..]));
        log_probs.extend(trainer.score(ScoreRequest { prefix, continuation }).await?.log_probs);
    }
    Ok(log_probs)
}

/// Number of equal greedy tokens before the first difference of each reply, and the largest margin of a difference: by
/// how many nats the CPU prefers its own token to the device's. Later tokens of such a reply have other inputs.
async fn compare_greedy(cpu: &Trainer, own: &[Vec<u32>], others: &[Vec<u32>]) -> Result<(usize, Option<f64>)> {
    let (mut equal, mut most) = (0, None);
    for (place, (own, other)) in own.iter().zip(others).enumerate() {
        let first = own.iter().zip(other).take_while(|(own, other)| own == other).count();
        equal += first;
        let (Some(token), Some(instead)) = (own.get(first), other.get(first)) else { continue };
        let prefix: Arc<[u32]> = [&prompt(place, COMPARED), &own[..first]].concat().into();
        let mut log_probs = Vec::new();
        for token in [token, instead] {
            let request = ScoreRequest { prefix: Arc::clone(&prefix), continuation: Arc::from([*token]) };
            log_probs.extend(cpu.score(request).await?.log_probs);
        }
        let margin = f64::from(log_probs[0] - log_probs[1]);
        // `max` would drop what is not a number.
        most = most.filter(|most| *most >= margin).or(Some(margin));
    }
    Ok((equal, most))
}

/// Compares the device with the CPU. Both score the CPU's replies and learn from them.
async fn agree(place: &Place) -> Result<()> {
    let open = |device| place.open(device, PROMPTS, 4 * COMPARED);
    // The device first: libtorch's CUDA part must be loaded before the process asks for GPUs.
    let (device, cpu) = (open(place.device)?, open(Accelerator::Cpu)?);
    let replies = greedy(&cpu).await?;
    let (equal, margin) = compare_greedy(&cpu, &replies, &greedy(&device).await?).await?;
    let sampled = self::replies(&device, Sampling::at(1.0)).await?;
    let recorded: Vec<f32> = sampled.iter().flat_map(|reply| reply.log_probs.clone()).collect();
    let tokens = |replies: Vec<Sampled>| replies.into_iter().map(|reply| reply.tokens).collect::<Vec<_>>();
    let (sampled, own) = (tokens(sampled), tokens(self::replies(&cpu, Sampling::at(1.0)).await?));
    let sampled_equal = equal_tokens(&own, &sampled);
    // What the device recorded while it sampled, beside the CPU's scores of the same tokens.
    let recorded = largest(&score(&cpu, &sampled).await?, &recorded);
    let (cpu, other) = (numbers(&cpu, &replies).await?, numbers(&device, &replies).await?);
    let bounds = Bounds::of(place.precision());
    let found = Bounds {
        margin,
        unequal: 1.0 - sampled_equal as f64 / (PROMPTS * COMPARED) as f64,
        log_prob: larger(largest(&cpu.before, &other.before), recorded),
        loss: relative(&cpu.step, &other.step, "loss")?,
        gradient: relative(&cpu.step, &other.step, "gradient_norm")?,
        after: largest(&cpu.after, &other.after),
    };
    place.print(&json!({
        "check": "agreement with the CPU",
        "greedy_tokens_equal": equal, "greedy_tokens": PROMPTS * COMPARED, "greedy_margin": found.margin,
        "sampled_tokens_equal": sampled_equal, "kernels": kernels(),
        "log_prob": found.log_prob, "loss": found.loss, "gradient": found.gradient, "after_step": found.after,
        "bound_greedy_margin": bounds.margin, "bound_log_prob": bounds.log_prob, "bound_loss": bounds.loss,
        "bound_gradient": bounds.gradient, "bound_after_step": bounds.after, "passed": found.within(&bounds),
    }));
    Ok(())
}

/// Differences: margin of the first greedy token that differs in nats, `None` if all are equal; share of the sampled
/// tokens from the first one on that differs, where a rounding may exchange neighbours in the vocabulary; log-probabilities in
/// nats before and after a step; loss and gradient norm relative to the CPU's.
struct Bounds {
    margin: Option<f64>,
    unequal: f64,
    log_prob: f64,
    loss: f64,
    gradient: f64,
    after: f64,
}

impl Bounds {
    /// In bfloat16, each of two tokens may move by `log_prob`, so that their order may change within twice that.
    fn of(precision: Precision) -> Self {
        match precision {
            Precision::Float32 => {
                Self { margin: None, unequal: 0.1, log_prob: 1e-3, loss: 1e-4, gradient: 1e-3, after: 1e-2 }
            }
            Precision::Bfloat16 => {
                Self { margin: Some(0.5), unequal: 0.9, log_prob: 0.25, loss: 2e-2, gradient: 5e-2, after: 0.3 }
            }
        }
    }

    /// False for values that are not numbers.
    fn within(&self, bounds: &Self) -> bool {
        self.margin.is_none_or(|margin| bounds.margin.is_some_and(|bound| margin <= bound))
            && self.unequal <= bounds.unequal
            && self.log_prob <= bounds.log_prob
            && self.loss <= bounds.loss
            && self.gradient <= bounds.gradient
            && self.after <= bounds.after
    }
}

fn largest(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(one, other)| f64::from((one - other).abs())).fold(0.0, larger)
}

/// The larger of two numbers; `max` would drop what is not a number.
fn larger(one: f64, other: f64) -> f64 {
    if other > one || other.is_nan() { other } else { one }
}

fn relative(one: &StepMetrics, other: &StepMetrics, name: &str) -> Result<f64> {
    let value = |metrics: &StepMetrics| metrics.get(name).with_context(|| format!("the step has no `{name}`"));
    let (one, other) = (value(one)?, value(other)?);
    Ok((one - other).abs() / one.abs().max(1e-12))
}

async fn train(place: &Place, tokens: usize, length: usize, steps: u32) -> Result<()> {
    let trainer = place.open(place.device, 1, length)?;
    let count = (tokens / length).max(1);
    let batch: Vec<Segment> =
        (0..count).map(|index| segment(index, &prompt(count + index, length - COMPARED))).collect();
    let settings = SftSettings { micro_batch_tokens: tokens, other_tokens: 0.0, ..SftSettings::default() };
    trainer.sft_step(&batch, &settings).await?;
    let since = Instant::now();
    for _ in 0..steps {
        trainer.sft_step(&batch, &settings).await?;
    }
    let trained = f64::from(steps) * batch.iter().map(Segment::len).sum::<usize>() as f64;
    place.print(&json!({
        "figure": "training", "tokens_per_second": trained / since.elapsed().as_secs_f64(), "pass_tokens": tokens,
        "sequence_tokens": length, "kernels": kernels(), "parameters": trainer.parameter_count(),
    }));
    Ok(())
}

async fn generate(place: &Place, conversations: usize, given: usize, length: usize) -> Result<()> {
    let trainer = place.open(place.device, conversations, given + length)?;
    let play = |first: usize, length| {
        let places = first..first + conversations;
        try_join_all(places.map(|place| reply(&trainer, place, given, length, Sampling::at(1.0))))
    };
    play(0, 2).await?;
    let since = Instant::now();
    let sampled: usize = play(conversations, length).await?.iter().map(|reply| reply.tokens.len()).sum();
    let seconds = since.elapsed().as_secs_f64();
    place.print(&json!({
        "figure": "generation", "tokens_per_second": sampled as f64 / seconds, "conversations": conversations,
        "prompt_tokens": given, "reply_tokens": length, "kernels": kernels(), "parameters": trainer.parameter_count(),
    }));
    Ok(())
}

/// A reply of this length to the place's prompt of `given` tokens.
async fn reply(trainer: &Trainer, place: usize, given: usize, length: usize, sampling: Sampling) -> Result<Sampled> {
    let conversation = Conversation { id: place as u64, place: place as u32 };
    let request = GenerateRequest {
        conversation,
        tokens: prompt(place, given).into(),
        max_tokens: length,
        stop: Arc::from([]),
        stop_texts: None,
        sampling,
        seed: Seed(7).child(place),
        token_sink: None,
    };
    let generated = trainer.generate(request).await?;
    trainer.release(conversation);
    Ok(generated.sampled)
}

/// Random tokens, always the same ones for a place.
fn prompt(place: usize, length: usize) -> Vec<u32> {
    let mut stream = Seed(5).child(place).stream();
    std::iter::repeat_with(|| stream.below(VOCABULARY) as u32).take(length).collect()
}

/// A demonstration: the prompt of the place, and this reply.
fn segment(place: usize, reply: &[u32]) -> Segment {
    let mut segment = Segment::default();
    segment.append_given(&prompt(place, COMPARED), 0);
    segment.append_sampled(&certain(reply.to_vec()), 0).expect("columns of one length");
    segment
}

/// Whether the trainer may use its own kernels on a GPU.
fn kernels() -> bool {
    std::env::var_os("GYMKHANA_CUDA_KERNELS").is_none_or(|value| value != "0")
}

#[allow(clippy::print_stdout, reason = "results go to standard output")]
fn print(line: &Value) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_tokens_may_differ_in_bfloat16_alone_and_only_where_the_choice_is_close() {
        let none = || Bounds { margin: None, unequal: 0.0, log_prob: 0.0, loss: 0.0, gradient: 0.0, after: 0.0 };
        let passes = |margin, precision| Bounds { margin, ..none() }.within(&Bounds::of(precision));
        assert!(passes(None, Precision::Float32) && passes(None, Precision::Bfloat16));
        assert!(!passes(Some(1e-6), Precision::Float32));
        assert!(passes(Some(0.4), Precision::Bfloat16));
        assert!(!passes(Some(0.6), Precision::Bfloat16) && !passes(Some(f64::NAN), Precision::Bfloat16));
    }

    /// The log-probabilities of the two tokens are asked of the policy again here, by another request.
    #[tokio::test]
    async fn the_margin_is_that_of_the_first_difference() {
        let trainer = Trainer::create(&TinyModel::default(), &TrainerSettings::default()).expect("a model");
        let own = greedy(&trainer).await.expect("replies");
        assert_eq!(compare_greedy(&trainer, &own, &own).await.expect("scores"), (PROMPTS * COMPARED, None));
        let mut others = own.clone();
        others[1][3] = (own[1][3] + 1) % VOCABULARY as u32;
        others[1][4] = (own[1][4] + 1) % VOCABULARY as u32;
        let (equal, margin) = compare_greedy(&trainer, &own, &others).await.expect("scores");
        assert_eq!(equal, (PROMPTS - 1) * COMPARED + 3);
        let score = |reply: &[u32]| {
            let (prefix, continuation) = (prompt(1, COMPARED).into(), Arc::from(&reply[..4]));
            trainer.score(ScoreRequest { prefix, continuation })
        };
        let [one, other] = [score(&own[1]).await.expect("scores"), score(&others[1]).await.expect("scores")];
        let expected = f64::from(one.log_probs[3] - other.log_probs[3]);
        assert!((margin.expect("a difference") - expected).abs() < 1e-5, "{margin:?} is not {expected}");
    }
}
