//! Forward passes over parts, with and without gradients.
//!
//! The output layer processes tokens in chunks, forward and backward, so that the logits of a whole batch are never in
//! memory at once. The layers below it run backward once for each part.
#![allow(non_snake_case)]

#[cfg(test)]
mod families;
mod head;

use std::ops::Range;

use tch::{Kind, TchError, Tensor, no_grad_guard};

use crate::TrainerError;
use crate::batch::{Packed, parts};
use crate::loss::{self, PerToken};
use crate::model::{Angles, LogitsBy, Model, Sight, Weights};
use gymkhana_algorithm::{Direction, Surrogate};
use gymkhana_engine::{Loss, LossSums, Pass, Sequence, TokenNumbers, TokenRows};
use head::Head;

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
            distributions(pass, hidden_NC, &self.weights)
        };
        loss::distillation(log_probs_NV, &teacher_NV, self.direction, self.top_k.map(i64::from))
    }
}

/// Log-probabilities of all tokens at the temperature of a pass, `[N, V]`, from the residual stream, `[N, C]`.
fn distributions(pass: Pass, hidden_NC: &Tensor, weights: &Weights) -> Tensor {
    loss::tempered(weights.logits(hidden_NC), pass.temperature).log_softmax(-1, Kind::Float)
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

/// What a pass over a part found.
#[derive(Debug, Default)]
pub(super) struct PassedPart {
    /// The loss, and what is reported with it.
    pub sums: LossSums,
    /// Log-probability of each target, in nats.
    pub log_probs: Vec<f64>,
}

impl PassedPart {
    /// Adds a later chunk.
    fn add(&mut self, numbers: TokenNumbers, sums: LossSums) {
        self.sums += sums;
        self.log_probs.extend(numbers.log_probs);
    }
}

/// Adds the gradients of a part's loss to the parameters. A teacher adds divergences to the numbers of tokens.
///
/// # Errors
/// If a kernel cannot be started, or a number cannot be read.
pub(super) fn accumulate(
    model: &Model,
    packed: &Packed,
    loss: Loss<'_>,
    pass: Pass,
    teacher: Option<&TeacherPass<'_>>,
) -> Result<PassedPart, TchError> {
    let weights = model.weights();
    let units = packed.units(loss.units());
    let rows = TokenRows::new(&packed.stats, units.as_deref());
    let taught = teacher.map(|teacher| (teacher, teacher.hidden(packed)));
    let (hidden_NC, trunk) = TrunkBackward::forward(model, &weights, packed, pass.activation_checkpointing);
    let head = Head::new(model, &weights, pass, &hidden_NC, &packed.targets_N).filter(|_| taught.is_none());
    let by = if head.is_some() { LogitsBy::Kernels } else { LogitsBy::Operations };
    let chunks: Vec<(i64, i64)> = model.logits_chunks(packed.targets_N.size()[0], by).collect();
    let (passed, gradient_NC) = if let Some(head) = head {
        by_kernels(head, &chunks, loss, &rows, hidden_NC.kind())?
    } else {
        let leaf_NC = hidden_NC.set_requires_grad(true);
        let compute = |(start, length): (i64, i64)| {
            let log_probs_NV = distributions(pass, &leaf_NC.narrow(0, start, length), &weights);
            let divergences_N = taught.as_ref().map(|(teacher, hidden_NC)| {
                teacher.divergences(&hidden_NC.narrow(0, start, length), &log_probs_NV, pass)
            });
            let terms = PerToken::of(&log_probs_NV, &packed.targets_N.narrow(0, start, length), pass.entropies);
            PerToken { divergences_N, ..terms }
        };
        (by_operations(&chunks, loss, &rows, compute)?, leaf_NC.grad())
    };
    trunk.backward(model, &weights, packed, &gradient_NC);
    Ok(passed)
}

/// Targets of a chunk.
fn range((start, length): (i64, i64)) -> Range<usize> {
    start as usize..(start + length) as usize
}

/// Gradients of the chunks' numbers by libtorch's operations.
fn by_operations(
    chunks: &[(i64, i64)],
    loss: Loss<'_>,
    rows: &TokenRows<'_>,
    compute: impl Fn((i64, i64)) -> PerToken,
) -> Result<PassedPart, TchError> {
    let mut passed = PassedPart::default();
    if loss.is_separable() || chunks.len() == 1 {
        for chunk in chunks {
            let terms = compute(*chunk);
            let numbers = terms.numbers()?;
            let found = loss.evaluate(&numbers, &rows.narrow(range(*chunk)));
            terms.backward(&found.by, 0..numbers.log_probs.len());
            passed.add(numbers, found.sums);
        }
        return Ok(passed);
    }
    // First all log-probabilities and the derivative by each; then each chunk again, with gradients.
    let numbers = without_gradients(chunks, &compute).numbers()?;
    let found = loss.evaluate(&numbers, rows);
    for chunk in chunks {
        compute(*chunk).backward(&found.by, range(*chunk));
    }
    passed.add(numbers, found.sums);
    Ok(passed)
}

/// Gradients of the chunks' numbers by kernels. Also returns the gradient by the hidden states in the given number format.
fn by_kernels(
    mut head: Head<'_>,
    chunks: &[(i64, i64)],
    loss: Loss<'_>,
    rows: &TokenRows<'_>,
    kind: Kind,
) -> Result<(PassedPart, Tensor), TchError> {
    let mut passed = PassedPart::default();
    if loss.is_separable() || chunks.len() == 1 {
        for chunk in chunks {
            let computed = head.forward(*chunk)?;
            let numbers = computed.terms().numbers()?;
            let found = loss.evaluate(&numbers, &rows.narrow(range(*chunk)));
            head.backward(&computed, &found.by, 0..numbers.log_probs.len())?;
            passed.add(numbers, found.sums);
        }
    } else {
        // The logits of one chunk exist at a time, so that each is computed twice.
        let terms =
            chunks.iter().map(|chunk| Ok(head.forward(*chunk)?.terms())).collect::<Result<Vec<_>, TchError>>()?;
        let numbers = PerToken::cat(&terms).numbers()?;
        let found = loss.evaluate(&numbers, rows);
        for chunk in chunks {
            let computed = head.forward(*chunk)?;
            head.backward(&computed, &found.by, range(*chunk))?;
        }
        passed.add(numbers, found.sums);
    }
    Ok((passed, head.finish(kind)?))
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
    pass: Pass,
    compute: impl Fn(&Packed) -> Result<Tensor, TchError>,
) -> Result<Vec<Vec<f32>>, TrainerError> {
    let _guard = no_grad_guard();
    let mut values: Vec<Vec<f32>> = sequences.iter().map(|sequence| vec![0.0; sequence.targets.len()]).collect();
    for part in parts(sequences, pass.micro_batch_tokens, pass.share_beginnings) {
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
    target_values(model, sequences, pass, |packed| log_probs_of(model, weights, packed, pass))
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
        PerToken::of(&distributions(pass, &hidden_NC, weights), &targets_N, false)
    };
    Ok(without_gradients(&chunks(LogitsBy::Operations).collect::<Vec<_>>(), compute).log_probs_N)
}

/// The loss of a part, without its gradient.
///
/// # Errors
/// If a kernel cannot be started, or a number cannot be read.
pub(super) fn measure(model: &Model, packed: &Packed, loss: Loss<'_>, pass: Pass) -> Result<PassedPart, TchError> {
    let units = packed.units(loss.units());
    let numbers = PerToken::from(log_probs_of(model, &model.weights(), packed, pass)?).numbers()?;
    let sums = loss.evaluate(&numbers, &TokenRows::new(&packed.stats, units.as_deref())).sums;
    Ok(PassedPart { sums, log_probs: numbers.log_probs })
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
