//! AdamW over the flat parameter buffer, with state that can be saved (the binding's optimiser cannot save its state).

mod codes;
mod moments;

use gymkhana_algorithm::{MomentFormat, Optimizer};
use tch::{TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::cuda;
use crate::parameters::{Gradient, ParameterSlice, Parameters};
use moments::Moments;

/// Optimiser state.
#[derive(Debug, Default)]
pub struct AdamW {
    /// Moments; `None` before the first step, so that a model that only generates needs no memory for them.
    moments: Option<Moments>,
    /// Number of steps taken.
    step: u64,
    /// Number of steps skipped since the last one that was taken.
    skipped: u32,
}

/// Elements per piece. One piece's tensors fit into a core's cache, so an update passes over memory once instead of
/// once per operation.
const PIECE: i64 = 1 << 15;

/// Bytes of both moments of a number.
#[must_use]
pub(crate) fn moment_bytes(format: MomentFormat) -> f64 {
    match format {
        MomentFormat::Float32 => 8.0,
        MomentFormat::Int8 => 2.0 * codes::BYTES,
    }
}

/// Factors of a step.
struct Factors {
    /// Of the gradient, from clipping its norm.
    clip: f64,
    /// Correction of the mean's bias.
    mean_bias: f64,
    /// Square root of the correction of the square's bias.
    square_bias: f64,
    /// Learning rate.
    rate: f64,
}

/// Global norm of all gradients.
fn norm(gradients: &[Gradient]) -> Result<f64, TchError> {
    let Some(first) = gradients.first() else { return Ok(0.0) };
    let device = first.values.device();
    if let Some(kernels) = cuda::kernels(device) {
        return kernels.norm(gradients.iter().map(|gradient| &gradient.values), device);
    }
    let norms = gradients.iter().map(|gradient| gradient.values.f_norm()).collect::<Result<Vec<_>, _>>()?;
    Tensor::f_stack(&norms, 0)?.f_norm()?.f_double_value(&[])
}

/// Splits gradients into pieces: the gradient, the start of the piece in it, and the length of the piece.
fn pieces(gradients: &[Gradient]) -> impl Iterator<Item = (&Gradient, i64, i64)> {
    gradients.iter().flat_map(|gradient| {
        let count = gradient.values.size()[0];
        let most = if gradient.values.device().is_cuda() { count.max(1) } else { PIECE };
        (0..count).step_by(most as usize).map(move |start| (gradient, start, most.min(count - start)))
    })
}

impl AdamW {
    /// Number of steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Updates the parameters by their gradients, which are left unchanged. Returns the gradient norm before clipping;
    /// `None` if it is not finite, and the step was skipped: parameters and moments are unchanged then.
    ///
    /// # Errors
    /// If more steps in a row than the settings allow would be skipped.
    pub fn step(&mut self, parameters: &Parameters, settings: &Optimizer) -> Result<Option<f64>, TrainerError> {
        self.step_of(parameters, settings, || Ok(1.0))
    }

    /// As [`AdamW::step`]. `share` tells how much of the step stays, from 0 to 1, once the parameters have taken it: they are
    /// then as far from those before the step as that share of it. The moments do not depend on it.
    ///
    /// # Errors
    /// As [`AdamW::step`], and those of `share`.
    pub(crate) fn step_of(
        &mut self,
        parameters: &Parameters,
        settings: &Optimizer,
        share: impl FnOnce() -> Result<f64, TrainerError>,
    ) -> Result<Option<f64>, TrainerError> {
        let torch = || TrainerError::torch("took an optimiser step");
        let gradients = parameters.gradients().map_err(torch())?;
        let norm = norm(&gradients).map_err(torch())?;
        if !norm.is_finite() {
            self.skipped += 1;
            if self.skipped > settings.max_skipped_steps {
                return Err(TrainerError::NotFinite { norm, step: self.step + 1, skipped: self.skipped - 1 });
            }
            return Ok(None);
        }
        self.skipped = 0;
        self.allocate(parameters, settings.moments).map_err(torch())?;
        let factors = self.begin_step(norm, settings);
        self.update(parameters, &gradients, &factors, settings).map_err(torch())?;
        let share = share()?;
        self.finish(parameters, &gradients, &factors, settings, 1.0 - share.min(1.0)).map_err(torch())?;
        Ok(Some(norm))
    }

    /// Moments in a format: new ones, or those of another format converted.
    fn allocate(&mut self, parameters: &Parameters, format: MomentFormat) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        match &self.moments {
            Some(moments) if moments.format() == format => {}
            old => {
                let mut new = Moments::zeros(parameters, format)?;
                if let Some(old) = old {
                    new.copy(old, parameters)?;
                }
                self.moments = Some(new);
            }
        }
        Ok(())
    }

    fn begin_step(&mut self, norm: f64, settings: &Optimizer) -> Factors {
        let rate = settings.learning_rate_at(self.step);
        self.step += 1;
        let steps = self.step as f64;
        Factors {
            // PyTorch's clip_grad_norm_ adds the same constant.
            clip: (settings.gradient_clip / (norm + 1e-6)).min(1.0),
            mean_bias: 1.0 - settings.beta1.powf(steps),
            square_bias: (1.0 - settings.beta2.powf(steps)).sqrt(),
            rate,
        }
    }

    /// Moves the parameters. Moments in float32 follow the gradients; coded ones are written by [`AdamW::finish`], which needs
    /// the exact moments once more.
    fn update(
        &self,
        parameters: &Parameters,
        gradients: &[Gradient],
        factors: &Factors,
        settings: &Optimizer,
    ) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        let Some(moments) = &self.moments else { return Ok(()) };
        let kernels = cuda::kernels(parameters.flat().device());
        for (gradient, start, length) in pieces(gradients) {
            let part = ParameterSlice { offset: gradient.offset + start, length };
            let mut flat = parameters.flat().f_narrow(0, part.offset, length)?;
            let (factor, decay) = settings.of_kind(gradient.kind);
            let rate = factors.rate * factor;
            let mut read = moments.read(part)?;
            if let Some(kernels) = kernels {
                let update = cuda::Update {
                    shorten: factors.clip,
                    new: [1.0 - settings.beta1, 1.0 - settings.beta2],
                    epsilon: settings.epsilon,
                    keep: 1.0 - rate * decay,
                    rate: rate / factors.mean_bias,
                    deviation: factors.square_bias,
                };
                kernels.adamw(&flat, &gradient.values, read.each_ref(), &update)?;
                continue;
            }
            advance(&mut read, &gradient.values.f_narrow(0, start, length)?, factors, settings)?;
            let [mean, square] = read;
            let mut divisor = square.f_sqrt()?;
            let _ = divisor.f_div_scalar_(factors.square_bias)?.f_add_scalar_(settings.epsilon)?;
            // The binding's `addcdiv` takes no factor, so the divisor contains the step size.
            let _ = divisor.f_mul_scalar_(-factors.mean_bias / rate)?;
            if decay > 0.0 {
                let _ = flat.f_mul_scalar_(1.0 - rate * decay)?;
            }
            let _ = flat.f_addcdiv_(&mean, &divisor)?;
        }
        Ok(())
    }

    /// Takes back a share of the step, and writes coded moments.
    ///
    /// The step was `after = keep * before - update`, so that `before - after` is `(update + (1 - keep) * after) / keep`.
    fn finish(
        &mut self,
        parameters: &Parameters,
        gradients: &[Gradient],
        factors: &Factors,
        settings: &Optimizer,
        share: f64,
    ) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        let Some(moments) = &mut self.moments else { return Ok(()) };
        let is_coded = moments.format() != MomentFormat::Float32;
        if share == 0.0 && !is_coded {
            return Ok(());
        }
        for (gradient, start, length) in pieces(gradients) {
            let part = ParameterSlice { offset: gradient.offset + start, length };
            let mut read = moments.read(part)?;
            if is_coded {
                advance(&mut read, &gradient.values.f_narrow(0, start, length)?, factors, settings)?;
                moments.keep(part, &read)?;
            }
            if share == 0.0 {
                continue;
            }
            let (factor, decay) = settings.of_kind(gradient.kind);
            let rate = factors.rate * factor;
            let lost = rate * decay / (1.0 - rate * decay);
            let [mean, square] = read;
            let mut divisor = square.f_sqrt()?;
            let _ = divisor.f_div_scalar_(factors.square_bias)?.f_add_scalar_(settings.epsilon)?;
            let update = mean.f_div(&divisor)?.f_mul_scalar(share * (1.0 + lost) * rate / factors.mean_bias)?;
            let mut flat = parameters.flat().f_narrow(0, part.offset, length)?;
            let _ = flat.f_mul_scalar_(1.0 + share * lost)?.f_add_(&update)?;
        }
        Ok(())
    }

    /// State by the parameters' names.
    pub(crate) fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        match &self.moments {
            Some(moments) => moments.named(parameters),
            None => Moments::zeros(parameters, MomentFormat::Float32)?.named(parameters),
        }
    }

    /// Allocates the state, to be filled through the tensors of [`AdamW::named`].
    pub(crate) fn begin(&mut self, parameters: &Parameters, format: MomentFormat) -> Result<(), TchError> {
        self.moments = Some(Moments::zeros(parameters, format)?);
        Ok(())
    }

    /// Number format of the moments.
    pub(crate) fn format(&self) -> MomentFormat {
        self.moments.as_ref().map_or(MomentFormat::Float32, Moments::format)
    }

    /// Sets the number of steps taken, after the state was read from a checkpoint.
    pub(crate) fn set_steps(&mut self, step: u64) {
        self.step = step;
    }

    /// Number of steps skipped since the last one that was taken.
    pub(crate) fn skipped(&self) -> u32 {
        self.skipped
    }

    /// Sets the number of skipped steps, after the state was read from a checkpoint.
    pub(crate) fn set_skipped(&mut self, skipped: u32) {
        self.skipped = skipped;
    }
}

