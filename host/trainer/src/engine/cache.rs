//! Key-value cache in blocks of positions, which conversations with the same beginning share.
//!
//! Layout per layer: `[blocks · P, K · D]` with P positions in a block. A token's keys are one contiguous row, so that writing
//! a step is one row copy. A conversation has a table of its blocks. The first block is scratch space: padding and idle rows of
//! a batch write there, and masked positions without a block are read from it.
//!
//! Memory is set aside for all blocks at the start, and on a processor a block takes memory only once it is used.
#![allow(non_snake_case)]

use tch::{Device, TchError, Tensor};

use super::blocks::{Blocks, Table};
use crate::model::Model;
use crate::{ModelConfig, TrainerSettings, device};

/// Positions of a block. Attention covers a number of cached positions that is rounded up to a multiple of this.
const BLOCK: usize = 32;

/// Keys and values of all conversations.
pub(super) struct KvCache {
    layers: Vec<[Tensor; 2]>,
    blocks: Blocks,
    /// Positions of a conversation of full length, rounded up.
    positions: usize,
    kv_heads: i64,
    head_size: i64,
}

/// Sizes of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheSize {
    /// Positions of a block.
    pub block: usize,
    /// Number of blocks, the one of scratch space included.
    pub count: usize,
    /// Positions of a conversation of full length, rounded up to whole blocks.
    pub positions: usize,
}

impl CacheSize {
    /// Of a cache for conversations of up to `context` tokens. The kernels of generation read a conversation's positions from one
    /// place, so that a block there is a whole conversation. Deterministic engines never compute a token twice, and have room for
    /// all conversations at full length.
    pub fn of(config: &ModelConfig, settings: &TrainerSettings, context: usize, contiguous: bool) -> Self {
        let positions = (context + 1).next_multiple_of(BLOCK);
        let block = if contiguous { positions } else { BLOCK };
        let wanted = settings.max_concurrent_sequences * (positions / block);
        let bytes = Self::position_bytes(config, settings).saturating_mul(block as u64).max(1);
        let most = settings.cache_mib.filter(|_| !settings.deterministic).map_or(wanted, |mib| {
            // One conversation of full length has room in any case.
            usize::try_from(((mib as u64) << 20) / bytes).unwrap_or(usize::MAX).max(positions / block)
        });
        Self { block, count: 1 + wanted.min(most), positions }
    }

    /// Bytes of the keys and values of one position.
    fn position_bytes(config: &ModelConfig, settings: &TrainerSettings) -> u64 {
        let width = (config.num_key_value_heads * config.head_size()).unsigned_abs();
        let number = device::kind(settings.precision).elt_size_in_bytes() as u64;
        2 * config.num_hidden_layers.unsigned_abs() * width * number
    }

    /// Bytes of all keys and values.
    pub fn bytes(self, config: &ModelConfig, settings: &TrainerSettings) -> u64 {
        Self::position_bytes(config, settings).saturating_mul((self.count * self.block) as u64)
    }
}

impl KvCache {
    /// Sets space aside.
    pub fn new(model: &Model, size: CacheSize) -> Result<Self, TchError> {
        let config = model.config();
        let (kv_heads, head_size) = (config.num_key_value_heads, config.head_size());
        let shape = [(size.count * size.block) as i64, kv_heads * head_size];
        let empty = || -> Result<Tensor, TchError> {
            let tensor = Tensor::f_empty(shape, (model.kind(), model.device()))?;
            let _ = tensor.f_narrow(0, 0, size.block as i64)?.f_zero_()?;
            Ok(tensor)
        };
        let layers =
            (0..config.num_hidden_layers).map(|_| Ok([empty()?, empty()?])).collect::<Result<_, TchError>>()?;
        let blocks = Blocks::new(size.count, size.block);
        Ok(Self { layers, blocks, positions: size.positions, kv_heads, head_size })
    }

    /// Positions of a conversation of full length, rounded up.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of positions that attention covers to see `length` of them.
    pub fn bucket(&self, length: usize) -> usize {
        length.next_multiple_of(BLOCK).min(self.positions)
    }

