//! Kernels of the layers of new tokens, one per conversation, whose earlier positions are cached.
#![allow(non_snake_case)]

use std::ffi::c_void;

use tch::{TchError, Tensor};

use super::driver::Argument;
use super::{Kernels, THREADS, address, fits};

/// Bounds of the attention, as in the source: query heads that share keys, and their numbers together.
const MAX_GROUP: i64 = 16;
const MAX_NUMBERS: i64 = 2048;

/// Places of R new tokens.
#[derive(Debug)]
pub(crate) struct NewTokens<'a> {
    /// Positions in their conversations, `[R]`.
    pub positions_R: &'a Tensor,
    /// Rows of the cache to write, `[R]`; the conversations' earlier positions lie before them.
    pub places_R: &'a Tensor,
    /// Cosines and signed sines of all positions, `[T, D]`, in float32.
    pub angles: [&'a Tensor; 2],
}

/// Numbers of the heads of a layer, and norms of query and key heads, `[H + K, D]`, with the epsilon of the norm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads<'a> {
    pub query: i64,
    pub kv: i64,
    pub size: i64,
    pub norms: Option<&'a Tensor>,
    pub epsilon: f64,
}

impl Heads<'_> {
    /// Whether the kernels support heads of these sizes.
    pub fn supported(query: i64, kv: i64, size: i64) -> bool {
        let group = query / kv.max(1);
        query == group * kv && group <= MAX_GROUP && size % 8 == 0 && group * size <= MAX_NUMBERS
    }
}

impl Kernels {
    /// Adds `more` to the residual stream `[R, C]` in place, and writes its norm to `normed`.
    ///
    /// # Errors
    /// If the shapes do not fit, or the kernel cannot be started.
    pub fn add_norm(
        &self,
        stream_RC: &Tensor,
        more_RC: Option<&Tensor>,
        weight_C: &Tensor,
        epsilon: f64,
        normed_RC: &Tensor,
    ) -> Result<(), TchError> {
        let (R, C) = stream_RC.size2()?;
        let kind = stream_RC.kind();
        for rows in [stream_RC, normed_RC].into_iter().chain(more_RC) {
            fits("rows", rows, R * C, kind)?;
        }
        fits("the weight of a norm", weight_C, C, kind)?;
        let mut more = more_RC.map_or(std::ptr::null_mut(), address);
        let [mut stream, mut weight, mut normed] = [stream_RC, weight_C, normed_RC].map(address);
        let (mut C, mut epsilon) = (C, epsilon as f32);
        let arguments: &mut [&mut dyn Argument] =
            &mut [&mut stream, &mut more, &mut weight, &mut C, &mut epsilon, &mut normed];
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats.
        unsafe { self.add_norm.of(kind)?.launch(R, THREADS, arguments) }.map_err(TchError::Torch)
    }

    /// Writes the first half of the rows `[R, 2 F]` through SiLU, times the second, to `out` `[R, F]`.
    ///
    /// # Errors
    /// If the shapes do not fit, or the kernel cannot be started.
    pub fn gated(&self, wide: &Tensor, out_RF: &Tensor) -> Result<(), TchError> {
        let (R, F) = out_RF.size2()?;
        fits("gates", out_RF, R * F, wide.kind())?;
        fits("gates", wide, 2 * R * F, wide.kind())?;
        let ([mut wide_rows, mut out], mut F) = ([wide, out_RF].map(address), F);
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats.
        unsafe { self.gated.of(wide.kind())?.launch(R, THREADS, &mut [&mut wide_rows, &mut F, &mut out]) }
            .map_err(TchError::Torch)
    }

    /// Attention of new tokens: rotates the heads `[R, (H + 2 K) · D]`, caches keys and values in `[…, K · D]`, and writes
    /// the result to `attended` `[R, H · D]`. `queries` has the same shape; its numbers are replaced.
    ///
    /// # Errors
    /// If the shapes do not fit, or a kernel cannot be started.
    pub fn attend(
        &self,
        fed: &Tensor,
        heads: Heads<'_>,
        tokens: &NewTokens<'_>,
        cache: [&Tensor; 2],
        [queries, attended]: [&Tensor; 2],
    ) -> Result<(), TchError> {
        let (R, kind) = (fed.size2()?.0, fed.kind());
        let Heads { query: H, kv: K, size: D, norms, epsilon } = heads;
        fits("heads", fed, R * (H + 2 * K) * D, kind)?;
        for rows in [queries, attended] {
            fits("queries", rows, R * H * D, kind)?;
        }
        for cached in cache {
            fits("cached positions", cached, cached.numel() as i64 / (K * D) * (K * D), kind)?;
        }
        for places in [tokens.positions_R, tokens.places_R] {
            fits("places", places, R, tch::Kind::Int64)?;
        }
        for table in tokens.angles {
            fits("angles", table, table.numel() as i64, tch::Kind::Float)?;
        }
        if let Some(norms) = norms {
            fits("norms of heads", norms, (H + K) * D, kind)?;
        }
        let [mut fed_rows, mut queries, mut attended] = [fed, queries, attended].map(address);
        let [mut keys, mut values] = cache.map(address);
        let [mut cosines, mut sines] = tokens.angles.map(address);
        let [mut positions, mut places] = [tokens.positions_R, tokens.places_R].map(address);
        let mut norms: *mut c_void = norms.map_or(std::ptr::null_mut(), address);
        let (mut H, mut K, mut D, mut group, mut epsilon) = (H, K, D, H / K, epsilon as f32);
        let rotation: &mut [&mut dyn Argument] = &mut [
            &mut fed_rows,
            &mut H,
            &mut K,
            &mut D,
            &mut norms,
            &mut epsilon,
            &mut cosines,
            &mut sines,
            &mut positions,
            &mut places,
            &mut queries,
            &mut keys,
            &mut values,
        ];
        // SAFETY: the tensors are contiguous, and have the kernel's shapes and number formats. The engine's places are
        // rows of its cache, and its positions are below the number of angles.
        unsafe { self.rotate.of(kind)?.launch(R, THREADS, rotation) }.map_err(TchError::Torch)?;
        let blocks = R * K;
        let attention: &mut [&mut dyn Argument] = &mut [
            &mut queries,
            &mut keys,
            &mut values,
            &mut positions,
            &mut places,
            &mut K,
            &mut group,
            &mut D,
            &mut attended,
        ];
        // SAFETY: as above.
        unsafe { self.attend.of(kind)?.launch(blocks, THREADS, attention) }.map_err(TchError::Torch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_published_models_are_supported() {
        for (query, kv, size) in [(14, 2, 64), (12, 2, 128), (32, 8, 128), (16, 16, 128), (40, 8, 128), (2, 1, 256)] {
            assert!(Heads::supported(query, kv, size), "{query} {kv} {size}");
        }
        for (query, kv, size) in [(34, 2, 64), (3, 2, 64), (4, 2, 20), (32, 2, 256)] {
            assert!(!Heads::supported(query, kv, size), "{query} {kv} {size}");
        }
    }
}
