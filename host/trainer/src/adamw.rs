//! AdamW over the flat buffer of parameters, with state that is saved: the binding's own optimiser cannot save its.

use tch::{TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::parameters::Parameters;
use crate::settings::Optimizer;

/// The optimiser's state.
#[derive(Debug)]
pub struct AdamW {
    /// Decaying mean of gradients, `[N]` in the layout of the parameters.
    mean: Tensor,
    /// Decaying mean of squared gradients.
    square: Tensor,
    /// Steps taken.
    step: u64,
}

impl AdamW {
    /// The state before the first step.
    ///
    /// # Errors
    /// If libtorch cannot allocate it.
    pub fn new(parameters: &Parameters) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        Ok(Self { mean: parameters.flat().f_zeros_like()?, square: parameters.flat().f_zeros_like()?, step: 0 })
    }

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
        self.step += 1;
        // The small number stands in PyTorch's clip_grad_norm_, too.
        let shortened = gradient.f_mul_scalar((settings.gradient_clip / (norm + 1e-6)).min(1.0))?;
        let _ = self.mean.f_lerp_(&shortened, 1.0 - settings.beta1)?;
        let _ = self.square.f_lerp_(&shortened.f_square()?, 1.0 - settings.beta2)?;
        let steps = self.step as f64;
        let mean_bias = 1.0 - settings.beta1.powf(steps);
        let square_bias = 1.0 - settings.beta2.powf(steps);
        let divisor = self.square.f_sqrt()?.f_div_scalar(square_bias.sqrt())?.f_add_scalar(settings.epsilon)?;
        let move_ = self.mean.f_div(&divisor)?.f_mul_scalar(rate / mean_bias)?;
        let mut flat = parameters.flat().shallow_clone();
        let _ = flat.f_mul_scalar_(1.0 - rate * settings.weight_decay)?;
        let _ = flat.f_sub_(&move_)?;
        Ok(())
    }

    /// The state under the parameters' names: `mean.NAME` and `square.NAME`.
    pub(crate) fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = Vec::new();
        for (moment, flat) in [("mean", &self.mean), ("square", &self.square)] {
            let views = parameters.views_of(flat)?;
            named.extend(views.into_iter().map(|(name, view)| (format!("{moment}.{name}"), view)));
        }
        Ok(named)
    }

    /// Sets the number of steps taken, after the state was read from a checkpoint.
    pub(crate) fn set_steps(&mut self, step: u64) {
        self.step = step;
    }
}
