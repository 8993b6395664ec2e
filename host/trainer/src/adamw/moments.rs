//! Moments of AdamW, in float32 or in 8 bits.

use gymkhana_algorithm::MomentFormat;
use tch::{Kind, TchError, Tensor, no_grad_guard};

use super::codes::{BLOCK, Table};
use crate::parameters::{ParameterSlice, Parameters};

/// Decaying means of gradients and of their squares, in the layout of the parameters.
#[derive(Debug)]
pub(super) struct Moments {
    mean: Moment,
    square: Moment,
}

#[derive(Debug)]
enum Moment {
    /// Numbers, `[N]`.
    Float(Tensor),
    /// Codes, `[N]`, and scales of blocks, `[N / 256]`.
    Coded { table: Table, codes: Tensor, scales: Tensor },
}

impl Moment {
    fn zeros(parameters: &Parameters, format: MomentFormat, is_signed: bool) -> Result<Self, TchError> {
        let flat = parameters.flat();
        if format == MomentFormat::Float32 {
            return Ok(Self::Float(flat.f_zeros_like()?));
        }
        let (table, size) = (Table::new(is_signed, flat.device())?, flat.size()[0]);
        let zero = table.zero();
        let codes = Tensor::f_full([size], zero, (Kind::Uint8, flat.device()))?;
        Ok(Self::Coded { table, codes, scales: Tensor::f_zeros([size / BLOCK], (Kind::Float, flat.device()))? })
    }

    /// Numbers of a part: a view of them, or their decoded copy.
    fn read(&self, part: ParameterSlice) -> Result<Tensor, TchError> {
        match self {
            Self::Float(flat) => flat.f_narrow(0, part.offset, part.length),
            Self::Coded { table, codes, scales } => {
                let (codes, scales) = blocks(part, codes, scales)?;
                table.decode(&codes, &scales)?.f_narrow(0, 0, part.length)
            }
        }
    }

    /// Writes numbers of a part, `[N]`, unless they are those of the view.
    fn write(&mut self, part: ParameterSlice, numbers: &Tensor) -> Result<(), TchError> {
        let Self::Coded { table, codes, scales } = self else { return Ok(()) };
        let (mut codes, mut scales) = blocks(part, codes, scales)?;
        let padded = numbers.f_constant_pad_nd([0, codes.size()[0] - part.length])?;
        table.encode(&padded, &mut codes, &mut scales)
    }

    /// Views by the parameters' names.
    fn named(&self, parameters: &Parameters, moment: &str) -> Result<Vec<(String, Tensor)>, TchError> {
        let named = |ending: &str, views: Vec<(String, Tensor)>| -> Vec<(String, Tensor)> {
            views.into_iter().map(|(name, view)| (format!("{moment}{ending}.{name}"), view)).collect()
        };
        Ok(match self {
            Self::Float(flat) => named("", parameters.views_of(flat)?),
            Self::Coded { codes, scales, .. } => {
                let mut all = named("-codes", parameters.views_of(codes)?);
                all.extend(named("-scales", parameters.blocks_of(scales, BLOCK)?));
                all
            }
        })
    }
}

/// Codes and scales of the whole blocks of a part.
fn blocks(part: ParameterSlice, codes: &Tensor, scales: &Tensor) -> Result<(Tensor, Tensor), TchError> {
    let count = (part.length + BLOCK - 1) / BLOCK;
    Ok((codes.f_narrow(0, part.offset, count * BLOCK)?, scales.f_narrow(0, part.offset / BLOCK, count)?))
}

impl Moments {
    pub fn zeros(parameters: &Parameters, format: MomentFormat) -> Result<Self, TchError> {
        let _guard = no_grad_guard();
        Ok(Self { mean: Moment::zeros(parameters, format, true)?, square: Moment::zeros(parameters, format, false)? })
    }

    pub fn format(&self) -> MomentFormat {
        match self.mean {
            Moment::Float(_) => MomentFormat::Float32,
            Moment::Coded { .. } => MomentFormat::Int8,
        }
    }

    /// Mean and square of a part, `[N]` each. In float32 they are views, so that operations in place change the moments.
    pub fn read(&self, part: ParameterSlice) -> Result<[Tensor; 2], TchError> {
        Ok([self.mean.read(part)?, self.square.read(part)?])
    }

    /// Keeps mean and square of a part after operations in place on what [`Moments::read`] returned.
    pub fn keep(&mut self, part: ParameterSlice, [mean, square]: &[Tensor; 2]) -> Result<(), TchError> {
        self.mean.write(part, mean)?;
        self.square.write(part, square)
    }

    /// Takes the moments of another format.
    pub fn copy(&mut self, other: &Self, parameters: &Parameters) -> Result<(), TchError> {
        for part in parameters.parts() {
            let numbers = other.read(part)?;
            let mut own = self.read(part)?;
            for (own, number) in own.iter_mut().zip(&numbers) {
                own.f_copy_(number)?;
            }
            self.keep(part, &own)?;
        }
        Ok(())
    }

    /// Views by the parameters' names, as `mean.NAME` and `square.NAME`, or as their codes and scales.
    pub fn named(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, TchError> {
        let mut named = self.mean.named(parameters, "mean")?;
        named.extend(self.square.named(parameters, "square")?);
        Ok(named)
    }
}
