//! Forward passes over parts, with and without gradients.
//!
//! The output layer processes tokens in chunks, forward and backward, so that the logits of a whole batch are never in
//! memory at once. The layers below it run backward once for each part.
#![allow(non_snake_case)]

#[cfg(test)]
mod families;
mod head;
mod pass;

use tch::{Kind, TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::batch::{Packed, Sequence, parts};
use crate::loss::{self, Inputs, Objective, PerToken};
use crate::model::{Angles, LogitsBy, Model, Sight, Weights};
use gymkhana_algorithm::{Direction, Surrogate};
use head::Head;
pub(super) use pass::Pass;

/// A teacher whose distributions the loss compares with the policy's.
#[derive(Debug)]
pub(super) struct TeacherPass<'a> {
    model: &'a Model,
    weights: Weights,
    direction: Direction,
    top_k: Option<u32>,
}

impl<'a> TeacherPass<'a> {
    /// `None` for a surrogate that does not compare distributions.
    pub fn new(model: &'a Model, surrogate: Surrogate) -> Option<Self> {
        let Surrogate::Distillation { direction, top_k } = surrogate else { return None };
        let _guard = no_grad_guard();
        Some(Self { model, weights: model.weights(), direction, top_k })
    }

    /// The teacher's residual stream where targets are predicted, `[N, C]`.
    fn hidden(&self, packed: &Packed) -> Tensor {
        let _guard = no_grad_guard();
        target_hidden(self.model, &self.weights, packed)
    }

    /// Divergence of each target, `[N]`, from the teacher's residual stream and the policy's log-probabilities.
    fn divergences(&self, hidden_NC: &Tensor, log_probs_NV: &Tensor, pass: Pass) -> Tensor {
        let teacher_NV = {
            let _guard = no_grad_guard();
            pass.log_probs(hidden_NC, &self.weights)
        };
        loss::distillation(log_probs_NV, &teacher_NV, self.direction, self.top_k.map(i64::from))
    }
}

/// The residual stream where targets are predicted, `[N, C]`.
pub(super) fn target_hidden(model: &Model, weights: &Weights, packed: &Packed) -> Tensor {
    let angles = model.angles_at(&packed.positions_1M);
    let only = Some(&packed.places_N);
    let attend = |layer, query: &Tensor, key: &Tensor, value: &Tensor| {
        packed.attend([query, key, value], Sight::of(model.config(), layer))
    };
    let hidden_1NC = model.hidden(weights, &packed.tokens_1M, &angles, only, attend);
    hidden_1NC.squeeze_dim(0)
}

/// Backward pass through the layers below the output layer.
enum TrunkBackward {
    /// All activations were kept; the output of the layers, `[N, C]`.
    Saved(Tensor),
    /// Each layer is computed again from its input, `[1, M, C]` (activation checkpointing).
    Recompute(Vec<Tensor>),
}

impl TrunkBackward {
    /// Runs the layers. Returns their output at the targets, `[N, C]`, and the backward pass.
    fn forward(model: &Model, weights: &Weights, packed: &Packed, activation_checkpointing: bool) -> (Tensor, Self) {
        if !activation_checkpointing {
            let hidden_NC = target_hidden(model, weights, packed);
            return (hidden_NC.detach(), Self::Saved(hidden_NC));
        }
        let _guard = no_grad_guard();
        let angles = model.angles_at(&packed.positions_1M);
        let mut before = Vec::new();
        let mut x = weights.embed(&packed.tokens_1M);
        for index in 0..weights.depth() {
            before.push(x.shallow_clone());
            x = layer(model, weights, packed, &angles, index, &x);
        }
        (x.squeeze_dim(0), Self::Recompute(before))
    }

