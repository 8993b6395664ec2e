//! Products with weights, and linear layers of them, computed by the faster of libtorch's two libraries on the processor.
//!
//! For float32, libtorch uses MKL, which reaches half of the vector throughput of newer AMD processors. oneDNN, which
//! libtorch uses for tensors in a layout of its own, reaches all of it. The summation order of both depends only on the
//! shapes.
#![allow(non_snake_case)]

use std::sync::LazyLock;

use tch::{Device, Kind, Tensor};

/// Whether the processor is not from Intel, where oneDNN is faster than MKL. Unknown processors count as non-Intel.
static IS_NON_INTEL: LazyLock<bool> = LazyLock::new(|| {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    !processors.contains("GenuineIntel")
});

/// Least number of multiplications and of rows at which oneDNN is faster, including its copies of the operands.
const LEAST_WORK: i64 = 1 << 23;
const LEAST_ROWS: i64 = 64;

/// Number of padded row counts between two powers of two. oneDNN compiles a kernel of some megabytes for each row count
/// and caches a thousand of them.
const SIZES: u64 = 16;

/// `x · weightᵀ + bias`, `[…, O]`, from `[…, I]`.
pub(super) fn product(x: &Tensor, weight_OI: &Tensor, bias_O: Option<&Tensor>) -> Tensor {
    let mut shape = x.size();
    let (Some(last), Ok((O, I))) = (shape.last_mut(), weight_OI.size2()) else { return x.linear(weight_OI, bias_O) };
    *last = O;
    let N = shape.iter().rev().skip(1).product::<i64>();
    let large = N >= LEAST_ROWS && N * I * O >= LEAST_WORK;
    // libtorch itself passes 16-bit products to oneDNN.
    let to_onednn = x.kind() != Kind::Float || *IS_NON_INTEL;
    if x.device() != Device::Cpu || !large || !to_onednn || !tch::utils::has_mkldnn() {
        return x.linear(weight_OI, bias_O);
    }
    by_onednn(&x.reshape([N, I]), weight_OI, bias_O).view(&shape[..])
}

/// `x · weightᵀ + bias`, `[N, O]`, computed by oneDNN.
fn by_onednn(x_NI: &Tensor, weight_OI: &Tensor, bias_O: Option<&Tensor>) -> Tensor {
    let N = x_NI.size()[0];
    let filled_NI = match filled(N) - N {
        0 => x_NI.shallow_clone(),
        filling => x_NI.constant_pad_nd([0, 0, 0, filling]),
    };
    let y_NO = match x_NI.kind() {
        Kind::Float => filled_NI.to_mkldnn().mkldnn_linear(weight_OI, bias_O).to_dense(None, false),
        _ => filled_NI.linear(weight_OI, bias_O),
    };
    y_NO.narrow(0, 0, N)
}

/// Row count rounded up to a padded one.
fn filled(rows: i64) -> i64 {
    let rows = rows.unsigned_abs();
    rows.next_multiple_of((rows.next_power_of_two() / (2 * SIZES)).max(1)) as i64
}

/// A matrix with its bias and adapter. Suffixes of names are axes: I inputs, O outputs, R ranks.
#[derive(Debug)]
pub(super) struct Linear {
    pub weight_OI: Tensor,
    pub bias_O: Option<Tensor>,
    /// Factors of the adapter; the second one includes the adapter's factor.
    pub adapter: Option<[Tensor; 2]>,
}

impl Linear {
    pub fn of(&self, x: &Tensor) -> Tensor {
        let product = product(x, &self.weight_OI, self.bias_O.as_ref());
        match &self.adapter {
            None => product,
            Some([down_RI, up_OR]) => product + x.linear::<&Tensor>(down_RI, None).linear::<&Tensor>(up_OR, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest difference of two tensors, relative to the largest number of the second.
    fn apart(one: &Tensor, other: &Tensor) -> f64 {
        assert_eq!(one.size(), other.size());
        f64::try_from((one - other).abs().max()).unwrap() / f64::try_from(other.abs().max()).unwrap()
    }

    #[test]
    fn both_libraries_give_equal_products_and_gradients() {
        tch::manual_seed(3);
        let (I, O) = (96, 160);
        // A row count without padding, one with padding, and bfloat16.
        for (N, kind, within) in [(1024, Kind::Float, 1e-6), (1043, Kind::Float, 1e-6), (1043, Kind::BFloat16, 1e-2)] {
            let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
            let (seen, weight, bias, toward) = (random(&[N, I]), random(&[O, I]), random(&[O]), random(&[N, O]));
            let run = |of: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor, kind: Kind| {
                let leaves = [&seen, &weight, &bias].map(|leaf| leaf.detach().copy().set_requires_grad(true));
                let [seen, weight, bias] = [0, 1, 2].map(|index| leaves[index].to_kind(kind));
                let product = of(&seen, &weight, &bias).to_kind(Kind::Float);
                (&product * &toward).sum(Kind::Float).backward();
                [product.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()]
            };
            let plain = run(&|x, weight, bias| x.matmul(&weight.transpose(0, 1)) + bias, Kind::Float);
            let ours = run(&|x, weight, bias| by_onednn(x, weight, Some(bias)), kind);
            let chosen = run(&|x, weight, bias| product(&x.view([1, N, I]), weight, Some(bias)).squeeze_dim(0), kind);
            for (index, (one, other)) in ours.iter().zip(&plain).chain(chosen.iter().zip(&plain)).enumerate() {
                let apart = apart(one, other);
                assert!(apart <= within, "{N} rows in {kind:?}, result {index}: {apart}");
            }
        }
    }

    #[test]
    fn there_are_few_numbers_of_rows() {
        let sizes: std::collections::BTreeSet<i64> = (1025..=2048).map(filled).collect();
        assert_eq!(sizes.len(), 16);
        for rows in 1..5000 {
            assert!(filled(rows) >= rows && filled(rows) as f64 <= rows as f64 * 1.0625, "{rows}: {}", filled(rows));
        }
    }
}
