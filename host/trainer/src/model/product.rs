//! Products with weights, by the faster of the two libraries that libtorch has for them on a processor.
//!
//! For float32 libtorch asks MKL, which uses half of what the vector units of newer AMD processors can do; oneDNN, which
//! libtorch keeps for tensors of a form of its own, uses all. Both add in an order that the shapes alone decide.
#![allow(non_snake_case)]

use std::sync::LazyLock;

use tch::{Device, Kind, Tensor};

/// Whether MKL does not know this processor well: it was not made by MKL's makers.
static NOT_INTEL: LazyLock<bool> = LazyLock::new(|| {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    !told.contains("GenuineIntel")
});

/// From so many multiplications on, and so many rows, oneDNN wins although it is handed copies.
const LEAST_WORK: i64 = 1 << 23;
const LEAST_ROWS: i64 = 64;

/// Rows are filled up to so many sizes between two powers of two: oneDNN compiles a kernel for each number of rows that
/// it meets and keeps a thousand of them, some megabytes each.
const SIZES: i64 = 16;

/// `x · weightᵀ + bias`, `[…, O]`, from `[…, I]`.
pub(super) fn product(x: &Tensor, weight_OI: &Tensor, bias_O: Option<&Tensor>) -> Tensor {
    let mut shape = x.size();
    let (Some(last), Ok((O, I))) = (shape.last_mut(), weight_OI.size2()) else { return x.linear(weight_OI, bias_O) };
    *last = O;
    let N = shape.iter().rev().skip(1).product::<i64>();
    // Of half the width, they go to oneDNN by themselves.
    let (float, large) = (x.kind() == Kind::Float, N >= LEAST_ROWS && N * I * O >= LEAST_WORK);
    if x.device() != Device::Cpu || !large || !tch::utils::has_mkldnn() || (float && !*NOT_INTEL) {
        return x.linear(weight_OI, bias_O);
    }
    let (x_NI, filling) = (x.reshape([N, I]), filled(N) - N);
    let x_NI = if filling > 0 { x_NI.constant_pad_nd([0, 0, 0, filling]) } else { x_NI };
    let y_NO = if float {
        x_NI.to_mkldnn().mkldnn_linear(weight_OI, bias_O).to_dense(None, false)
    } else {
        x_NI.linear(weight_OI, bias_O)
    };
    y_NO.narrow(0, 0, N).view(&shape[..])
}

/// How many rows so many are computed as.
fn filled(rows: i64) -> i64 {
    let step = (rows.unsigned_abs().next_power_of_two() as i64 / (2 * SIZES)).max(1);
    (rows + step - 1) / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest difference of two tensors, in units of the largest number of the second.
    fn apart(one: &Tensor, other: &Tensor) -> f64 {
        assert_eq!(one.size(), other.size());
        f64::try_from((one - other).abs().max()).unwrap() / f64::try_from(other.abs().max()).unwrap()
    }

    #[test]
    fn both_libraries_give_the_same_product_and_the_same_gradients() {
        tch::manual_seed(3);
        let (I, O) = (96, 160);
        // Few rows, many, many that are no whole number of parts; and in bfloat16.
        for (rows, kind, within) in [
            ([2, 5], Kind::Float, 1e-6),
            ([8, 128], Kind::Float, 1e-6),
            ([7, 149], Kind::Float, 1e-6),
            ([7, 149], Kind::BFloat16, 1e-2),
        ] {
            let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
            let (seen, weight, bias) = (random(&[rows[0], rows[1], I]), random(&[O, I]), random(&[O]));
            let toward = random(&[rows[0], rows[1], O]);
            let run = |of: &dyn Fn(&Tensor, &Tensor, &Tensor) -> Tensor, kind: Kind| {
                let leaves = [&seen, &weight, &bias].map(|leaf| leaf.detach().copy().set_requires_grad(true));
                let [seen, weight, bias] = [0, 1, 2].map(|index| leaves[index].to_kind(kind));
                let product = of(&seen, &weight, &bias).to_kind(Kind::Float);
                (&product * &toward).sum(Kind::Float).backward();
                [product.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()]
            };
            let ours = run(&|x, weight, bias| product(x, weight, Some(bias)), kind);
            let plain = run(&|x, weight, bias| x.matmul(&weight.transpose(0, 1)) + bias, Kind::Float);
            for (index, (one, other)) in ours.iter().zip(&plain).enumerate() {
                let apart = apart(one, other);
                assert!(apart <= within, "{rows:?} rows in {kind:?}, result {index}: {apart}");
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
