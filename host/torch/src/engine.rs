//! The training engine: one forward and one backward message for each part of a pass.

use std::path::Path;
use std::sync::Arc;

use gymkhana_algorithm::{Critic, Optimizer};
use gymkhana_engine::message::{
    AdamStep, EngineAnswer, EngineRequest, MessageScorer, MessageTensors, Numbers, TrainingBatch,
};
use gymkhana_engine::{
    Engine, Flat, FurtherModels, Loss, Pass, Passed, Scorer, Sequence, Share, Stepped, TokenNumbers,
};
use tokio::runtime::Handle;

use crate::TorchChild;
use crate::error::TorchError;

/// A model in the processes, and what of it changes with steps.
#[derive(Debug)]
pub struct TorchEngine {
    child: Arc<TorchChild>,
    optimizer_steps: u64,
    has_reference: bool,
    /// Steps in a row whose gradient was not finite.
    skipped: u32,
    runtime: Handle,
}

impl TorchEngine {
    /// An engine for the model that the processes have opened. Its calls block the thread and use the runtime, of which the
    /// thread must not be part.
    #[must_use]
    pub fn new(child: Arc<TorchChild>, optimizer_steps: u64, has_reference: bool, runtime: Handle) -> Self {
        Self { child, optimizer_steps, has_reference, skipped: 0, runtime }
    }

    /// Whether there is a reference policy.
    #[must_use]
    pub fn has_reference(&self) -> bool {
        self.has_reference
    }

    /// Begins a stage, with the current weights as the reference policy if it has one.
    ///
    /// # Errors
    /// If the processes fail.
    pub async fn begin_stage(&mut self, reference: bool) -> Result<(), TorchError> {
        (self.optimizer_steps, self.skipped) = (0, 0);
        self.ask("begin a stage", EngineRequest::BeginStage {}).await?;
        self.ask("set the reference policy", EngineRequest::Reference { share: reference.then_some(1.0) }).await?;
        self.has_reference = reference;
        Ok(())
    }

    /// Samples with the current weights from now on, whose tokens have this version.
    ///
    /// # Errors
    /// If the processes fail.
    pub async fn publish(&self, version: u32) -> Result<(), TorchError> {
        self.ask("publish its weights", EngineRequest::Publish { version }).await.map(drop)
    }

    /// Writes the weights to a folder and the state of training to another, which does not exist yet. Blocks the thread.
    ///
    /// # Errors
    /// If the processes fail.
    pub fn save(&self, weights: &Path, state: &Path) -> Result<(), TorchError> {
        let request = EngineRequest::Save { weights: text(weights), state: Some(text(state)), untied: false };
        self.runtime.block_on(self.ask("save its weights", request)).map(drop)
    }

    /// Writes the weights alone, for an inference server, with an output layer of its own. Blocks the thread.
    ///
    /// # Errors
    /// If the processes fail.
    pub fn export(&self, weights: &Path) -> Result<(), TorchError> {
        let request = EngineRequest::Save { weights: text(weights), state: None, untied: true };
        self.runtime.block_on(self.ask("write its weights", request)).map(drop)
    }

    async fn ask(&self, doing: &'static str, request: EngineRequest) -> Result<EngineAnswer, TorchError> {
        Ok(self.child.ask(doing, request, &MessageTensors::new()).await?.answer)
    }

    /// Numbers of the targets of a few sequences.
    async fn forward(
        &self,
        scorer: MessageScorer,
        part: &[Sequence],
        (temperature, entropies): (f64, bool),
        keep: bool,
    ) -> Result<TokenNumbers, TorchError> {
        let request = EngineRequest::Forward { scorer, temperature, entropies, keep };
        let found = self.child.ask("score tokens", request, &TrainingBatch::of(part).into_tensors()).await?.tensors;
        let targets = part.iter().map(|sequence| sequence.targets.len()).sum();
        let log_probs = numbers(&found, "log_probs", targets)?;
        let entropies = entropies.then(|| numbers(&found, "entropies", targets)).transpose()?;
        Ok(TokenNumbers { log_probs, entropies, divergences: None })
    }

