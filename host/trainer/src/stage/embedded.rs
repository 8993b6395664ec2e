//! The training engine by libtorch: passes over parts of bounded size, AdamW, a critic.

use gymkhana_algorithm::{Algorithm, Critic, Optimizer};
use gymkhana_engine::{Engine, FurtherModels, Loss, Pass, Passed, Scorer, Sequence, Share, Stepped};

use super::Models;
use super::forward::{self, PassedPart, TeacherPass};
use crate::TrainerError;
use crate::batch::{Packed, PrefixGroup, parts, positions};
use crate::model::Model;

/// A model and the further models of its stage.
#[derive(Debug)]
pub(crate) struct Embedded<'a> {
    pub model: &'a mut Model,
    pub models: &'a mut Models,
}

impl Embedded<'_> {
    /// A loss of sequences, by parts.
    fn each_part(
        &self,
        sequences: &[Sequence],
        pass: Pass,
        of_part: impl Fn(&Packed) -> Result<PassedPart, TrainerError>,
    ) -> Result<Passed, TrainerError> {
        let parts: Vec<Vec<PrefixGroup<'_>>> = parts(sequences, pass.micro_batch_tokens, pass.share_beginnings);
        let log_probs = sequences.iter().map(|sequence| vec![0.0; sequence.targets.len()]).collect();
        let mut passed = Passed { log_probs, positions: positions(&parts), ..Passed::default() };
        for part in &parts {
            let packed = Packed::new(part, self.model.device());
            let found = of_part(&packed)?;
            passed.sums += found.sums;
            for ((sequence, index), log_prob) in packed.origins.iter().zip(found.log_probs) {
                passed.log_probs[*sequence][*index] = log_prob;
            }
        }
        Ok(passed)
    }
}

impl Engine for Embedded<'_> {
    type Error = TrainerError;

    fn further_models(&self) -> FurtherModels {
        let Models { reference, teacher, critic, .. } = &*self.models;
        FurtherModels { reference: reference.is_some(), teacher: teacher.is_some(), critic: critic.is_some() }
    }

    fn optimizer_steps(&self) -> u64 {
        self.models.optimizer.steps()
    }

    fn log_probs(&self, scorer: Scorer, sequences: &[Sequence], pass: Pass) -> Result<Vec<Vec<f32>>, TrainerError> {
        let (model, weights) = match (scorer, &self.models.reference, &self.models.teacher) {
            (Scorer::Reference, Some(reference), _) => (&*self.model, self.model.weights_of(reference)),
            (Scorer::Teacher, _, Some(teacher)) => (&teacher.model, teacher.model.weights()),
            _ => (&*self.model, self.model.weights()),
        };
        forward::log_probs(model, &weights, sequences, pass)
    }

    fn values(&self, sequences: &[Sequence], pass: Pass) -> Result<Vec<Vec<f32>>, TrainerError> {
        match &self.models.critic {
            Some(critic) => critic.predict(sequences, pass),
            None => Ok(vec![]),
        }
    }

    fn begin_update(&mut self) -> Result<(), TrainerError> {
        self.model.trained_mut().forget_gradients().map_err(TrainerError::torch("began an update"))
    }

    fn accumulate(&mut self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, TrainerError> {
        let taught = |flags: &Algorithm| {
            let teacher = self.models.teacher.as_ref()?;
            TeacherPass::new(&teacher.model, flags.surrogate)
        };
        let teacher = match loss {
            Loss::Policy { flags, .. } => taught(flags),
            Loss::Supervised => None,
        };
        self.each_part(sequences, pass, |packed| {
            let found = forward::accumulate(self.model, packed, loss, pass, teacher.as_ref());
            found.map_err(TrainerError::torch("computed gradients"))
        })
    }

    fn measure(&self, sequences: &[Sequence], loss: Loss<'_>, pass: Pass) -> Result<Passed, TrainerError> {
        self.each_part(sequences, pass, |packed| {
            let found = forward::measure(self.model, packed, loss, pass);
            found.map_err(TrainerError::torch("compared tokens without gradients"))
        })
    }

    fn shortens_steps(&self) -> bool {
        true
    }

    /// The moving average of the weights follows the step.
    fn step(&mut self, optimizer: &Optimizer, share: Option<&mut Share<'_, Self>>) -> Result<Stepped, TrainerError> {
        if optimizer.ema.is_some() {
            self.models.average.begin(self.model)?;
        }
        // The engine that `share` gets scores tokens, without an optimiser.
        let mut own = std::mem::take(&mut self.models.optimizer);
        let stepped = own.step_of(self.model.trained(), optimizer, || share.map_or(Ok(1.0), |share| share(self)));
        self.models.optimizer = own;
        let Some(norm) = stepped? else { return Ok(Stepped::Skipped) };
        if let Some(decay) = optimizer.ema {
            self.models.average.follow(self.model, decay)?;
        }
        Ok(Stepped::Taken { gradient_norm: Some(norm) })
    }

    fn value_step(
        &mut self,
        sequences: &[Sequence],
        critic: Critic,
        optimizer: &Optimizer,
        pass: Pass,
    ) -> Result<Option<f64>, TrainerError> {
        match &mut self.models.critic {
            Some(model) => model.step(sequences, critic, optimizer, pass.micro_batch_tokens),
            None => Ok(None),
        }
    }

    fn approach_reference(&mut self, share: f64) -> Result<(), TrainerError> {
        let Some(reference) = &mut self.models.reference else { return Ok(()) };
        reference.approach(self.model.trained(), share).map_err(TrainerError::torch("updated the reference policy"))
    }
}
