//! Feed-forward parts: a gated pair of matrices, or experts of which each token uses some.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use super::product::Linear;
use crate::config::{Activation, Experts};

/// Feed-forward part of a layer.
#[derive(Debug)]
pub(super) enum Mlp {
    Dense(Dense),
    Sparse(Sparse),
}

/// `down(activation(gate(x)) · up(x))`.
#[derive(Debug)]
pub(super) struct Dense {
    pub gate_up: GateUp,
    pub down: Linear,
    pub activation: Activation,
}

/// The two matrices of the feed-forward part that multiply the same input. One product is faster on a processor and in
/// generation. In training on a GPU, two are: their results and gradients are not parts of wider rows, which libtorch
/// reads more slowly and has to join.
#[derive(Debug)]
pub(super) enum GateUp {
    Joined(Linear),
    Apart([Linear; 2]),
}

/// Experts (Shazeer et al. 2017): a token's output is the sum of those of the experts with the highest probabilities, each
/// times its probability.
#[derive(Debug)]
pub(super) struct Sparse {
    pub router: Linear,
    pub experts: Vec<Dense>,
    pub options: Experts,
    /// Expert that all tokens use, and the gate of its output.
    pub shared: Option<(Dense, Linear)>,
    /// Whether every expert computes all tokens, so that a token's numbers do not depend on what others choose.
    pub every_token: bool,
}

impl GateUp {
    /// Results of both matrices, `[…, F]` each.
    fn of(&self, x: &Tensor) -> [Tensor; 2] {
        match self {
            Self::Joined(linear) => {
                let wide = linear.of(x).chunk(2, -1);
                [wide[0].shallow_clone(), wide[1].shallow_clone()]
            }
            Self::Apart(both) => both.each_ref().map(|linear| linear.of(x)),
        }
    }
}

impl Mlp {
    /// Output for the normalised residual stream, `[…, C]` both.
    pub fn of(&self, x: &Tensor) -> Tensor {
        match self {
            Self::Dense(dense) => dense.of(x),
            Self::Sparse(sparse) => sparse.of(x),
        }
    }
}

impl Dense {
    fn of(&self, x: &Tensor) -> Tensor {
        let [gate, up] = self.gate_up.of(x);
        let gate = match self.activation {
            Activation::Silu => gate.silu(),
            Activation::GeluTanh => gate.gelu("tanh"),
        };
        self.down.of(&(gate * up))
    }
}

impl Sparse {
    fn of(&self, x: &Tensor) -> Tensor {
        let size = x.size();
        let x_NC = x.reshape([-1, size[size.len() - 1]]);
        let [weights_NK, chosen_NK] = self.choices(&x_NC);
        let mut sum_NC = if self.every_token {
            self.of_all(&x_NC, &weights_NK, &chosen_NK)
        } else {
            self.of_chosen(&x_NC, &weights_NK, &chosen_NK)
        };
        if let Some((expert, gate)) = &self.shared {
            sum_NC += gate.of(&x_NC).sigmoid() * expert.of(&x_NC);
        }
        sum_NC.view(&size[..])
    }

    /// Weights and numbers of each token's experts, `[N, K]` both.
    fn choices(&self, x_NC: &Tensor) -> [Tensor; 2] {
        let probabilities_NE = self.router.of(x_NC).softmax(-1, Kind::Float);
        let (weights_NK, chosen_NK) = probabilities_NE.topk(self.options.per_token, -1, true, true);
        let weights_NK = if self.options.normalised {
            &weights_NK / weights_NK.sum_dim_intlist(-1, true, Kind::Float)
        } else {
            weights_NK
        };
        [weights_NK.to_kind(x_NC.kind()), chosen_NK]
    }

    /// Each expert computes the tokens that chose it.
    fn of_chosen(&self, x_NC: &Tensor, weights_NK: &Tensor, chosen_NK: &Tensor) -> Tensor {
        let per_token = self.options.per_token;
        let flat_weights = weights_NK.reshape([-1]);
        let flat_chosen = chosen_NK.reshape([-1]);
        let order = flat_chosen.argsort_stable(true, 0, false);
        let counts = flat_chosen.bincount::<&Tensor>(None, self.options.count);
        let counts: Vec<i64> = (0..self.options.count).map(|expert| counts.int64_value(&[expert])).collect();
        let mut sum_NC = x_NC.zeros_like();
        let mut start = 0;
        for (expert, count) in self.experts.iter().zip(counts).filter(|(_, count)| *count > 0) {
            let places = order.narrow(0, start, count);
            start += count;
            let rows = places.divide_scalar_mode(per_token, "floor");
            let output = expert.of(&x_NC.index_select(0, &rows));
            let weighted = output * flat_weights.index_select(0, &places).unsqueeze(-1);
            sum_NC = sum_NC.index_add(0, &rows, &weighted);
        }
        sum_NC
    }

    /// Each expert computes all tokens, with weight 0 for those that did not choose it.
    fn of_all(&self, x_NC: &Tensor, weights_NK: &Tensor, chosen_NK: &Tensor) -> Tensor {
        let N = x_NC.size()[0];
        let weights_NE =
            Tensor::zeros([N, self.options.count], (x_NC.kind(), x_NC.device())).scatter(-1, chosen_NK, weights_NK);
        let terms =
            self.experts.iter().zip(0..).map(|(expert, index)| expert.of(x_NC) * weights_NE.narrow(1, index, 1));
        terms.fold(x_NC.zeros_like(), |sum, term| sum + term)
    }
}
