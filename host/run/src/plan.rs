//! Plan of a run that has passed all checks: what it would train, with which defaults, memory and first prompt.

use std::fmt::{Display, Formatter, Result as Written};

use gymkhana_config::{PolicySection, RunFile, Stage};
use gymkhana_record::{Seed, TaskRef};

use crate::start::Prepared;
use gymkhana_orchestration::{Classify, RunResult};

/// Bytes of a float32 number.
const FLOAT: u64 = 4;

/// Plan of a run that was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    /// Model, plugins, stages and folder.
    pub banner: String,
    /// The run file with all defaults written out, as TOML.
    pub run_file: String,
    /// Episodes of each stage, in words.
    pub stages: Vec<String>,
    /// Memory of the trainer in bytes, by its purpose.
    pub memory: Vec<(&'static str, u64)>,
    /// First prompt of the policy.
    pub prompt: Option<FirstPrompt>,
}

/// Tokens before the first reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstPrompt {
    /// Task of the episode.
    pub task: TaskRef,
    /// Number of tokens.
    pub tokens: usize,
    /// Their text, control tokens included.
    pub text: String,
}

impl Prepared {
    /// Plans the run. Starts one episode of the first training task, unless one of its plugins may make outbound calls.
    ///
    /// # Errors
    /// If the chat format cannot show its own tokens.
    pub async fn plan(&self) -> RunResult<RunPlan> {
        let (file, parameters) = (&self.opened.file, self.opened.seats.policy().parameter_count());
        let task = TaskRef { split: file.environment.train.clone(), index: 0 };
        let rollout = &self.opened.rollout;
        let tokens = rollout.first_prompt(&task, Seed(file.seed), self.opened.seats.context()).await;
        let prompt = match tokens {
            Some(tokens) => {
                let text = rollout.chat().decode(&tokens).internal()?;
                Some(FirstPrompt { task, tokens: tokens.len(), text })
            }
            None => None,
        };
        Ok(RunPlan {
            banner: self.banner(),
            run_file: file.resolved().internal()?,
            stages: file.stages.iter().map(episodes).collect(),
            memory: memory(file, parameters),
            prompt,
        })
    }
}

/// The episodes of a stage. Dynamic sampling and oversampling add to them.
fn episodes(stage: &Stage) -> String {
    let steps = stage.steps();
    let (each, product) = match stage {
        Stage::Sft(stage) => (u64::from(stage.batch), format!("{} demonstrations", stage.batch)),
        Stage::Rl(stage) => {
            let each = u64::from(stage.groups) * u64::from(stage.group_size);
            (each, format!("{} groups x {} episodes", stage.groups, stage.group_size))
        }
    };
    format!("{}: {steps} steps x {product} = {} episodes", stage.name(), steps.saturating_mul(each))
}

/// Memory of the trainer in float32 for the run's policy (bytes). Adapters are small beside the weights and are left
/// out.
fn memory(file: &RunFile, parameters: u64) -> Vec<(&'static str, u64)> {
    let PolicySection { lora, .. } = &file.policy;
    let bytes = parameters.saturating_mul(FLOAT);
    let mut kept = vec![("weights", bytes)];
    if lora.is_none() {
        kept.extend([("gradients", bytes), ("moments of AdamW", bytes.saturating_mul(2))]);
    }
    let algorithms = file.stages.iter().filter_map(|stage| match stage {
        Stage::Sft(_) => None,
        Stage::Rl(stage) => stage.settings().ok().map(|settings| settings.algorithm.stage_models()),
    });
    let models: Vec<_> = algorithms.collect();
    // Adapters are switched off to compute the reference.
    if lora.is_none() && models.iter().any(|models| models.reference) {
        kept.push(("reference policy", bytes));
    }
    if models.iter().any(|models| models.critic) {
        kept.push(("critic, its gradients and moments", bytes.saturating_mul(4)));
    }
    kept
}

impl Display for RunPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        writeln!(f, "{}\n", self.banner)?;
        self.stages.iter().try_for_each(|stage| writeln!(f, "{stage}"))?;
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let parts: Vec<String> =
            self.memory.iter().map(|(name, bytes)| format!("{name} {}", megabytes(*bytes))).collect();
        let sum = self.memory.iter().map(|(_, bytes)| bytes).sum();
        writeln!(f, "memory of the trainer, without activations: {} = {}\n", parts.join(" + "), megabytes(sum))?;
        match &self.prompt {
            Some(FirstPrompt { task, tokens, text }) => {
                writeln!(f, "first prompt, task {task}, {tokens} tokens:\n{text}\n")?;
            }
            None => writeln!(f, "first prompt: not shown, because a plugin may make outbound calls, or failed\n")?,
        }
        write!(f, "run file with all defaults:\n{}", self.run_file)
    }
}
