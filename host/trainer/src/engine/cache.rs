//! Key-value cache of all slots, allocated once.
//!
//! Layout per layer: `[slots · T, K · D]`. A token's keys are one contiguous row, so that writing a step is one row
//! copy, and attention reads a strided view without copying. The last row of each slot is scratch space: padding and
//! idle rows of a batch write there.
#![allow(non_snake_case)]

use tch::{TchError, Tensor};

use crate::model::Model;

/// Attention covers a number of cached positions that is rounded up to a multiple of this.
const BUCKET: usize = 32;

/// Keys and values of all slots.
pub(super) struct Cache {
    layers: Vec<[Tensor; 2]>,
    slots: usize,
    positions: usize,
    kv_heads: i64,
    head_size: i64,
}

/// Slots of a batch, one per row.
pub(super) enum Rows {
    /// The first slots, in order; read without copying.
    First(usize),
    /// Arbitrary slots.
    These(Tensor),
}

/// Rows of a slot of `context` tokens, scratch space included.
pub(crate) fn cached_positions(context: usize) -> usize {
    (context + 1).next_multiple_of(BUCKET)
}

impl Cache {
    /// Allocates space for `context` tokens per slot.
    pub fn new(model: &Model, slots: usize, context: usize) -> Result<Self, TchError> {
        let config = model.config();
        let (kv_heads, head_size) = (config.num_key_value_heads, config.head_size());
        let positions = cached_positions(context);
        let size = [(slots * positions) as i64, kv_heads * head_size];
        let zeros = || Tensor::f_zeros(size, (model.kind(), model.device()));
        let layers =
            (0..config.num_hidden_layers).map(|_| Ok([zeros()?, zeros()?])).collect::<Result<_, TchError>>()?;
        Ok(Self { layers, slots, positions, kv_heads, head_size })
    }

    /// Number of cached positions per slot.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of positions that attention covers to see `length` of them.
    pub fn bucket(&self, length: usize) -> usize {
        length.next_multiple_of(BUCKET).min(self.positions)
    }

    /// Position to which padding and idle rows write.
    pub fn scratch(&self) -> usize {
        self.positions - 1
    }

    /// Row of a slot's position.
    pub fn row(&self, slot: usize, position: usize) -> i64 {
        (slot * self.positions + position) as i64
    }

    /// First row of a slot.
    pub fn start(&self, slot: usize) -> usize {
        slot * self.positions
    }

    /// Keys and values of a layer, `[slots · T, K · D]` each.
    pub fn layer(&self, layer: usize) -> [&Tensor; 2] {
        self.layers[layer].each_ref()
    }

    /// Writes keys and values, `[B, S, K, D]` each, to rows `[B · S]`.
    pub fn write(&mut self, layer: usize, rows: &Tensor, key_BSKD: &Tensor, value_BSKD: &Tensor) {
        let width = self.kv_heads * self.head_size;
        for (cached, new) in self.layers[layer].iter_mut().zip([key_BSKD, value_BSKD]) {
            let _ = cached.index_copy_(0, rows, &new.reshape([-1, width]));
        }
    }

    /// Keys and values of the first `length` positions, `[B, K, length, D]` each.
    pub fn read(&self, layer: usize, rows: &Rows, length: usize) -> [Tensor; 2] {
        let shape = [self.slots as i64, self.positions as i64, self.kv_heads, self.head_size];
        [0, 1].map(|index| {
            let cut = self.layers[layer][index].view(shape).narrow(1, 0, length as i64);
            let chosen = match rows {
                Rows::First(count) => cut.narrow(0, 0, *count as i64),
                Rows::These(slots) => cut.index_select(0, slots),
            };
            chosen.transpose(1, 2)
        })
    }

    /// Copies the first `length` positions of one slot to another.
    pub fn copy_prefix(&mut self, from: usize, to: usize, length: usize) {
        let (from, to) = (self.row(from, 0), self.row(to, 0));
        for cached in self.layers.iter().flatten() {
            cached.narrow(0, to, length as i64).copy_(&cached.narrow(0, from, length as i64));
        }
    }
}