    /// Adds to the parameters' gradients, given the gradient of the output, `[N, C]`.
    fn backward(self, model: &Model, weights: &Weights, packed: &Packed, gradient_NC: &Tensor) {
        // The gradient of this sum by `out` is `gradient`.
        let backward = |out: Tensor, gradient: &Tensor| (out * gradient).sum(Kind::Float).backward();
        match self {
            Self::Saved(hidden_NC) => backward(hidden_NC, gradient_NC),
            Self::Recompute(before) => {
                let angles = model.angles_at(&packed.positions_1M);
                let mut gradient = gradient_NC.unsqueeze(0);
                for (index, x) in before.into_iter().enumerate().rev() {
                    let x = x.set_requires_grad(true);
                    backward(layer(model, weights, packed, &angles, index, &x), &gradient);
                    gradient = x.grad();
                }
                let x = weights.embed(&packed.tokens_1M);
                if x.requires_grad() {
                    backward(x, &gradient);
                }
            }
        }
    }
}

fn layer(model: &Model, weights: &Weights, packed: &Packed, angles: &Angles, index: usize, x: &Tensor) -> Tensor {
    let only = Some(&packed.places_N);
    let sight = Sight::of(model.config(), index);
    model.layer(weights, index, x, angles, only, |_, query, key, value| packed.attend([query, key, value], sight))
}

/// Adds the gradients of a part to the parameters and returns the sums that the objective reports. A separable
/// objective is a sum over independent tokens. A teacher adds divergences to the terms.
///
/// # Errors
/// If a kernel cannot be started.
pub(super) fn accumulate(
    model: &Model,
    packed: &Packed,
    inputs: &Inputs,
    pass: Pass,
    teacher: Option<&TeacherPass<'_>>,
    separable: bool,
    objective: &dyn Fn(&PerToken, &Inputs) -> Objective,
) -> Result<Tensor, TchError> {
    let weights = model.weights();
    let taught = teacher.map(|teacher| (teacher, teacher.hidden(packed)));
    let (hidden_NC, trunk) = TrunkBackward::forward(model, &weights, packed, pass.activation_checkpointing);
    let head = Head::new(model, &weights, pass, &hidden_NC, &packed.targets_N).filter(|_| taught.is_none());
    let by = if head.is_some() { LogitsBy::Kernels } else { LogitsBy::Operations };
    let chunks: Vec<(i64, i64)> = model.logits_chunks(packed.targets_N.size()[0], by).collect();
    let (sums, gradient_NC) = if let Some(head) = head {
        by_kernels(head, &chunks, inputs, separable, objective, hidden_NC.kind())?
    } else {
        let leaf_NC = hidden_NC.set_requires_grad(true);
        let compute = |(start, length): (i64, i64)| {
            let log_probs_NV = pass.log_probs(&leaf_NC.narrow(0, start, length), &weights);
            let divergences_N = taught.as_ref().map(|(teacher, hidden_NC)| {
                teacher.divergences(&hidden_NC.narrow(0, start, length), &log_probs_NV, pass)
            });
            let terms = PerToken::of(&log_probs_NV, &packed.targets_N.narrow(0, start, length), pass.entropies);
            PerToken { divergences_N, ..terms }
        };
        (by_operations(&chunks, inputs, separable, compute, objective), leaf_NC.grad())
    };
    trunk.backward(model, &weights, packed, &gradient_NC);
    Tensor::f_stack(&sums, 0)?.f_sum_dim_intlist(0, false, Kind::Float)
}

