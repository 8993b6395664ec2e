//! AdamW over the flat buffer of parameters, with state that is saved: the binding's own optimiser cannot save its.

use tch::{TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::parameters::Parameters;
use crate::settings::Optimizer;

/// The optimiser's state.
#[derive(Debug, Default)]
pub struct AdamW {
    /// None before the first step: a model that only speaks takes no memory for what it would learn with.
    moments: Option<Moments>,
    /// Steps taken.
    step: u64,
}

#[derive(Debug)]
struct Moments {
    /// Decaying mean of gradients, `[N]` in the layout of the parameters.
    mean: Tensor,
    /// Decaying mean of squared gradients.
    square: Tensor,
}

impl Moments {
    fn zeros(parameters: &Parameters) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        Ok(Self { mean: parameters.flat().f_zeros_like()?, square: parameters.flat().f_zeros_like()? })
    }

    /// Views under the parameters' names: `mean.NAME` and `square.NAME`.
    fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = Vec::new();
        for (moment, flat) in [("mean", &self.mean), ("square", &self.square)] {
            let views = parameters.views_of(flat)?;
            named.extend(views.into_iter().map(|(name, view)| (format!("{moment}.{name}"), view)));
        }
        Ok(named)
    }
}

impl AdamW {
    /// Steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Moves the parameters along their gradients, which stay as they are. Returns the gradient's norm before it was
    /// shortened.
    ///
    /// # Errors
    /// If the norm is not finite: nothing is changed then.
    pub fn step(&mut self, parameters: &Parameters, settings: &Optimizer) -> Result<f64, TrainerError> {
        let torch = || TrainerError::torch("took an optimiser step");
        let gradient = parameters.flat_gradient().map_err(torch())?;
        let norm = gradient.f_norm().and_then(|norm| norm.f_double_value(&[])).map_err(torch())?;
        if !norm.is_finite() {
            return Err(TrainerError::NotFinite { norm, step: self.step + 1 });
        }
        self.update(parameters, &gradient, norm, settings).map_err(torch())?;
        Ok(norm)
    }

    fn update(
        &mut self,
        parameters: &Parameters,
        gradient: &Tensor,
        norm: f64,
        settings: &Optimizer,
    ) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        let rate = settings.learning_rate_at(self.step);
        let moments = match &mut self.moments {
            Some(moments) => moments,
            none => none.insert(Moments::zeros(parameters)?),
        };
        self.step += 1;
        // The small number stands in PyTorch's clip_grad_norm_, too.
        let shortened = gradient.f_mul_scalar((settings.gradient_clip / (norm + 1e-6)).min(1.0))?;
        let _ = moments.mean.f_lerp_(&shortened, 1.0 - settings.beta1)?;
        let _ = moments.square.f_lerp_(&shortened.f_square()?, 1.0 - settings.beta2)?;
        let steps = self.step as f64;
        let mean_bias = 1.0 - settings.beta1.powf(steps);
        let square_bias = 1.0 - settings.beta2.powf(steps);
        let divisor = moments.square.f_sqrt()?.f_div_scalar(square_bias.sqrt())?.f_add_scalar(settings.epsilon)?;
        let move_ = moments.mean.f_div(&divisor)?.f_mul_scalar(rate / mean_bias)?;
        let mut flat = parameters.flat().shallow_clone();
        let _ = flat.f_mul_scalar_(1.0 - rate * settings.weight_decay)?;
        let _ = flat.f_sub_(&move_)?;
        Ok(())
    }

    /// The state under the parameters' names: `mean.NAME` and `square.NAME`.
    pub(crate) fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        match &self.moments {
            Some(moments) => moments.named(parameters),
            None => Moments::zeros(parameters)?.named(parameters),
        }
    }

    /// As `named`, to be filled with the state of a checkpoint.
    pub(crate) fn named_to_fill(&mut self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        self.moments.insert(Moments::zeros(parameters)?).named(parameters)
    }

    /// Sets the number of steps taken, after the state was read from a checkpoint.
    pub(crate) fn set_steps(&mut self, step: u64) {
        self.step = step;
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_episode::{Sampled, Segment};
    use tch::Device;

    use crate::{Settings, SftSettings, TinyModel, Trainer, checkpoint};

    #[test]
    fn a_model_that_only_speaks_takes_no_memory_for_learning() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1");
        let tiny = TinyModel { layers: 1, width: 8, heads: 1, kv_heads: 1, mlp: 8, context: 8 };
        let mut demonstration = Segment::default();
        demonstration.append_given(&[1], 0, 0);
        let said = Sampled { tokens: vec![2], log_probs: vec![0.0], entropies: vec![0.0], versions: vec![0] };
        demonstration.append_sampled(&said, 0, 0).expect("columns of one length");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let trainer = Trainer::create(&tiny, &Settings::default()).expect("a model");
            trainer.sft_step(&[demonstration], &SftSettings::default()).await.expect("a step");
            trainer.save(&path, &serde_json::Value::Null).await.expect("saved");
        });
        for learns in [false, true] {
            let opened = checkpoint::open(&path, None, Device::Cpu, learns).expect("a checkpoint");
            assert_eq!(opened.learner.optimizer.moments.is_some(), learns);
            assert_eq!((opened.learner.optimizer.steps(), opened.weight_version), (u64::from(learns), 1));
        }
    }
}
