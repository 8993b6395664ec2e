//! Divergence between the distributions of a policy and a teacher.
#![allow(non_snake_case)]

use tch::{Kind, Tensor};

use gymkhana_algorithm::Direction;

/// Divergence of each token in nats, `[N]`, from the log-probabilities of both, `[N, V]`. With `top_k`, both
/// distributions are restricted to the teacher's most probable tokens and normalised.
pub fn distillation(own_NV: &Tensor, teacher_NV: &Tensor, direction: Direction, top_k: Option<i64>) -> Tensor {
    let restricted = top_k.filter(|top_k| *top_k < teacher_NV.size()[1]).map(|top_k| {
        let (top_NK, tokens_NK) = teacher_NV.topk(top_k, -1, true, false);
        [own_NV.gather(-1, &tokens_NK, false), top_NK].map(|of_NK| of_NK.log_softmax(-1, Kind::Float))
    });
    let [own, teacher] = restricted.unwrap_or_else(|| [own_NV.shallow_clone(), teacher_NV.shallow_clone()]);
    let [from, to] = match direction {
        Direction::Forward => [teacher, own],
        Direction::Reverse => [own, teacher],
    };
    (from.exp() * (from - to)).sum_dim_intlist(-1, false, Kind::Float)
}
