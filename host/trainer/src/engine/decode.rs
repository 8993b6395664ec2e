//! Attention of single new tokens on the processor: each row reads its own cached positions in place.
//!
//! libtorch computes such a row as small matrix-vector products over the positions of the longest row, padding
//! included, which MKL does not vectorise on every processor. Here a row's sums depend on its own positions alone, in a
//! fixed order, so that a row gives equal bits in any batch and with any number of threads.
#![allow(non_snake_case)]

use std::ffi::c_void;

use tch::{Kind, TchError, Tensor};

use crate::model::Sight;

/// Cached positions of a batch's rows.
#[derive(Debug, Default)]
pub(super) struct CachedPositions {
    /// Positions of a block.
    size: usize,
    /// Blocks of all rows.
    blocks: Vec<u32>,
    /// For each row its first block among them, and the number of its positions, the new token's included; 0 for an idle row,
    /// whose attention is 0.
    rows: Vec<(usize, usize)>,
}

impl CachedPositions {
    /// Of no rows, in blocks of this size.
    pub fn new(size: usize) -> Self {
        Self { size, ..Self::default() }
    }

    /// Adds a row with this number of positions in its blocks.
    pub fn push(&mut self, blocks: &[u32], count: usize) {
        self.rows.push((self.blocks.len(), count));
        self.blocks.extend_from_slice(&blocks[..count.div_ceil(self.size).min(blocks.len())]);
    }

    /// Whether each row has a block in a cache of this number of rows for each of its positions.
    fn fits(&self, cached: usize) -> bool {
        let ends = self.rows.iter().skip(1).map(|(start, _)| *start).chain([self.blocks.len()]);
        let full = self.rows.iter().zip(ends).all(|((start, count), end)| (end - start) * self.size >= *count);
        full && self.blocks.iter().all(|block| (*block as usize + 1) * self.size <= cached)
    }

    /// Rows of the cache with the last `shown` positions of a row, in their order: first row and number of neighbours.
    fn runs(&self, (start, count): (usize, usize), shown: usize) -> impl Iterator<Item = (usize, usize)> {
        let (size, mut position) = (self.size, count - shown);
        std::iter::from_fn(move || {
            let (block, within) = (self.blocks.get(start + position / size)?, position % size);
            let length = (size - within).min(count - position);
            position += length;
            (length > 0).then_some((*block as usize * size + within, length))
        })
    }
}

/// Numbers of a sum that are added independently.
const LANES: usize = 16;

/// Rows that are worth another thread.
const ROWS_PER_THREAD: i64 = 8;

unsafe extern "C" {
    /// libtorch's loop over its threads, a part of its C interface. Returns 0 on success.
    fn torch_parallel_for(
        begin: i64,
        end: i64,
        grain_size: i64,
        part: extern "C" fn(i64, i64, *mut c_void),
        context: *mut c_void,
    ) -> i32;
}

/// Operands of the attention of R rows: H query heads and K heads of keys and values, of size D.
struct Operands<'a> {
    query_RHD: &'a [f32],
    /// `[rows of the cache, K · D]`, as are the values.
    keys: &'a [f32],
    values: &'a [f32],
    seen: &'a CachedPositions,
    attended_RHD: *mut f32,
    heads: usize,
    kv_heads: usize,
    head_size: usize,
    /// Number of last positions that a row sees.
    window: usize,
    /// Bound that scores approach.
    cap: Option<f32>,
}

