//! Plan of a run that has passed all checks: what it would train, with which defaults, memory and first prompt.

use std::fmt::{Display, Formatter, Result as Written};
use std::path::Path;

use gymkhana_chat::TemplateReport;
use gymkhana_config::{RunFile, Stage};
use gymkhana_record::{Seed, TaskRef};
use gymkhana_rollout::NoPrompt;
use gymkhana_trainer::{Footprint, ModelConfig, MomentFormat, moment_bytes};

use crate::budget::RunBudget;
use crate::seats::{self, SeatPolicies};
use crate::start::Prepared;
use gymkhana_orchestration::environments::RunEnvironment;
use gymkhana_orchestration::{Classify, RunResult};

/// Bytes of an episode's text that a plan shows.
const MAX_SHOWN: usize = 16 << 10;
/// Bytes of a float32 number.
const FLOAT: u64 = 4;

/// Plan of a run that was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    /// Model, plugins, stages and folder.
    pub banner: String,
    /// The run file with all defaults written out, as TOML.
    pub run_file: String,
    /// Episodes of each stage and its last learning rate, in words.
    pub stages: Vec<String>,
    /// Defaults that keep what the policy does well, with their reasons.
    pub defaults: Vec<String>,
    /// Episodes and tokens of the whole run, in words.
    pub budget: String,
    /// Bytes that the models keep, by their use.
    pub memory: Vec<(String, u64)>,
    /// What is known of the chat format.
    pub chat: TemplateReport,
    /// First prompt of the policy in each environment, or why it is not known.
    pub prompts: Vec<Result<FirstPrompt, NoPrompt>>,
}

/// Tokens before the first reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstPrompt {
    /// Name of the environment, in a run with several.
    pub environment: Option<String>,
    /// Task of the episode.
    pub task: TaskRef,
    /// Number of tokens.
    pub tokens: usize,
    /// Their text, control tokens included.
    pub text: String,
    /// Texts of the contexts of a whole episode of the task; empty if it cannot be played.
    pub episode: Vec<String>,
}

impl Prepared {
    /// Plans the run. Starts one episode of the first training task of each environment, unless one of its plugins may
    /// make outbound calls.
    ///
    /// # Errors
    /// If the chat format cannot show its own tokens.
    pub async fn plan(&self) -> RunResult<RunPlan> {
        let file = &self.opened.file;
        let mut prompts = Vec::new();
        for RunEnvironment { settings, rollout } in self.opened.environments.iter() {
            let task = TaskRef { split: settings.rules.environment.train.clone(), index: 0 };
            let tokens = rollout.first_prompt(&task, Seed(file.seed), self.opened.seats.context()).await;
            prompts.push(match tokens {
                Ok(tokens) => {
                    let text = rollout.chat().decode(&tokens).internal()?;
                    let shown = rollout.shown_episode(&task, Seed(file.seed), self.opened.seats.context()).await;
                    let episode = shown.unwrap_or_default();
                    Ok(FirstPrompt { environment: settings.name.clone(), task, tokens: tokens.len(), text, episode })
                }
                Err(why) => Err(why),
            });
        }
        Ok(RunPlan {
            banner: self.banner(),
            run_file: file.resolved().internal()?,
            stages: file.stages.iter().map(stage).collect::<RunResult<_>>()?,
            defaults: file.reasons_of_defaults(),
            budget: RunBudget::of(file, self.opened.seats.own_seats().len()).to_string(),
            memory: memory(file, &self.opened.seats)?,
            chat: self.opened.environments.first().rollout.chat().report(),
            prompts,
        })
    }
}

