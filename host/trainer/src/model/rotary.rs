//! Rotary positions of a forward pass: tables of cosines and sines.
#![allow(non_snake_case)]

use tch::{Device, Kind, TchError, Tensor};

use crate::ModelConfig;
use crate::rope::Rope;

/// Numbers of some positions.
#[derive(Debug)]
pub(crate) struct Angles {
    /// For each of the model's kinds of positions.
    turns: Vec<PositionRotation>,
    /// Factor of the queries, `[1 or B, S, 1, 1]`.
    query_scale: Option<Tensor>,
}

/// Cosines and sines of some positions, broadcast over sequences and heads: `[1 or B, S, 1, width]`.
#[derive(Debug)]
struct PositionRotation {
    cos: Tensor,
    /// Sines with the first half negated, so that `rotate_half(x) · sin` is `roll(x) · signed_sin`.
    signed_sin: Tensor,
}

/// Cosines and sines of all positions of a model.
#[derive(Debug)]
pub(super) struct Rotary {
    /// Cosines and signed sines, `[T, width]` each, of each kind of positions.
    tables: Vec<[Tensor; 2]>,
    /// Factor of the queries at each position, `[T, 1]`.
    query_scale_T1: Option<Tensor>,
    positions: i64,
    device: Device,
}

impl Rotary {
    /// Tables of the positions 0 to `positions - 1`, computed in float32 like in transformers, so that logits agree.
    pub fn new(config: &ModelConfig, positions: i64, device: Device) -> Result<Self, TchError> {
        let width = config.decoder.pairs.width;
        let table = |rope: &Rope| -> Result<[Tensor; 2], TchError> {
            let frequencies = Tensor::f_from_slice(&rope.frequencies(width, positions)?)?;
            let angles = Tensor::f_arange(positions, (Kind::Float, Device::Cpu))?.f_outer(&frequencies)?;
            let attention = rope.attention();
            let [cos, sin] = [angles.f_cos()?, angles.f_sin()?];
            let [cos, sin] = if attention == 1.0 {
                [cos, sin]
            } else {
                [cos.f_mul_scalar(attention)?, sin.f_mul_scalar(attention)?]
            };
            let negated = sin.f_neg()?;
            Ok([
                Tensor::f_cat(&[&cos, &cos], 1)?.f_to_device(device)?,
                Tensor::f_cat(&[&negated, &sin], 1)?.f_to_device(device)?,
            ])
        };
        let ropes = &config.decoder.ropes;
        let query_scale_T1 = ropes.iter().find_map(|rope| rope.query_scaling).map(|scaling| {
            let terms = Tensor::f_arange(positions, (Kind::Float, Device::Cpu))?.f_div_scalar(scaling.original)?;
            let grown = terms.f_floor()?.f_log1p()?.f_mul_scalar(scaling.beta)?.f_add_scalar(1.0)?;
            grown.f_unsqueeze(-1)?.f_to_device(device)
        });
        Ok(Self {
            tables: ropes.iter().map(table).collect::<Result<_, _>>()?,
            query_scale_T1: query_scale_T1.transpose()?,
            positions,
            device,
        })
    }

    /// Number of positions.
    pub fn positions(&self) -> i64 {
        self.positions
    }

    /// Device of the tables.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Cosines and signed sines of all positions, `[T, width]` each, of the first kind.
    pub fn first_table(&self) -> Option<&[Tensor; 2]> {
        self.tables.first()
    }

    /// Angles of the positions 0 to `length - 1`, the same for every sequence.
    pub fn first(&self, length: i64) -> Angles {
        self.angles([1, length], |table| table.narrow(0, 0, length))
    }

    /// Angles of the given positions.
    pub fn at(&self, positions_BS: &Tensor) -> Angles {
        let size = positions_BS.size();
        let flat = positions_BS.view([-1]);
        self.angles([size[0], size[1]], |table| table.index_select(0, &flat))
    }

    fn angles(&self, [B, S]: [i64; 2], rows: impl Fn(&Tensor) -> Tensor) -> Angles {
        let shaped = |table: &Tensor| rows(table).view([B, S, 1, table.size()[1]]);
        let turn =
            |[cos, signed_sin]: &[Tensor; 2]| PositionRotation { cos: shaped(cos), signed_sin: shaped(signed_sin) };
        Angles { turns: self.tables.iter().map(turn).collect(), query_scale: self.query_scale_T1.as_ref().map(shaped) }
    }
}

impl Angles {
    /// Heads rotated by the angles of their positions, in the heads' precision; the rotation is computed in float32. With
    /// `interleaved`, neighbours are pairs: they are moved to where the halves of a pair are expected, in queries and keys
    /// alike, which changes no product of the two.
    pub fn rotate(&self, heads_BSHD: &Tensor, kind: usize, interleaved: bool) -> Tensor {
        let Some(PositionRotation { cos, signed_sin }) = self.turns.get(kind) else {
            return heads_BSHD.shallow_clone();
        };
        let (size, width) = (heads_BSHD.size(), cos.size()[3]);
        let turned = |heads: &Tensor| {
            let heads = if interleaved {
                heads.reshape([size[0], size[1], size[2], width / 2, 2]).transpose(3, 4).reshape(heads.size())
            } else {
                heads.shallow_clone()
            };
            (&heads * cos + heads.roll([width / 2], [-1]) * signed_sin).to_kind(heads.kind())
        };
        if width == size[3] {
            return turned(heads_BSHD);
        }
        let parts = heads_BSHD.split_with_sizes([width, size[3] - width], -1);
        Tensor::cat(&[turned(&parts[0]), parts[1].shallow_clone()], -1)
    }

    /// Queries with the factor of their positions and the model's own.
    pub fn scale(&self, query_BSHD: Tensor, scale: f64) -> Tensor {
        let query_BSHD = if scale == 1.0 { query_BSHD } else { query_BSHD * scale };
        match &self.query_scale {
            None => query_BSHD,
            Some(factor) => (&query_BSHD * factor).to_kind(query_BSHD.kind()),
        }
    }
}