/// Attention of float32 queries `[R, 1, H, D]` on the processor over a layer's cached keys and values
/// `[rows, K · D]`; returns `[R, 1, H, D]`.
///
/// # Errors
/// If libtorch cannot allocate the result.
pub(super) fn attend(
    query_R1HD: &Tensor,
    [keys, values]: [&Tensor; 2],
    seen: &CachedPositions,
    kv_heads: i64,
    sight: Sight,
) -> Result<Tensor, TchError> {
    let query_R1HD = query_R1HD.f_contiguous()?;
    let size = query_R1HD.size();
    let [heads, head_size] = [size[2], size[3]];
    let attended_R1HD = query_R1HD.f_zeros_like()?;
    let width = (kv_heads * head_size) as usize;
    let cached = keys.size()[0] as usize;
    let fits = seen.fits(cached) && seen.rows.len() as i64 == size[0];
    let alike = [keys, values].iter().all(|part| part.is_contiguous() && part.numel() == cached * width);
    let plain = [&query_R1HD, keys, values].iter().all(|part| part.kind() == Kind::Float);
    if !fits || !alike || !plain || heads % kv_heads != 0 {
        return Err(TchError::Shape("attention over a cache of another shape".to_owned()));
    }
    // SAFETY: the tensors are contiguous float32 numbers on the processor that live until the end of this function, and
    // nothing writes to them meanwhile.
    let numbers = |of: &Tensor| unsafe { std::slice::from_raw_parts(of.data_ptr().cast::<f32>(), of.numel()) };
    let mut operands = Operands {
        query_RHD: numbers(&query_R1HD),
        keys: numbers(keys),
        values: numbers(values),
        seen,
        attended_RHD: attended_R1HD.data_ptr().cast(),
        heads: heads as usize,
        kv_heads: kv_heads as usize,
        head_size: head_size as usize,
        window: sight.window.map_or(usize::MAX, |window| usize::try_from(window).unwrap_or(usize::MAX)),
        cap: sight.cap.map(|cap| cap as f32),
    };
    // SAFETY: `part` receives disjoint ranges of rows, and the operands outlive the loop, which ends before it returns.
    let code = unsafe {
        torch_parallel_for(0, seen.rows.len() as i64, ROWS_PER_THREAD, part, std::ptr::from_mut(&mut operands).cast())
    };
    if code == 0 { Ok(attended_R1HD) } else { Err(TchError::Torch("a parallel loop failed".to_owned())) }
}