/// Gradients of the chunks' numbers by libtorch's operations. Returns the objective's sums.
fn by_operations(
    chunks: &[(i64, i64)],
    inputs: &Inputs,
    separable: bool,
    compute: impl Fn((i64, i64)) -> PerToken,
    objective: &dyn Fn(&PerToken, &Inputs) -> Objective,
) -> Vec<Tensor> {
    if separable || chunks.len() == 1 {
        let each = chunks.iter().map(|(start, length)| {
            let found = objective(&compute((*start, *length)), &inputs.narrow(*start, *length));
            found.loss.backward();
            found.sums
        });
        return each.collect();
    }
    // First all log-probabilities and the gradient by each; then each chunk again, with gradients.
    let leaves = without_gradients(chunks, &compute).map(|values_N| values_N.set_requires_grad(true));
    let found = objective(&leaves, inputs);
    found.loss.backward();
    for chunk in chunks {
        let values = compute(*chunk);
        let pulled = leaves.each().zip(values.each()).filter_map(|(leaf, values)| {
            let gradient = leaf?.grad();
            let pull = |values: &Tensor| (values * gradient.narrow(0, chunk.0, chunk.1)).sum(Kind::Float);
            values.filter(|_| gradient.defined()).map(pull)
        });
        if let Some(pulled) = pulled.reduce(|sum, more| sum + more) {
            pulled.backward();
        }
    }
    vec![found.sums]
}

/// Gradients of the chunks' numbers by kernels. Returns the objective's sums, and the gradient by the hidden states in
/// the given number format.
fn by_kernels(
    mut head: Head<'_>,
    chunks: &[(i64, i64)],
    inputs: &Inputs,
    separable: bool,
    objective: &dyn Fn(&PerToken, &Inputs) -> Objective,
    kind: Kind,
) -> Result<(Vec<Tensor>, Tensor), TchError> {
    let leaves_of = |terms: PerToken| terms.map(|values_N| values_N.copy().set_requires_grad(true));
    let mut sums = Vec::new();
    if separable || chunks.len() == 1 {
        for (start, length) in chunks {
            let chunk = head.forward((*start, *length))?;
            let leaves = leaves_of(chunk.terms());
            let found = objective(&leaves, &inputs.narrow(*start, *length));
            found.loss.backward();
            sums.push(found.sums);
            head.backward(&chunk, &gradients(&leaves, (0, *length)))?;
        }
    } else {
        // The logits of one chunk exist at a time, so that each is computed twice.
        let terms =
            chunks.iter().map(|chunk| Ok(head.forward(*chunk)?.terms())).collect::<Result<Vec<_>, TchError>>()?;
        let leaves = leaves_of(PerToken::cat(&terms));
        let found = objective(&leaves, inputs);
        found.loss.backward();
        sums.push(found.sums);
        for chunk in chunks {
            let computed = head.forward(*chunk)?;
            head.backward(&computed, &gradients(&leaves, *chunk))?;
        }
    }
    Ok((sums, head.finish(kind)?))
}

/// Gradients by some of the numbers; 0 where the objective does not depend on them.
fn gradients(leaves: &PerToken, (start, length): (i64, i64)) -> PerToken {
    let of = |leaf: &Tensor| {
        let gradient = leaf.grad();
        if gradient.defined() {
            gradient.narrow(0, start, length)
        } else {
            leaf.detach().zeros_like().narrow(0, start, length)
        }
    };
    let entropies_N = leaves.entropies_N.as_ref().map(of);
    PerToken { entropies_N, ..of(&leaves.log_probs_N).into() }
}

fn without_gradients(chunks: &[(i64, i64)], compute: impl Fn((i64, i64)) -> PerToken) -> PerToken {
    let _guard = no_grad_guard();
    PerToken::cat(&chunks.iter().map(|chunk| compute(*chunk)).collect::<Vec<_>>())
}

/// One number for each target of each sequence, without gradients; `compute` returns `[N]` for a part.
///
/// # Errors
/// If the result cannot be read as one number per target.
pub(super) fn target_values(
    model: &Model,
    sequences: &[Sequence],
    micro_batch_tokens: usize,
    compute: impl Fn(&Packed) -> Result<Tensor, TchError>,
) -> Result<Vec<Vec<f32>>, TrainerError> {
    let _guard = no_grad_guard();
    let mut values: Vec<Vec<f32>> = sequences.iter().map(|sequence| vec![0.0; sequence.targets.len()]).collect();
    for part in parts(sequences, micro_batch_tokens, true) {
        let packed = Packed::new(&part, model.device());
        let numbers = numbers_of(
            &compute(&packed).map_err(TrainerError::torch("computed per-token numbers"))?,
            packed.origins.len(),
        )?;
        for ((sequence, index), number) in packed.origins.iter().zip(numbers) {
            values[*sequence][*index] = number;
        }
    }
    Ok(values)
}