/// The episodes of a stage, and the learning rate at its end. Dynamic sampling and oversampling add to the episodes.
fn stage(stage: &Stage) -> RunResult<String> {
    let steps = stage.steps();
    let (each, product, updates, optimizer) = match stage {
        Stage::Sft(stage) => {
            (u64::from(stage.batch), format!("{} demonstrations", stage.batch), steps, &stage.optimizer)
        }
        Stage::BestOfN(stage) => {
            let each = u64::from(stage.tasks) * u64::from(stage.attempts);
            let product = format!("{} tasks x {} attempts", stage.tasks, stage.attempts);
            (each, product, stage.optimizer_steps(), &stage.optimizer)
        }
        Stage::Rl(stage) => {
            let each = u64::from(stage.groups) * u64::from(stage.group_size);
            let updates = stage.settings().user_error()?.algorithm.optimizer_steps(steps);
            (each, format!("{} groups x {} episodes", stage.groups, stage.group_size), updates, &stage.optimizer)
        }
    };
    let (episodes, last) = (steps.saturating_mul(each), optimizer.learning_rate_at(updates.saturating_sub(1)));
    Ok(format!(
        "{}: {steps} steps x {product} = {episodes} episodes; learning rate {last:.2e} in optimiser step {updates}, the \
         last",
        stage.name()
    ))
}

/// Memory of all models, without activations and adapters, which are small beside the weights.
fn memory(file: &RunFile, seats: &SeatPolicies) -> RunResult<Vec<(String, u64)>> {
    let mut kept = Vec::new();
    for (seat, trained, footprint) in seats.footprints() {
        let stages = StageMemory::of(file, seat)?;
        let name = |part: &str| seat.map_or_else(|| part.to_owned(), |seat| format!("{part} of {seat}"));
        kept.extend(stages.of_model(footprint, trained).into_iter().map(|(part, bytes)| (name(part), bytes)));
    }
    Ok(kept)
}

/// Bytes of a teacher's weights.
fn teacher(folder: &Path, file: &RunFile) -> RunResult<u64> {
    let config = ModelConfig::read(&folder.join("config.json")).user_error()?;
    Ok(config.frozen_bytes(&seats::settings(file, 1)))
}

/// Additions of the stages to a trained model, the largest of all stages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StageMemory {
    /// Whether adapters are trained instead of the weights.
    adapted: bool,
    reference: bool,
    /// Whether the reference policy follows the policy.
    follows: bool,
    critic: bool,
    /// Whether a moving average of the weights is kept.
    average: bool,
    /// Bytes of the teacher's weights.
    teacher: u64,
    /// Number format of the moments that takes most.
    moments: MomentFormat,
}

impl StageMemory {
    /// Additions to the run's policy, or to the model of a seat.
    pub(crate) fn of(file: &RunFile, seat: Option<&str>) -> RunResult<Self> {
        let moments = match file.stages.iter().all(|stage| stage.optimizer().moments == MomentFormat::Int8) {
            true => MomentFormat::Int8,
            false => MomentFormat::Float32,
        };
        let mut most = Self { adapted: file.policy.lora.is_some(), moments, ..Self::default() };
        for stage in &file.stages {
            most.average |= stage.optimizer().ema.is_some();
            if let Some(stage) = stage.as_rl() {
                let settings = file.settings_of_model(stage, seat).user_error()?;
                let models = settings.algorithm.stage_models();
                // A seat may add an average to the stage's.
                most.average |= settings.optimizer.ema.is_some();
                if settings.optimizer.moments == MomentFormat::Float32 {
                    most.moments = MomentFormat::Float32;
                }
                most.reference |= models.reference;
                most.follows |= models.follows;
                most.critic |= models.critic;
                if let Some(folder) = stage.teacher.as_ref().filter(|_| settings.algorithm.wants_teacher()) {
                    most.teacher = most.teacher.max(teacher(folder, file)?);
                }
            }
        }
        Ok(most)
    }