    /// Sequences of one message: as many as fill a part of each process.
    fn parts<'s>(&self, sequences: &'s [Sequence], pass: Pass) -> Vec<&'s [Sequence]> {
        let most = pass.micro_batch_tokens.saturating_mul(self.child.hello().ranks.max(1) as usize);
        let (mut parts, mut begin, mut tokens) = (vec![], 0, 0);
        for (index, sequence) in sequences.iter().enumerate() {
            let own = sequence.inputs().len();
            if index > begin && tokens + own > most {
                parts.push(&sequences[begin..index]);
                (begin, tokens) = (index, 0);
            }
            tokens += own;
        }
        parts.extend((begin < sequences.len()).then(|| &sequences[begin..]));
        parts
    }

    /// A loss by parts, with its gradient or without.
    fn each_part(
        &self,
        sequences: &[Sequence],
        loss: Loss<'_>,
        pass: Pass,
        with_gradient: bool,
    ) -> Result<Passed, TorchError> {
        let mut passed = Passed::default();
        let how = (pass.temperature, pass.entropies && with_gradient);
        for part in self.parts(sequences, pass) {
            let flat = Flat::of(part);
            let evaluated = self.runtime.block_on(async {
                let found = self.forward(MessageScorer::Policy, part, how, with_gradient).await?;
                let evaluated = flat.evaluate(loss, &found);
                if with_gradient {
                    let mut by = MessageTensors::from([(
                        "by_log_probs".to_owned(),
                        Numbers::Doubles(evaluated.by.log_probs.clone()),
                    )]);
                    let entropies = evaluated.by.entropies.clone();
                    by.extend(entropies.map(|by| ("by_entropies".to_owned(), Numbers::Doubles(by))));
                    self.child.ask("compute gradients", EngineRequest::Backward {}, &by).await?;
                }
                Ok::<_, TorchError>((evaluated.sums, found.log_probs))
            })?;
            passed.add(part, &flat, evaluated.0, &evaluated.1);
        }
        Ok(passed)
    }
}

/// A path as the processes, which have the same working directory, read it.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The named numbers of an answer, one for each target.
pub(crate) fn numbers(found: &MessageTensors, name: &'static str, count: usize) -> Result<Vec<f64>, TorchError> {
    let numbers = found.get(name).map(Numbers::to_doubles).unwrap_or_default();
    if numbers.len() != count {
        let why = format!("its answer has {} `{name}` for {count} tokens", numbers.len());
        return Err(TorchError::Refused { doing: "score tokens", why });
    }
    Ok(numbers)
}

impl Engine for TorchEngine {
    type Error = TorchError;

    fn further_models(&self) -> FurtherModels {
        FurtherModels { reference: self.has_reference, ..FurtherModels::default() }
    }

    fn optimizer_steps(&self) -> u64 {
        self.optimizer_steps
    }

    fn log_probs(&self, scorer: Scorer, sequences: &[Sequence], pass: Pass) -> Result<Vec<Vec<f32>>, TorchError> {
        let scorer = MessageScorer::of(scorer).ok_or(TorchError::NoModel("a teacher"))?;
        let mut all = vec![];
        for part in self.parts(sequences, pass) {
            let found = self.runtime.block_on(self.forward(scorer, part, (pass.temperature, false), false))?;
            let split = Flat::of(part).split(&found.log_probs);
            all.extend(split.into_iter().map(|own| own.into_iter().map(|number| number as f32).collect()));
        }
        Ok(all)
    }

    fn values(&self, _: &[Sequence], _: Pass) -> Result<Vec<Vec<f32>>, TorchError> {
        Err(TorchError::NoModel("`critic`"))
    }

    fn begin_update(&mut self) -> Result<(), TorchError> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.ask("begin an update", EngineRequest::BeginUpdate {})).map(drop)
    }

    fn accumulate(&mut self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, TorchError> {
        self.each_part(sequences, loss, pass, true)
    }

    fn measure(&self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, TorchError> {
        self.each_part(sequences, loss, pass, false)
    }

    fn shortens_steps(&self) -> bool {
        true
    }

    fn step(&mut self, optimizer: &Optimizer, share: Option<&mut Share<'_, Self>>) -> Result<Stepped, TorchError> {
        let request = EngineRequest::Step(AdamStep {
            learning_rate: optimizer.learning_rate_at(self.optimizer_steps),
            beta1: optimizer.beta1,
            beta2: optimizer.beta2,
            epsilon: optimizer.epsilon,
            weight_decay: optimizer.weight_decay,
            max_norm: Some(optimizer.gradient_clip),
            keep: share.is_some(),
        });
        let answer = self.runtime.block_on(self.ask("take a step", request))?;
        match answer {
            EngineAnswer::Stepped { taken: true, norm } => {
                self.skipped = 0;
                self.optimizer_steps += 1;
                let share = share.map_or(Ok(1.0), |share| share(self))?;
                if share < 1.0 {
                    self.runtime.block_on(self.ask("shorten a step", EngineRequest::Shorten { share }))?;
                }
                Ok(Stepped::Taken { gradient_norm: norm })
            }
            _ if self.skipped >= optimizer.max_skipped_steps => Err(TorchError::NotFinite(self.skipped + 1)),
            _ => {
                self.skipped += 1;
                Ok(Stepped::Skipped)
            }
        }
    }

    fn value_step(&mut self, _: &[Sequence], _: Critic, _: &Optimizer, _: Pass) -> Result<Option<f64>, TorchError> {
        Err(TorchError::NoModel("`critic`"))
    }

    fn approach_reference(&mut self, share: f64) -> Result<(), TorchError> {
        let runtime = self.runtime.clone();
        runtime
            .block_on(self.ask("move the reference policy", EngineRequest::Reference { share: Some(share) }))
            .map(drop)
    }
}
