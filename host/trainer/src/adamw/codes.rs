//! Numbers of an optimiser's state in 8 bits: a code in a table of 256 numbers, times the largest magnitude of its block.
//!
//! Blocks and table are those of Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (arXiv 2110.02861): a
//! dynamic tree, whose codes have seven exponents of ten and more fractions in the larger ones.

use tch::{Device, Kind, TchError, Tensor};

use crate::parameters::ALIGNMENT;

/// Numbers of a block, which share a scale. Parameters begin with a block of their own.
pub(super) const BLOCK: i64 = ALIGNMENT;
/// Bytes of a number with its share of the scale.
pub(super) const BYTES: f64 = 1.0 + 4.0 / BLOCK as f64;
/// Exponents of ten of the table, from 0 down.
const EXPONENTS: u32 = 7;

/// Numbers of a table, in ascending order: from -1 to 1 if signed, else from 0 to 1.
fn numbers(is_signed: bool) -> Vec<f32> {
    let mut numbers = vec![0.0, 1.0];
    for exponent in 0..EXPONENTS {
        let fractions = 1_u32 << (if is_signed { exponent } else { exponent + 1 });
        let power = 10_f64.powi(exponent as i32 + 1 - EXPONENTS as i32);
        for fraction in 0..fractions {
            let middle = 0.1 + 0.9 * (f64::from(fraction) + 0.5) / f64::from(fractions);
            numbers.push((middle * power) as f32);
            if is_signed {
                numbers.push((-middle * power) as f32);
            }
        }
    }
    numbers.sort_by(f32::total_cmp);
    numbers
}

/// A table on a device.
#[derive(Debug)]
pub(super) struct Table {
    /// Numbers of the codes, `[256]`.
    numbers: Tensor,
    /// Number between a code and the next one, `[256]`: above it the next code is nearer. Infinite for the last code.
    between: Tensor,
    /// Code of the smallest number whose 16 high bits are the index, `[65536]`.
    first: Tensor,
    /// Code below which no number but 0 is rounded: small squares would otherwise divide by nothing.
    least: i64,
}

/// Numbers between two codes, `[255]`, and infinity.
fn bounds(numbers: &[f32]) -> Vec<f32> {
    let between = numbers.windows(2).map(|pair| f32::midpoint(pair[0], pair[1]));
    between.chain([f32::INFINITY]).collect()
}

/// The smallest and the largest float32 number with these 16 high bits.
fn bucket(high: u32) -> [f32; 2] {
    let ends = [high << 16, (high << 16) | 0xffff].map(f32::from_bits);
    if ends[0].is_sign_negative() { [ends[1], ends[0]] } else { ends }
}

/// Number of bounds below a number, which is the code of the nearest number.
fn nearest(bounds: &[f32], number: f32) -> usize {
    bounds.partition_point(|bound| *bound < number)
}

impl Table {
    /// Of numbers with a sign, or of squares.
    pub fn new(is_signed: bool, device: Device) -> Result<Self, TchError> {
        let numbers = numbers(is_signed);
        let bounds = bounds(&numbers);
        let first: Vec<i32> = (0..1 << 16).map(|high| nearest(&bounds, bucket(high)[0]).min(255) as i32).collect();
        Ok(Self {
            numbers: Tensor::f_from_slice(&numbers)?.f_to_device(device)?,
            between: Tensor::f_from_slice(&bounds)?.f_to_device(device)?,
            first: Tensor::f_from_slice(&first)?.f_to_device(device)?,
            least: i64::from(!is_signed),
        })
    }

    /// Code of 0.
    pub fn zero(&self) -> i64 {
        if self.least > 0 { 0 } else { 127 }
    }

    /// Numbers of whole blocks, `[N]`, from codes `[N]` and scales `[N / 256]`.
    pub fn decode(&self, codes: &Tensor, scales: &Tensor) -> Result<Tensor, TchError> {
        let numbers = self.numbers.f_index_select(0, &codes.f_to_kind(Kind::Int)?)?.f_view([-1, BLOCK])?;
        numbers.f_mul(&scales.f_unsqueeze(-1)?)?.f_view([-1])
    }