/// The numbers of a tensor of shape `[count]`.
fn numbers_of(values_N: &Tensor, count: usize) -> Result<Vec<f32>, TrainerError> {
    let numbers =
        Vec::<f32>::try_from(values_N).map_err(TrainerError::torch("read per-token numbers from a tensor"))?;
    if numbers.len() != count {
        let problem = format!("{} numbers for {count} tokens", numbers.len());
        return Err(TrainerError::torch("read per-token numbers from a tensor")(TchError::Shape(problem)));
    }
    Ok(numbers)
}

/// Log-probability of each target under these weights, in nats, without gradients.
///
/// # Errors
/// If a result cannot be read.
pub(super) fn log_probs(
    model: &Model,
    weights: &Weights,
    sequences: &[Sequence],
    pass: Pass,
) -> Result<Vec<Vec<f32>>, TrainerError> {
    target_values(model, sequences, pass.micro_batch_tokens, |packed| log_probs_of(model, weights, packed, pass))
}

/// Log-probability of each target of a part, `[N]`, without gradients.
///
/// # Errors
/// If a kernel cannot be started.
pub(super) fn log_probs_of(model: &Model, weights: &Weights, packed: &Packed, pass: Pass) -> Result<Tensor, TchError> {
    let _guard = no_grad_guard();
    let hidden_NC = target_hidden(model, weights, packed);
    let chunks = |by| model.logits_chunks(packed.targets_N.size()[0], by);
    let pass = Pass { entropies: false, ..pass };
    if let Some(head) = Head::new(model, weights, pass, &hidden_NC, &packed.targets_N) {
        let parts = chunks(LogitsBy::Kernels).map(|chunk| Ok(head.forward(chunk)?.terms().log_probs_N));
        return Tensor::f_cat(&parts.collect::<Result<Vec<_>, TchError>>()?, 0);
    }
    let compute = |(start, length): (i64, i64)| {
        let [hidden_NC, targets_N] = [&hidden_NC, &packed.targets_N].map(|tensor| tensor.narrow(0, start, length));
        PerToken::of(&pass.log_probs(&hidden_NC, weights), &targets_N, false)
    };
    Ok(without_gradients(&chunks(LogitsBy::Operations).collect::<Vec<_>>(), compute).log_probs_N)
}

/// The sums that the objective reports for a part without a gradient.
///
/// # Errors
/// If a kernel cannot be started.
pub(super) fn measure(
    model: &Model,
    packed: &Packed,
    inputs: &Inputs,
    pass: Pass,
    objective: &dyn Fn(&PerToken, &Inputs) -> Objective,
) -> Result<Tensor, TchError> {
    let _guard = no_grad_guard();
    Ok(objective(&log_probs_of(model, &model.weights(), packed, pass)?.into(), inputs).sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_of_another_shape_is_an_error_and_not_zeros() {
        assert_eq!(numbers_of(&Tensor::from_slice(&[1.0_f32, 2.0]), 2).expect("two numbers"), [1.0, 2.0]);
        let square = Tensor::zeros([2, 2], (Kind::Float, tch::Device::Cpu));
        let error = numbers_of(&square, 2).expect_err("two axes");
        assert!(matches!(error, TrainerError::Torch { .. }), "{error}");
        assert!(
            numbers_of(&Tensor::from_slice(&[1.0_f32]), 2).is_err_and(|error| error.to_string().contains("per-token"))
        );
    }
}