/// Moves mean and square towards a gradient, `[N]` each, in place.
fn advance(
    [mean, square]: &mut [Tensor; 2],
    gradient: &Tensor,
    factors: &Factors,
    settings: &Optimizer,
) -> Result<(), TchError> {
    let clipped = gradient.f_mul_scalar(factors.clip)?;
    let _ = mean.f_lerp_(&clipped, 1.0 - settings.beta1)?;
    let _ = square.f_lerp_(&clipped.f_square()?, 1.0 - settings.beta2)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use gymkhana_record::{Sampled, Segment};
    use tch::{Device, Kind, Tensor};

    use super::AdamW;
    use crate::parameters::Parameters;
    use crate::storage::checkpoint;
    use crate::{MomentFormat, Optimizer, ParameterGroup, ParameterKind};
    use crate::{SftSettings, TinyModel, Trainer, TrainerSettings};

    /// Means, in percent, of parameters that were 1 after one step with a gradient of 0, in which only weight decay moves
    /// them.
    fn decayed(settings: &Optimizer) -> [f64; 8] {
        let shapes = [
            ("model.embed_tokens.weight", vec![4, 3]),
            ("model.layers.0.self_attn.q_proj.weight", vec![3, 3]),
            ("model.layers.0.self_attn.q_proj.bias", vec![3]),
            ("model.norm.weight", vec![3]),
            ("lm_head.weight", vec![4, 3]),
            ("model.layers.0.mlp.up_proj.lora_A.weight", vec![2, 3]),
            ("model.layers.0.mlp.up_proj.lora_B.weight", vec![3, 2]),
            ("value_head.weight", vec![1, 3]),
        ]
        .map(|(name, shape)| (name.to_owned(), shape));
        let parameters = Parameters::zeros(&shapes, Device::Cpu).expect("parameters");
        let mut gradients = Vec::new();
        for (name, shape) in &shapes {
            let ones = Tensor::ones(&shape[..], (Kind::Float, Device::Cpu));
            parameters.set(name, &ones).expect("the same shape");
            gradients.push(parameters.get(name).expect("known").sum(Kind::Float) * 0.0);
        }
        Tensor::stack(&gradients, 0).sum(Kind::Float).backward();
        AdamW::default().step(&parameters, settings).expect("a step").expect("finite");
        let mean = |name: &str| parameters.get(name).expect("known").mean(Kind::Float).double_value(&[]);
        shapes.each_ref().map(|(name, _)| (mean(name) * 100.0).round())
    }

    /// A learning rate of 0.1 times a decay of 0.5 is 5 %.
    #[test]
    fn weight_decay_leaves_out_norms_biases_and_embeddings() {
        let settings = Optimizer { learning_rate: 0.1, weight_decay: 0.5, ..Optimizer::default() };
        assert_eq!(decayed(&settings), [100.0, 95.0, 100.0, 100.0, 95.0, 95.0, 95.0, 95.0]);
    }

    /// Embeddings: 0.1 x 2 x 0.5; norms and biases: 0.1 x 0.2; output layer: frozen; B: 0.1 x 4 x 0.5; head: no decay.
    #[test]
    fn every_kind_of_parameters_may_have_a_group() {
        use ParameterKind::{Biases, Embeddings, LoraB, Norms, OutputLayer, ValueHead};
        let group = |of: &[ParameterKind], rate, weight_decay| ParameterGroup { of: of.to_vec(), rate, weight_decay };
        let groups = vec![
            group(&[Embeddings], 2.0, Some(0.5)),
            group(&[Norms, Biases], 1.0, Some(0.2)),
            group(&[OutputLayer], 0.0, None),
            group(&[LoraB], 4.0, None),
            group(&[ValueHead], 1.0, Some(0.0)),
        ];
        let settings = Optimizer { learning_rate: 0.1, weight_decay: 0.5, groups, ..Optimizer::default() };
        assert_eq!(decayed(&settings), [90.0, 95.0, 98.0, 98.0, 100.0, 95.0, 80.0, 100.0]);
    }

    /// After a first step with a gradient of 3, AdamW moves 1 by the rate of 0.1, and the decay takes 5 % of it.
    #[test]
    fn a_shortened_step_is_a_share_of_the_way() {
        let shapes = [("model.layers.0.self_attn.q_proj.weight".to_owned(), vec![2, 2])];
        let moved = |share: f64, moments: MomentFormat| {
            let settings = Optimizer {
                learning_rate: 0.1,
                weight_decay: 0.5,
                gradient_clip: 1e9,
                moments,
                ..Optimizer::default()
            };
            let parameters = Parameters::zeros(&shapes, Device::Cpu).expect("parameters");
            let ones = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
            parameters.set(&shapes[0].0, &ones).expect("the same shape");
            (parameters.get(&shapes[0].0).expect("known") * 3.0).sum(Kind::Float).backward();
            let mut optimizer = AdamW::default();
            optimizer.step_of(&parameters, &settings, || Ok(share)).expect("a step").expect("finite");
            parameters.get(&shapes[0].0).expect("known").mean(Kind::Float).double_value(&[])
        };
        for (share, expected) in [(1.0, 0.85), (0.5, 0.925), (0.1, 0.985), (0.0, 1.0)] {
            for moments in [MomentFormat::Float32, MomentFormat::Int8] {
                let found = moved(share, moments);
                assert!((found - expected).abs() < 1e-6, "{share}, {moments:?}: {found} is not {expected}");
            }
        }
    }

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
            let trainer = Trainer::create(&tiny, &TrainerSettings::default()).expect("a model");
            trainer.sft_step(&[demonstration], &SftSettings::default()).await.expect("a step");
            trainer.save(&path, &serde_json::Value::Null).await.expect("saved");
        });
        for learns in [false, true] {
            let opened =
                checkpoint::open(&path, &TrainerSettings { learns, ..TrainerSettings::default() }, Device::Cpu)
                    .expect("a checkpoint");
            assert_eq!(opened.stage.models.optimizer.moments.is_some(), learns);
            assert_eq!((opened.stage.models.optimizer.steps(), opened.weight_version), (u64::from(learns), 1));
        }
    }
}