    /// Writes the codes and scales of whole blocks of numbers, `[N]`.
    pub fn encode(&self, numbers: &Tensor, codes: &mut Tensor, scales: &mut Tensor) -> Result<(), TchError> {
        let blocks = numbers.f_view([-1, BLOCK])?;
        let most = blocks.f_abs()?.f_amax([-1], false)?;
        let shares = blocks.f_div(&most.f_clamp_min(f64::from(f32::MIN_POSITIVE))?.f_unsqueeze(-1)?)?.f_view([-1])?;
        let mut found = self.nearest(&shares)?;
        if self.least > 0 {
            found = found.f_maximum(&shares.f_gt(0.0)?.f_to_kind(Kind::Int)?)?;
        }
        codes.f_copy_(&found)?;
        scales.f_copy_(&most)
    }

    /// Codes of the nearest numbers, `[N]`: the first of the 16 high bits, or the next one. A binary search would take ten
    /// times as long.
    fn nearest(&self, shares: &Tensor) -> Result<Tensor, TchError> {
        let high = shares.f_view_dtype(Kind::Int)?.f_bitwise_right_shift_tensor_scalar(16)?.f_bitwise_and(0xffff)?;
        let first = self.first.f_index_select(0, &high)?;
        let is_next = self.between.f_index_select(0, &first)?.f_lt_tensor(shares)?;
        first.f_add(&is_next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: a fraction of the largest exponent is 0.9 / 64 wide if signed, and 0.9 / 128 if not; the smallest is the
    /// middle of 0.1 to 1, or of its lower half, times one millionth.
    #[test]
    fn tables_are_dynamic_trees() {
        let (signed, squares) = (numbers(true), numbers(false));
        assert_eq!((signed.len(), squares.len()), (256, 256));
        assert_eq!((signed[0], signed[127], signed[255]), (-(0.1 + 0.9 * 63.5 / 64.0) as f32, 0.0, 1.0));
        assert_eq!((signed[128], squares[1]), (0.55e-6, 0.325e-6));
        assert_eq!(squares[254], (0.1 + 0.9 * 127.5 / 128.0) as f32);
    }

    /// What [`Table::nearest`] relies on: between two numbers with the same high bits lies one bound at most.
    #[test]
    fn numbers_with_equal_high_bits_have_two_codes_at_most() {
        for is_signed in [false, true] {
            let bounds = bounds(&numbers(is_signed));
            let codes = (0..1 << 16).map(bucket).filter(|ends| ends.iter().all(|end| end.abs() <= 1.0));
            let most = codes.map(|ends| nearest(&bounds, ends[1]) - nearest(&bounds, ends[0])).max();
            assert_eq!(most, Some(1));
        }
    }

    /// Beside a search among all bounds.
    #[test]
    fn codes_are_the_nearest() {
        let table = Table::new(true, Device::Cpu).expect("a table");
        let shares: Vec<f32> = (-50_000..=50_000).map(|step| (step as f32 / 50_000.0).powi(5)).collect();
        let found: Vec<i32> =
            Vec::try_from(table.nearest(&Tensor::from_slice(&shares)).expect("codes")).expect("codes");
        let bounds = bounds(&numbers(true));
        let expected: Vec<i32> = shares.iter().map(|share| nearest(&bounds, *share) as i32).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_come_back_to_the_nearest_code() {
        let mut values = vec![0.0_f32; 512];
        (values[0], values[1], values[2], values[256]) = (-8.0, 4.0, 1e-9, 2e-30);
        let back = |is_signed, values: &[f32]| -> Vec<f32> {
            let table = Table::new(is_signed, Device::Cpu).expect("a table");
            let mut codes = Tensor::zeros([512], (Kind::Uint8, Device::Cpu));
            let mut scales = Tensor::zeros([2], (Kind::Float, Device::Cpu));
            table.encode(&Tensor::from_slice(values), &mut codes, &mut scales).expect("encoded");
            Vec::try_from(table.decode(&codes, &scales).expect("decoded")).expect("numbers")
        };
        let found = back(true, &values);
        // The largest signed code below 1 is -0.9929..., and that of 0.5 is at most half a fraction away.
        assert!((found[0] + 8.0).abs() < 0.06 && (found[1] - 4.0).abs() < 8.0 * 0.45 / 64.0, "{:?}", &found[..2]);
        assert_eq!((found[2], found[256], found[511]), (0.0, 2e-30, 0.0));
        values[0] = 8.0;
        let found = back(false, &values);
        assert_eq!(found[0], 8.0);
        assert!((found[2] - 8.0 * 0.325e-6).abs() < 1e-9, "a square above 0 stays above 0: {}", found[2]);
        assert_eq!(found[511], 0.0);
    }
}
