//! Rotary positions of a forward pass: tables of cosines and sines.
#![allow(non_snake_case)]

use tch::{Device, Kind, TchError, Tensor};

use crate::ModelConfig;

/// Cosines and sines of some positions, broadcast over sequences and heads: `[1 or B, S, 1, D]`.
#[derive(Debug)]
pub(crate) struct Angles {
    cos: Tensor,
    /// Sines with the first half negated, so that `rotate_half(x) · sin` is `roll(x) · signed_sin`.
    signed_sin: Tensor,
}

/// Cosines and sines of all positions, `[T, D]`.
#[derive(Debug)]
pub(super) struct Rotary {
    cos_TD: Tensor,
    signed_sin_TD: Tensor,
}

impl Rotary {
    /// Tables of the positions 0 to `positions - 1`, computed in float32 like in transformers, so that logits agree.
    pub fn new(config: &ModelConfig, positions: i64, device: Device) -> Result<Self, TchError> {
        let frequencies = Tensor::f_from_slice(&config.rope.frequencies(config.head_size())?)?;
        let angles = Tensor::f_arange(positions, (Kind::Float, Device::Cpu))?.f_outer(&frequencies)?;
        let attention = config.rope.attention();
        let [cos, sin] = [angles.f_cos()?, angles.f_sin()?];
        let [cos, sin] =
            if attention == 1.0 { [cos, sin] } else { [cos.f_mul_scalar(attention)?, sin.f_mul_scalar(attention)?] };
        let negated = sin.f_neg()?;
        Ok(Self {
            cos_TD: Tensor::f_cat(&[&cos, &cos], 1)?.f_to_device(device)?,
            signed_sin_TD: Tensor::f_cat(&[&negated, &sin], 1)?.f_to_device(device)?,
        })
    }

    /// Number of positions.
    pub fn positions(&self) -> i64 {
        self.cos_TD.size()[0]
    }

    /// Device of the tables.
    pub fn device(&self) -> Device {
        self.cos_TD.device()
    }

    /// Cosines and signed sines of all positions, `[T, D]`.
    pub fn tables(&self) -> [&Tensor; 2] {
        [&self.cos_TD, &self.signed_sin_TD]
    }

    /// Angles of the positions 0 to `length - 1`, the same for every sequence.
    pub fn first(&self, length: i64) -> Angles {
        let shape = [1, length, 1, self.cos_TD.size()[1]];
        Angles {
            cos: self.cos_TD.narrow(0, 0, length).view(shape),
            signed_sin: self.signed_sin_TD.narrow(0, 0, length).view(shape),
        }
    }

    /// Angles of the given positions.
    pub fn at(&self, positions_BS: &Tensor) -> Angles {
        let size = positions_BS.size();
        let shape = [size[0], size[1], 1, self.cos_TD.size()[1]];
        let flat = positions_BS.view([-1]);
        Angles {
            cos: self.cos_TD.index_select(0, &flat).view(shape),
            signed_sin: self.signed_sin_TD.index_select(0, &flat).view(shape),
        }
    }
}

/// Heads rotated by the angles of their positions, in the heads' precision; the rotation is computed in float32.
pub(super) fn rotate(heads_BSHD: &Tensor, angles: &Angles, head_size: i64) -> Tensor {
    let turned = heads_BSHD * &angles.cos + heads_BSHD.roll([head_size / 2], [-1]) * &angles.signed_sin;
    turned.to_kind(heads_BSHD.kind())
}