    /// Bytes of a model by their use, without those that are 0.
    pub(crate) fn of_model(self, footprint: Footprint, trained: bool) -> Vec<(&'static str, u64)> {
        let Footprint { weights, float, frozen, generation, cache } = footprint;
        let moments = moment_bytes(float / FLOAT, self.moments);
        let if_any = |needed: bool, bytes: u64| if needed { bytes } else { 0 };
        let full = trained && !self.adapted;
        let mut parts = vec![
            ("weights", weights),
            ("gradients", if_any(full, float)),
            ("moments of AdamW", if_any(full, moments)),
            // Adapters are switched off to compute the reference.
            ("reference policy", if_any(full && self.reference, if self.follows { float } else { frozen })),
            ("moving average of the weights", if_any(full && self.average, float)),
            ("critic, its gradients and moments", if_any(trained && self.critic, (float * 2).saturating_add(moments))),
            ("teacher", if_any(trained, self.teacher)),
            ("copies for generation", generation),
            ("keys and values", cache),
        ];
        parts.retain(|(_, bytes)| *bytes > 0);
        parts
    }
}

/// A text of at most [`MAX_SHOWN`] bytes.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_SHOWN {
        return text.to_owned();
    }
    let half = MAX_SHOWN / 2;
    let (head, tail) = (&text[..text.floor_char_boundary(half)], &text[text.ceil_char_boundary(text.len() - half)..]);
    format!("{head}\n… {} bytes are left out …\n{tail}", text.len() - head.len() - tail.len())
}

impl Display for RunPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        writeln!(f, "{}\n", self.banner)?;
        self.stages.iter().chain(&self.defaults).try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "{}", self.budget)?;
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let parts: Vec<String> =
            self.memory.iter().map(|(name, bytes)| format!("{name} {}", megabytes(*bytes))).collect();
        let sum = self.memory.iter().map(|(_, bytes)| bytes).sum();
        writeln!(f, "memory of the models, without activations: {} = {}\n", parts.join(" + "), megabytes(sum))?;
        writeln!(f, "{}", self.chat)?;
        for prompt in &self.prompts {
            match prompt {
                Ok(FirstPrompt { environment, task, tokens, text, episode }) => {
                    let of = environment.as_ref().map(|name| format!(" of environment {name}")).unwrap_or_default();
                    writeln!(f, "first prompt{of}, task {task}, {tokens} tokens:\n{text}\n")?;
                    for context in episode {
                        writeln!(f, "a whole episode of the task{of}:\n{}\n", shortened(context))?;
                    }
                }
                Err(why) => writeln!(f, "first prompt: not shown, because {why}\n")?,
            }
        }
        write!(f, "run file with all defaults:\n{}", self.run_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_keeps_what_its_stages_need() {
        let footprint = Footprint { weights: 100, float: 100, frozen: 50, generation: 7, cache: 5 };
        let sum = |stages: StageMemory, trained| -> u64 {
            stages.of_model(footprint, trained).iter().map(|(_, bytes)| bytes).sum()
        };
        let plain = StageMemory::default();
        assert_eq!(sum(plain, true), 100 + 100 + 200 + 7 + 5);
        // A frozen seat, also beside stages with more models.
        let all = StageMemory { reference: true, critic: true, teacher: 30, ..plain };
        assert_eq!((sum(plain, false), sum(all, false)), (112, 112));
        assert_eq!(sum(all, true), 412 + 50 + 400 + 30);
        assert_eq!(sum(StageMemory { average: true, ..plain }, true), 412 + 100);
        let coded = StageMemory { moments: MomentFormat::Int8, ..plain };
        // 25 weights with two codes and their shares of scales: 25 x 2 x (1 + 4 / 256).
        assert_eq!(sum(coded, true), 100 + 100 + 50 + 7 + 5);
        // Adapters have no gradients of the weights, and no copy for the reference.
        assert_eq!(sum(StageMemory { adapted: true, ..all }, true), 112 + 400 + 30);
        assert_eq!(
            plain.of_model(footprint, false),
            [("weights", 100), ("copies for generation", 7), ("keys and values", 5)]
        );
    }
}
