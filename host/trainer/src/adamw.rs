//! AdamW over the flat parameter buffer, with state that can be saved (the binding's optimiser cannot save its state).

use tch::{TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::parameters::Parameters;
use gymkhana_algorithm::Optimizer;

/// Optimiser state.
#[derive(Debug, Default)]
pub struct AdamW {
    /// Moments; `None` before the first step, so that a model that only generates needs no memory for them.
    moments: Option<Moments>,
    /// Number of steps taken.
    step: u64,
}

/// Elements per piece. One piece's tensors fit into a core's cache, so an update passes over memory once instead of
/// once per operation.
const PIECE: i64 = 1 << 15;

#[derive(Debug)]
struct Moments {
    /// Decaying mean of gradients, `[N]`, in the layout of the parameters.
    mean: Tensor,
    /// Decaying mean of squared gradients, `[N]`.
    square: Tensor,
}

impl Moments {
    fn zeros(parameters: &Parameters) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        Ok(Self { mean: parameters.flat().f_zeros_like()?, square: parameters.flat().f_zeros_like()? })
    }

    /// Views by the parameters' names, as `mean.NAME` and `square.NAME`.
    fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = Vec::new();
        for (moment, flat) in [("mean", &self.mean), ("square", &self.square)] {
            let views = parameters.views_of(flat)?;
            named.extend(views.into_iter().map(|(name, view)| (format!("{moment}.{name}"), view)));
        }
        Ok(named)
    }
}

/// Global norm of all gradients.
fn norm(gradients: &[(i64, Tensor)]) -> Result<f64, TchError> {
    if gradients.is_empty() {
        return Ok(0.0);
    }
    let norms = gradients.iter().map(|(_, gradient)| gradient.f_norm()).collect::<Result<Vec<_>, _>>()?;
    Tensor::f_stack(&norms, 0)?.f_norm()?.f_double_value(&[])
}

/// Splits gradients into pieces: offset of the parameter in the flat buffer, start of the piece in the parameter,
/// length of the piece, and the gradient.
fn pieces(gradients: &[(i64, Tensor)]) -> impl Iterator<Item = (i64, i64, i64, &Tensor)> {
    gradients.iter().flat_map(|(offset, gradient)| {
        let count = gradient.size()[0];
        let most = if gradient.device().is_cuda() { count.max(1) } else { PIECE };
        (0..count).step_by(most as usize).map(move |start| (*offset, start, most.min(count - start), gradient))
    })
}

impl AdamW {
    /// Number of steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Updates the parameters by their gradients, which are left unchanged. Returns the gradient norm before clipping.
    ///
    /// # Errors
    /// If the norm is not finite; parameters and state are unchanged then.
    pub fn step(&mut self, parameters: &Parameters, settings: &Optimizer) -> Result<f64, TrainerError> {
        let torch = || TrainerError::torch("took an optimiser step");
        let gradients = parameters.gradients().map_err(torch())?;
        let norm = norm(&gradients).map_err(torch())?;
        if !norm.is_finite() {
            return Err(TrainerError::NotFinite { norm, step: self.step + 1 });
        }
        self.update(parameters, &gradients, norm, settings).map_err(torch())?;
        Ok(norm)
    }

    fn update(
        &mut self,
        parameters: &Parameters,
        gradients: &[(i64, Tensor)],
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
        let steps = self.step as f64;
        // PyTorch's clip_grad_norm_ adds the same constant.
        let shorten = (settings.gradient_clip / (norm + 1e-6)).min(1.0);
        let mean_bias = 1.0 - settings.beta1.powf(steps);
        let square_bias = (1.0 - settings.beta2.powf(steps)).sqrt();
        for (offset, start, length, gradient) in pieces(gradients) {
            let cut = |tensor: &Tensor| tensor.f_narrow(0, offset + start, length);
            let (mut mean, mut square, mut flat) =
                (cut(&moments.mean)?, cut(&moments.square)?, cut(parameters.flat())?);
            let shortened = gradient.f_narrow(0, start, length)?.f_mul_scalar(shorten)?;
            let _ = mean.f_lerp_(&shortened, 1.0 - settings.beta1)?;
            let _ = square.f_lerp_(&shortened.f_square()?, 1.0 - settings.beta2)?;
            let mut divisor = square.f_sqrt()?;
            let _ = divisor.f_div_scalar_(square_bias)?.f_add_scalar_(settings.epsilon)?;
            // The binding's `addcdiv` takes no factor, so the divisor contains the step size.
            let _ = divisor.f_mul_scalar_(-mean_bias / rate)?;
            if settings.weight_decay > 0.0 {
                let _ = flat.f_mul_scalar_(1.0 - rate * settings.weight_decay)?;
            }
            let _ = flat.f_addcdiv_(&mean, &divisor)?;
        }
        Ok(())
    }

    /// State by the parameters' names, as `mean.NAME` and `square.NAME`.
    pub(crate) fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        match &self.moments {
            Some(moments) => moments.named(parameters),
            None => Moments::zeros(parameters)?.named(parameters),
        }
    }

    /// Allocates the state, to be filled through the tensors of [`AdamW::named`].
    pub(crate) fn begin(&mut self, parameters: &Parameters) -> Result<(), TchError> {
        self.moments = Some(Moments::zeros(parameters)?);
        Ok(())
    }

    /// Sets the number of steps taken, after the state was read from a checkpoint.
    pub(crate) fn set_steps(&mut self, step: u64) {
        self.step = step;
    }
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Sampled, Segment};
    use tch::Device;

    use crate::storage::checkpoint;
    use crate::{Settings, SftSettings, TinyModel, Trainer};

    #[test]
    fn a_model_that_only_generates_allocates_no_moments() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1");
        let tiny = TinyModel { layers: 1, width: 8, heads: 1, kv_heads: 1, mlp: 8, context: 8 };
        let mut demonstration = Segment::default();
        demonstration.append_given(&[1], 0);
        let said = Sampled { tokens: vec![2], log_probs: vec![0.0], entropies: vec![0.0], versions: vec![0] };
        demonstration.append_sampled(&said, 0).expect("columns of one length");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let trainer = Trainer::create(&tiny, &Settings::default()).expect("a model");
            trainer.sft_step(&[demonstration], &SftSettings::default()).await.expect("a step");
            trainer.save(&path, &serde_json::Value::Null).await.expect("saved");
        });
        for learns in [false, true] {
            let opened = checkpoint::open(&path, &Settings { learns, ..Settings::default() }, Device::Cpu)
                .expect("a checkpoint");
            assert_eq!(opened.learner.optimizer.moments.is_some(), learns);
            assert_eq!((opened.learner.optimizer.steps(), opened.weight_version), (u64::from(learns), 1));
        }
    }
}
