//! The output layer by the project's CUDA kernels: log-probabilities and entropies of targets from logits in their own
//! number format, and gradients in their place, without copies of the logits.
#![allow(non_snake_case)]

use std::ops::Range;

use gymkhana_engine::{Coefficients, Pass};
use tch::{Kind, TchError, Tensor, no_grad_guard};

use crate::cuda::{Kernels, TargetNumbers, kernels};
use crate::loss::PerToken;
use crate::model::{Model, Weights};

/// The output layer over the targets of a part.
pub(super) struct Head<'a> {
    kernels: &'static Kernels,
    weights: &'a Weights,
    pass: Pass,
    hidden_NC: Tensor,
    targets_N: &'a Tensor,
    /// Gradients by the output layer, `[V, C]`, and by the hidden states of each chunk.
    by_head_VC: Option<Tensor>,
    by_hidden: Vec<Tensor>,
}

/// Logits of a chunk and the numbers of its targets.
pub(super) struct Chunk {
    logits_NV: Tensor,
    targets_N: Tensor,
    hidden_NC: Tensor,
    numbers: TargetNumbers,
    entropies: bool,
}

impl<'a> Head<'a> {
    /// `None` on a device without kernels, and for a model whose logits are bounded.
    pub fn new(
        model: &Model,
        weights: &'a Weights,
        pass: Pass,
        hidden_NC: &Tensor,
        targets_N: &'a Tensor,
    ) -> Option<Self> {
        let kernels = kernels(model.device()).filter(|_| weights.has_plain_logits())?;
        let hidden_NC = hidden_NC.detach().to_kind(weights.head().kind());
        Some(Self { kernels, weights, pass, hidden_NC, targets_N, by_head_VC: None, by_hidden: Vec::new() })
    }

    /// Logits and numbers of a chunk of the targets, by its start and length.
    ///
    /// # Errors
    /// If a kernel cannot be started.
    pub fn forward(&self, (start, length): (i64, i64)) -> Result<Chunk, TchError> {
        let _guard = no_grad_guard();
        let [hidden_NC, targets_N] = [&self.hidden_NC, self.targets_N].map(|all| all.narrow(0, start, length));
        let logits_NV = self.weights.own_logits(&hidden_NC);
        let numbers = self.kernels.log_probs(&logits_NV, self.pass.temperature, &targets_N)?;
        Ok(Chunk { logits_NV, targets_N, hidden_NC, numbers, entropies: self.pass.entropies })
    }

    /// Adds the gradients of a loss, given its derivatives by the numbers of a range of targets, which are those of the
    /// chunk. Chunks must come in their order.
    ///
    /// # Errors
    /// If a kernel cannot be started.
    pub fn backward(&mut self, chunk: &Chunk, by: &Coefficients, range: Range<usize>) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        let by = PerToken::coefficients(by, range, chunk.targets_N.device());
        let by_log_probs_N = by.log_probs_N.f_contiguous()?;
        let by_entropies_N = by.entropies_N.as_ref().map(Tensor::f_contiguous).transpose()?;
        self.kernels.gradient(
            &chunk.logits_NV,
            self.pass.temperature,
            &chunk.targets_N,
            &chunk.numbers,
            &by_log_probs_N,
            by_entropies_N.as_ref(),
        )?;
        let (by_logits_NV, head_VC) = (&chunk.logits_NV, self.weights.head());
        self.by_hidden.push(by_logits_NV.f_matmul(head_VC)?);
        if head_VC.requires_grad() {
            let more_VC = by_logits_NV.f_tr()?.f_matmul(&chunk.hidden_NC)?.f_to_kind(Kind::Float)?;
            self.by_head_VC = Some(match self.by_head_VC.take() {
                Some(mut sum_VC) => sum_VC.f_add_(&more_VC)?,
                None => more_VC,
            });
        }
        Ok(())
    }

    /// Adds the gradient to that of the output layer, and returns that by the hidden states, `[N, C]`, in the number
    /// format of `like`.
    ///
    /// # Errors
    /// If there was no chunk.
    pub fn finish(self, like: Kind) -> Result<Tensor, TchError> {
        let head_VC = self.weights.head();
        // In its own statement, which frees the sum of the chunks.
        let own_VC = self.by_head_VC.map(|by_head_VC| by_head_VC.to_kind(head_VC.kind()));
        // The gradient of this sum by the output layer is the one computed.
        let pulled = own_VC.map(|own_VC| (head_VC * own_VC).sum(Kind::Float));
        if let Some(pulled) = pulled {
            pulled.backward();
        }
        Tensor::f_cat(&self.by_hidden, 0)?.f_to_kind(like)
    }
}

impl Chunk {
    /// Numbers of the targets, entropies where the pass needs them.
    pub fn terms(&self) -> PerToken {
        let entropies_N = self.entropies.then(|| self.numbers.entropies_N());
        PerToken { entropies_N, ..self.numbers.log_probs_N().into() }
    }
}
