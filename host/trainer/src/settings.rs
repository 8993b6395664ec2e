//! Settings of the thread that owns a model.

use gymkhana_algorithm::{Accelerator, Lora, Precision, SettingError, require};
use gymkhana_record::Seed;

/// Settings of the thread that owns the model. With more than one libtorch thread, the process must start with
/// `GOMP_SPINCOUNT=2000` or `OMP_WAIT_POLICY=passive` in its environment.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainerSettings {
    /// Number of libtorch threads.
    pub threads: usize,
    /// Number of conversations that generate at once and keep their keys and values.
    pub max_concurrent_sequences: usize,
    /// Maximum tokens of a conversation; the model's own limit when absent.
    pub context: Option<usize>,
    /// Maximum number of queued and running requests; further callers wait.
    pub queue: usize,
    /// Whether a conversation's tokens depend only on its request: one libtorch thread, fixed shapes, and a slot chosen
    /// by the conversation's place. A conversation then waits until the previous one of its slot is released.
    pub deterministic: bool,
    /// Whether the model is trained. Without training, the optimiser state of a checkpoint is not read.
    pub learns: bool,
    /// Root of all random numbers of the trainer.
    pub seed: Seed,
    /// Device of the model.
    pub device: Accelerator,
    /// Number format of forward and backward passes. Weights and optimiser state stay in float32.
    pub precision: Precision,
    /// Number format of the output layer; `precision` when absent.
    pub output_precision: Option<Precision>,
    /// Logits that the output layer computes at once, in MiB of float32; when absent, 32 on a processor, and on a
    /// GPU 2,560 in float32, 5,120 in bfloat16, and 1,024 where its kernels are not used. Changes memory and speed, not
    /// the result.
    pub logits_chunk_mib: Option<usize>,
    /// Keys and values of conversations that are kept at most, in MiB; as much as all conversations of full length take
    /// when absent. There is room for one conversation of full length in any case, and in deterministic generation for all.
    pub cache_mib: Option<usize>,
    /// LoRA adapters, which are trained instead of the weights.
    pub lora: Option<Lora>,
}

impl Default for TrainerSettings {
    fn default() -> Self {
        Self {
            threads: 1,
            max_concurrent_sequences: 64,
            context: None,
            queue: 4096,
            deterministic: false,
            learns: true,
            seed: Seed(0),
            device: Accelerator::Cpu,
            precision: Precision::Float32,
            output_precision: None,
            logits_chunk_mib: None,
            cache_mib: None,
            lora: None,
        }
    }
}

impl TrainerSettings {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        require((1..=1024).contains(&self.threads), "threads", self.threads, "from 1 to 1024")?;
        require(
            (1..=65_536).contains(&self.max_concurrent_sequences),
            "max_concurrent_sequences",
            self.max_concurrent_sequences,
            "from 1 to 65536",
        )?;
        require((1..=1_000_000).contains(&self.queue), "queue", self.queue, "from 1 to 1000000")?;
        let context = self.context.unwrap_or(2);
        require(context >= 2, "context", context, "at least 2")?;
        let chunk = self.logits_chunk_mib.unwrap_or(1);
        require((1..=65_536).contains(&chunk), "logits_chunk_mib", chunk, "from 1 to 65536")?;
        let cache = self.cache_mib.unwrap_or(1);
        require((1..=1 << 24).contains(&cache), "cache_mib", cache, "from 1 to 16777216")?;
        let finer = self.output_precision != Some(Precision::Bfloat16) || self.precision == Precision::Bfloat16;
        require(finer, "output_precision", "bfloat16", "left out when `precision` is float32")?;
        self.lora.as_ref().map_or(Ok(()), Lora::check)?;
        let on_cpu = !self.deterministic || self.device == Accelerator::Cpu;
        require(on_cpu, "device", self.device, "`cpu` when `deterministic` is true: GPUs sum in varying order")?;
        let threads = if self.deterministic { self.threads } else { 1 };
        require(threads == 1, "threads", threads, "1 when `deterministic` is true: sums depend on their number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deterministic_generation_has_one_thread() {
        let busy = TrainerSettings { threads: 2, deterministic: true, ..TrainerSettings::default() };
        assert!(busy.check().expect_err("two threads").to_string().contains("`threads`"));
    }
}