    /// Number of positions in a block.
    pub fn block(&self) -> usize {
        self.blocks.size()
    }

    /// Row of a conversation's position, or a row of scratch space if it has no block.
    pub fn row(&self, table: &Table, position: usize) -> i64 {
        self.blocks.row(table, position) as i64
    }

    /// Keys and values of a layer, `[blocks · P, K · D]` each.
    pub fn layer(&self, layer: usize) -> [&Tensor; 2] {
        self.layers[layer].each_ref()
    }

    /// Number of free blocks that a conversation needs before positions from `first` to `end - 1` can be written.
    pub fn needed(&self, table: &Table, first: usize, end: usize) -> usize {
        self.blocks.needed(table, first, end)
    }

    /// Number of free blocks.
    pub fn free(&self) -> usize {
        self.blocks.free()
    }

    /// Gives a conversation blocks of its own for the positions from `first` to `end - 1`; the ones before stay.
    ///
    /// # Errors
    /// If an operation of libtorch fails. Without [`KvCache::needed`] free blocks, the positions have no blocks.
    pub fn prepare(&mut self, table: &mut Table, first: usize, end: usize) -> Result<(), TchError> {
        let (size, copied) = (self.block(), self.blocks.prepare(table, first, end));
        // Fresh memory may hold NaN, and a masked position counts 0 times its contents, which would be NaN too.
        for fresh in copied.fresh {
            for cached in self.layers.iter().flatten() {
                let _ = cached.f_narrow(0, (fresh * size) as i64, size as i64)?.f_zero_()?;
            }
        }
        if let Some((from, to)) = copied.copy {
            self.copy_rows(from * size, to * size, first % size)?;
        }
        Ok(())
    }

    /// Gives back the blocks behind the first `length` positions.
    pub fn shorten(&mut self, table: &mut Table, length: usize) {
        self.blocks.shorten(table, length);
    }

    /// Lets a conversation share the first `length` positions of another: whole blocks by reference, the rest as a copy. Returns
    /// the number of positions that it has then, which is lower if no block is free.
    pub fn share(&mut self, from: &Table, to: &mut Table, length: usize) -> Result<usize, TchError> {
        let size = self.block();
        let whole = self.blocks.share(from, to, length);
        if whole == length || self.needed(to, whole, length) > self.free() {
            return Ok(whole);
        }
        self.prepare(to, whole, length)?;
        let [source, target] = [from, &*to].map(|table| self.blocks.row(table, whole));
        self.copy_rows(source, target, (length - whole).min(size))?;
        Ok(length)
    }

    fn copy_rows(&self, from: usize, to: usize, count: usize) -> Result<(), TchError> {
        for cached in self.layers.iter().flatten() {
            let source = cached.f_narrow(0, from as i64, count as i64)?;
            cached.f_narrow(0, to as i64, count as i64)?.f_copy_(&source)?;
        }
        Ok(())
    }

    /// Writes keys and values, `[B, S, K, D]` each, to rows `[B · S]`.
    pub fn write(&mut self, layer: usize, rows: &Tensor, key_BSKD: &Tensor, value_BSKD: &Tensor) {
        let width = self.kv_heads * self.head_size;
        for (cached, new) in self.layers[layer].iter_mut().zip([key_BSKD, value_BSKD]) {
            let _ = cached.index_copy_(0, rows, &new.reshape([-1, width]));
        }
    }

    /// Rows of the first `length` positions of each conversation, `[B · length]`.
    pub fn rows<'t>(&self, tables: impl Iterator<Item = &'t Table>, length: usize, device: Device) -> Tensor {
        let rows: Vec<i64> = tables.flat_map(|table| (0..length).map(|position| self.row(table, position))).collect();
        Tensor::from_slice(&rows).to_device(device)
    }

    /// Keys and values in rows `[B · length]`, `[B, K, length, D]` each.
    pub fn read(&self, layer: usize, rows: &Tensor, length: usize) -> [Tensor; 2] {
        let shape = [-1, length as i64, self.kv_heads, self.head_size];
        [0, 1].map(|index| self.layers[layer][index].index_select(0, rows).view(shape).transpose(1, 2))
    }
}