/// Attention of the rows `begin` to `end - 1`.
extern "C" fn part(begin: i64, end: i64, context: *mut c_void) {
    // SAFETY: `attend` passes its operands, and threads only read them.
    let operands = unsafe { &*context.cast_const().cast::<Operands<'_>>() };
    let width = operands.heads * operands.head_size;
    let mut scores = Vec::new();
    for index in begin as usize..end as usize {
        // SAFETY: the result has a place for each row, and no other thread has this row.
        let attended = unsafe { std::slice::from_raw_parts_mut(operands.attended_RHD.add(index * width), width) };
        let query = &operands.query_RHD[index * width..(index + 1) * width];
        row_for_processor(operands, query, operands.seen.rows[index], &mut scores, attended);
    }
}

/// [`row`], compiled for the widest vectors that the processor has. Its sums have the same order and therefore the same
/// bits for all of them.
fn row_for_processor(
    operands: &Operands<'_>,
    query: &[f32],
    seen: (usize, usize),
    scores: &mut Vec<f32>,
    attended: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn row_avx2(
            operands: &Operands<'_>,
            query: &[f32],
            seen: (usize, usize),
            scores: &mut Vec<f32>,
            attended: &mut [f32],
        ) {
            row(operands, query, seen, scores, attended);
        }
        #[target_feature(enable = "avx512f")]
        fn row_avx512(
            operands: &Operands<'_>,
            query: &[f32],
            seen: (usize, usize),
            scores: &mut Vec<f32>,
            attended: &mut [f32],
        ) {
            row(operands, query, seen, scores, attended);
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature.
            return unsafe { row_avx512(operands, query, seen, scores, attended) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { row_avx2(operands, query, seen, scores, attended) };
        }
    }
    row(operands, query, seen, scores, attended);
}

/// Attention of one row, `[H, D]`; `attended` is 0 before.
#[inline(always)]
fn row(operands: &Operands<'_>, query: &[f32], seen: (usize, usize), scores: &mut Vec<f32>, attended: &mut [f32]) {
    let Operands { heads, kv_heads, head_size, .. } = *operands;
    let (width, group, count) = (kv_heads * head_size, heads / kv_heads, seen.1.min(operands.window));
    let runs = || operands.seen.runs(seen, count).map(|(first, length)| first * width..(first + length) * width);
    let scale = (head_size as f32).sqrt().recip();
    scores.clear();
    scores.resize(heads * count, 0.0);
    for (position, key) in runs().flat_map(|run| operands.keys[run].chunks_exact(width)).enumerate() {
        for (head, query) in query.chunks_exact(head_size).enumerate() {
            let own = &key[head / group * head_size..][..head_size];
            scores[head * count + position] = dot(query, own) * scale;
        }
    }
    if let Some(cap) = operands.cap {
        scores.iter_mut().for_each(|score| *score = cap * (*score / cap).tanh());
    }
    for head in scores.chunks_exact_mut(count.max(1)) {
        softmax(head);
    }
    for (position, value) in runs().flat_map(|run| operands.values[run].chunks_exact(width)).enumerate() {
        for (head, attended) in attended.chunks_exact_mut(head_size).enumerate() {
            let weight = scores[head * count + position];
            let own = &value[head / group * head_size..][..head_size];
            attended.iter_mut().zip(own).for_each(|(sum, number)| *sum += weight * number);
        }
    }
}

/// Scalar product.
#[inline(always)]
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (ones, last) = one.as_chunks::<LANES>();
    let (others, other_last) = other.as_chunks::<LANES>();
    for (one, other) in ones.iter().zip(others) {
        lanes.iter_mut().zip(one.iter().zip(other)).for_each(|(sum, (one, other))| *sum += one * other);
    }
    lanes.iter_mut().zip(last.iter().zip(other_last)).for_each(|(sum, (one, other))| *sum += one * other);
    sum(lanes)
}

/// Sum of the lanes, by halves.
#[inline(always)]
fn sum(mut lanes: [f32; LANES]) -> f32 {
    let mut count = LANES / 2;
    while count > 0 {
        for index in 0..count {
            lanes[index] += lanes[index + count];
        }
        count /= 2;
    }
    lanes[0]
}

/// Replaces scores by their softmax.
#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let mut highest = [f32::NEG_INFINITY; LANES];
    for chunk in scores.chunks(LANES) {
        highest.iter_mut().zip(chunk).for_each(|(most, score)| *most = if *score > *most { *score } else { *most });
    }
    let most = highest.into_iter().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = exp(*score - most));
    let mut lanes = [0.0_f32; LANES];
    for chunk in scores.chunks(LANES) {
        lanes.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
    }
    let share = sum(lanes).recip();
    scores.iter_mut().for_each(|score| *score *= share);
}

/// Exponential of a number of at most 0, with a relative error of some 1e-7. Below -87 it is that of -87. Unlike the
/// library's, a loop over it becomes vector code.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts: the product of the first with a small integer is exact.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    /// 1/n! from n = 7 down to 0.
    const SERIES: [f32; 8] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    // Written so that what is not a number stays so.
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = x - whole * LN_2[0] - whole * LN_2[1];
    let series = SERIES.into_iter().fold(0.0, |sum, factor| sum * rest + factor);
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    series * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;
    use crate::model::VisibleKeys;

    #[test]
    fn exponentials_are_those_of_the_library() {
        for step in 0..=8700 {
            let x = -step as f32 / 100.0;
            let expected = f64::from(x).exp();
            assert!((f64::from(exp(x)) / expected - 1.0).abs() < 3e-7, "{x}: {} is not {expected}", exp(x));
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e9) < 1e-37 && exp(f32::NEG_INFINITY) < 1e-37 && exp(f32::NAN).is_nan());
    }

    /// A row beside libtorch's attention in float64, alone and in a batch of many, with and without shared heads and with
    /// sizes that fill no vector.
    #[test]
    fn rows_are_those_of_libtorch_and_the_same_bits_in_any_batch() {
        tch::manual_seed(5);
        let all = Sight { window: None, cap: None };
        let short = Sight { window: Some(7), cap: Some(1.5) };
        for (heads, kv_heads, head_size, sight) in [(5, 5, 32, all), (4, 2, 6, all), (6, 1, 20, all), (4, 2, 6, short)]
        {
            // Each conversation has five blocks of eight positions, in an order of its own.
            let (slots, positions, size) = (24_usize, 40_usize, 8_usize);
            let blocks =
                |slot: usize| (0..5).map(|block| ((block * 7 + slot) % 5 * 24 + slot) as u32).collect::<Vec<_>>();
            let one = |row: &(usize, usize)| {
                let mut seen = CachedPositions::new(size);
                seen.push(&blocks(row.0), row.1);
                seen
            };
            let random = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu)) * 2.0;
            let [keys, values] = [(); 2].map(|()| random(&[(slots * positions) as i64, kv_heads * head_size]));
            let query = random(&[slots as i64, 1, heads, head_size]);
            let rows: Vec<(usize, usize)> = (0..slots).map(|slot| (slot, slot * 7 % (positions + 1))).collect();
            let mut seen = CachedPositions::new(size);
            rows.iter().for_each(|(slot, count)| seen.push(&blocks(*slot), *count));
            let together = attend(&query, [&keys, &values], &seen, kv_heads, sight).expect("attention");
            for (index, row) in rows.iter().enumerate() {
                let own = together.get(index as i64);
                let query = query.narrow(0, index as i64, 1);
                let alone = attend(&query, [&keys, &values], &one(row), kv_heads, sight).expect("attention");
                assert_eq!(own, alone.get(0), "row {index}");
                if row.1 == 0 {
                    assert_eq!(own, own.zeros_like());
                    continue;
                }
                let count = sight.window.map_or(row.1 as i64, |window| window.min(row.1 as i64));
                let [key, value] = [&keys, &values].map(|part| {
                    let own = blocks(row.0).into_iter().map(|block| part.narrow(0, i64::from(block) * 8, 8));
                    let own = Tensor::cat(&own.collect::<Vec<_>>(), 0).narrow(0, row.1 as i64 - count, count);
                    own.to_kind(Kind::Double).view([1, count, kv_heads, head_size]).transpose(1, 2)
                });
                let query = query.to_kind(Kind::Double).transpose(1, 2);
                let every = Tensor::ones([1, 1, 1, count], (Kind::Bool, Device::Cpu));
                let expected = sight.attend([&query, &key, &value], VisibleKeys::Mask(&every));
                let apart = (expected.transpose(1, 2).squeeze_dim(0) - own).abs().max().double_value(&[]);
                assert!(apart < 1e-5, "row {index}: {apart}");
            }
        }
    }

    #[test]
    fn operands_that_do_not_fit_are_refused() {
        let zeros = |size: &[i64]| Tensor::zeros(size, (Kind::Float, Device::Cpu));
        let (query, cache) = (zeros(&[1, 1, 2, 4]), zeros(&[8, 8]));
        let all = Sight { window: None, cap: None };
        let refused = |blocks: &[u32], count: usize| {
            let mut seen = CachedPositions::new(4);
            seen.push(blocks, count);
            attend(&query, [&cache, &cache], &seen, 2, all).is_err()
        };
        assert!(!refused(&[1, 0], 8) && refused(&[1], 5) && refused(&[2], 1));
        let half = cache.to_kind(Kind::BFloat16);
        let mut seen = CachedPositions::new(4);
        seen.push(&[0], 1);
        assert!(attend(&query, [&half, &half], &seen, 2, all).is_err());
    }
}
