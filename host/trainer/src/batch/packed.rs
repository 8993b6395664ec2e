//! Parts as tensors: all positions concatenated, so that padding costs nothing, and an attention restricted to the
//! positions of one sequence.
#![allow(non_snake_case)]

use std::collections::HashMap;

use tch::{Device, Kind, Tensor};

use super::PrefixGroup;
use crate::model::{Sight, VisibleKeys};
use gymkhana_engine::loss::Units;
use gymkhana_engine::{Target, TokenStats};

/// Least share of a block's longest row that another row must have: shorter rows begin a new block.
const LEAST_FILLED: f64 = 0.75;

/// M positions of one forward pass, N targets among them.
#[derive(Debug)]
pub(crate) struct Packed {
    /// `[1, M]`.
    pub tokens_1M: Tensor,
    /// Position of each token in its sequence, `[1, M]`.
    pub positions_1M: Tensor,
    /// Index, among the positions, at which each target is predicted, `[N]`.
    pub places_N: Tensor,
    /// Token of each target, `[N]`.
    pub targets_N: Tensor,
    /// Positions of the targets in their sequences.
    pub targets: Vec<Target>,
    /// Numbers of the targets, in the same order.
    pub stats: TokenStats,
    /// For each target, the index of its sequence in the list that parts were cut from, and its index in the sequence.
    pub origins: Vec<(usize, usize)>,
    blocks: Vec<Block>,
}

/// Rows that attend in one operation: consecutive positions, R rows of up to S positions, padded to S.
#[derive(Debug)]
struct Block {
    start: i64,
    count: i64,
    rows: i64,
    length: i64,
    /// Positions of the padded rows, `[R · S]`; `None` if every row has S positions.
    filled: Option<Tensor>,
    /// Indices, in `[R · S]`, of the positions that are not padding; `None` if every row has S positions.
    kept: Option<Tensor>,
    /// Prefixes of the rows; `None` if the rows have no shared prefix.
    before: Option<Before>,
}

/// Shared prefixes of a block's rows; T keys per row.
#[derive(Debug)]
struct Before {
    /// Positions of keys, `[R · T]`: those of the prefix, then those of the row.
    keys: Tensor,
    /// Keys that a position sees without a window, `[R or 1, 1, S, T]`.
    mask_R1ST: Tensor,
    /// Number of positions in each row's prefix, of one row if all are alike.
    counts: Vec<i64>,
    /// Number of keys of the longest prefix.
    longest: i64,
}

/// A row: its first position, its length, and the first position and length of its prefix.
#[derive(Debug, Clone, Copy)]
struct Row {
    start: usize,
    length: usize,
    before: (usize, usize),
}

impl Packed {
    /// Lays out the positions of a part: shared prefixes first, then rows by falling length.
    pub fn new(part: &[PrefixGroup<'_>], device: Device) -> Self {
        let mut layout = Layout::default();
        let mut beginnings: Vec<&PrefixGroup<'_>> = part.iter().filter(|group| group.shared > 0).collect();
        beginnings.sort_by_key(|group| std::cmp::Reverse(group.shared));
        let mut starts = HashMap::new();
        for group in beginnings {
            let Some((first, member)) = group.members.first() else { continue };
            starts.insert(*first, layout.tokens.len());
            layout.row(&member.inputs()[..group.shared], 0, (0, 0));
        }
        let before = |group: &PrefixGroup<'_>| group.members.first().and_then(|(first, _)| starts.get(first)).copied();
        let mut members: Vec<_> =
            part.iter().flat_map(|group| group.members.iter().map(move |member| (group, member))).collect();
        members.sort_by_key(|(group, (_, member))| {
            (group.shared > 0, std::cmp::Reverse(member.inputs().len() - group.shared))
        });
        for (group, (place, member)) in members {
            let begins = (before(group).unwrap_or(0), group.shared);
            let start = layout.row(&member.inputs()[group.shared..], group.shared, begins);
            for (index, target) in member.targets.iter().enumerate() {
                let predicted = target.at - 1;
                let position =
                    if predicted < group.shared { begins.0 + predicted } else { start + predicted - group.shared };
                layout.places.push(position as i64);
                layout.wanted.push(i64::from(member.tokens[target.at]));
                layout.targets.push(*target);
                layout.stats.push_row(&member.stats, index);
                layout.origins.push((*place, index));
            }
        }
        layout.into_packed(device)
    }

    /// Attention of all positions, `[1, M, H, D]`, from queries of that shape and keys and values `[1, M, K, D]`.
    pub fn attend(&self, heads: [&Tensor; 3], sight: Sight) -> Tensor {
        let heads = heads.map(|part| part.squeeze_dim(0));
        let blocks: Vec<Tensor> = self.blocks.iter().map(|block| block.attend(&heads, sight)).collect();
        Tensor::cat(&blocks, 0).unsqueeze(0)
    }

    /// Number, from 0, of each target's unit.
    pub fn units(&self, units: Option<Units>) -> Option<Vec<usize>> {
        let tokens = || self.origins.iter().zip(&self.targets).map(|((sequence, _), target)| (*sequence, target.turn));
        units.map(|units| units.number(tokens()))
    }
}

/// Positions and targets under construction.
#[derive(Default)]
struct Layout {
    tokens: Vec<i64>,
    positions: Vec<i64>,
    rows: Vec<Row>,
    places: Vec<i64>,
    wanted: Vec<i64>,
    targets: Vec<Target>,
    stats: TokenStats,
    origins: Vec<(usize, usize)>,
}

impl Layout {
    /// Appends a row of tokens, the first of which has index `first` in its sequence. Returns the row's first position.
    fn row(&mut self, tokens: &[u32], first: usize, before: (usize, usize)) -> usize {
        let start = self.tokens.len();
        self.tokens.extend(tokens.iter().map(|token| i64::from(*token)));
        self.positions.extend((first..first + tokens.len()).map(|position| position as i64));
        self.rows.push(Row { start, length: tokens.len(), before });
        start
    }

    fn into_packed(self, device: Device) -> Packed {
        let numbers = |numbers: &[i64]| Tensor::from_slice(numbers).to_device(device);
        Packed {
            tokens_1M: numbers(&self.tokens).unsqueeze(0),
            positions_1M: numbers(&self.positions).unsqueeze(0),
            places_N: numbers(&self.places),
            targets_N: numbers(&self.wanted),
            blocks: self.blocks().iter().map(|rows| Block::new(rows, device)).collect(),
            targets: self.targets,
            stats: self.stats,
            origins: self.origins,
        }
    }

    /// Splits the rows into runs of similar length.
    fn blocks(&self) -> Vec<&[Row]> {
        let together = |first: &Row, row: &Row| {
            (first.before.1 > 0) == (row.before.1 > 0)
                && row.length <= first.length
                && row.length as f64 >= LEAST_FILLED * first.length as f64
        };
        let (mut blocks, mut start) = (Vec::new(), 0);
        for end in 1..=self.rows.len() {
            if end == self.rows.len() || !together(&self.rows[start], &self.rows[end]) {
                blocks.push(&self.rows[start..end]);
                start = end;
            }
        }
        blocks
    }
}

impl Block {
    fn new(rows: &[Row], device: Device) -> Self {
        let length = rows.first().map_or(0, |row| row.length);
        let count: usize = rows.iter().map(|row| row.length).sum();
        let full = count == rows.len() * length;
        let numbers = |numbers: &[i64]| Tensor::from_slice(numbers).to_device(device);
        // Padding repeats a row's last position; the result is discarded.
        let position = |row: &Row, at: usize| (row.start + at.min(row.length - 1)) as i64;
        let filled: Vec<i64> = rows.iter().flat_map(|row| (0..length).map(|at| position(row, at))).collect();
        let kept: Vec<i64> = rows
            .iter()
            .enumerate()
            .flat_map(|(index, row)| (0..row.length).map(move |at| (index * length + at) as i64))
            .collect();
        Self {
            start: rows.first().map_or(0, |row| row.start) as i64,
            count: count as i64,
            rows: rows.len() as i64,
            length: length as i64,
            filled: (!full).then(|| numbers(&filled)),
            kept: (!full).then(|| numbers(&kept)),
            before: Before::new(rows, length, device),
        }
    }

    /// Attention of the block's rows, `[count, H, D]`, from queries, keys and values `[M, …, D]`.
    fn attend(&self, [query, key, value]: &[Tensor; 3], sight: Sight) -> Tensor {
        let shaped = |heads: &Tensor, index: Option<&Tensor>, length: i64| {
            let size = heads.size();
            let chosen = match index {
                None => heads.narrow(0, self.start, self.count),
                Some(index) => heads.index_select(0, index),
            };
            chosen.reshape([self.rows, length, size[1], size[2]]).transpose(1, 2)
        };
        let query_RHSD = shaped(query, self.filled.as_ref(), self.length);
        let attended = match &self.before {
            None => {
                let [key, value] = [key, value].map(|heads| shaped(heads, self.filled.as_ref(), self.length));
                sight.causal([&query_RHSD, &key, &value])
            }
            Some(before) => {
                let length = before.keys.size()[0] / self.rows;
                let [key, value] = [key, value].map(|heads| shaped(heads, Some(&before.keys), length));
                let mask_R1ST = before.mask(sight, query.device());
                sight.attend([&query_RHSD, &key, &value], VisibleKeys::Mask(&mask_R1ST))
            }
        };
        let size = query.size();
        let flat = attended.transpose(1, 2).reshape([self.rows * self.length, size[1], size[2]]);
        match &self.kept {
            None => flat,
            Some(kept) => flat.index_select(0, kept),
        }
    }
}

impl Before {
    /// Prefixes of the rows; `None` if no row has a prefix.
    fn new(rows: &[Row], length: usize, device: Device) -> Option<Self> {
        let longest = rows.iter().map(|row| row.before.1).max().filter(|longest| *longest > 0)?;
        let alike = rows.iter().all(|row| row.before.1 == longest && row.length == length);
        let mut keys: Vec<i64> = Vec::with_capacity(rows.len() * (longest + length));
        for row in rows {
            let (start, count) = row.before;
            keys.extend((0..longest).map(|at| (start + at.min(count - 1)) as i64));
            keys.extend((0..length).map(|at| (row.start + at.min(row.length - 1)) as i64));
        }
        let shown = if alike { &rows[..1] } else { rows };
        let mut mask = Vec::with_capacity(shown.len() * length * (longest + length));
        for row in shown {
            for at in 0..length {
                mask.extend((0..longest).map(|key| key < row.before.1));
                mask.extend((0..length).map(|key| key <= at));
            }
        }
        let size = [shown.len() as i64, 1, length as i64, (longest + length) as i64];
        let mask_R1ST = Tensor::from_slice(&mask).to_kind(Kind::Bool).view(size).to_device(device);
        let counts = shown.iter().map(|row| row.before.1 as i64).collect();
        Some(Self { keys: Tensor::from_slice(&keys).to_device(device), mask_R1ST, counts, longest: longest as i64 })
    }

    /// Keys that a position sees, `[R or 1, 1, S, T]`.
    fn mask(&self, sight: Sight, device: Device) -> Tensor {
        let size = self.mask_R1ST.size();
        let (length, all) = (size[2], size[3]);
        let Some(window) = sight.window.filter(|_| sight.is_short(all)) else { return self.mask_R1ST.shallow_clone() };
        let arange = |count: i64| Tensor::arange(count, (Kind::Int64, device));
        let counts_R11 = Tensor::from_slice(&self.counts).to_device(device).view([-1, 1, 1]);
        let query_RS1 = &counts_R11 + arange(length).view([1, -1, 1]);
        let rows = self.counts.len() as i64;
        let prefix_R1T = arange(self.longest).view([1, 1, -1]).expand([rows, 1, self.longest], false);
        let key_R1T = Tensor::cat(&[prefix_R1T, counts_R11 + arange(length).view([1, 1, -1])], 2);
        let near_RST = (query_RS1 - key_R1T).lt(window);
        self.mask_R1ST.logical_and(&near_RST.unsqueeze(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sequence, parts};
    use super::*;

    fn sequence(tokens: &[u32], at: &[usize]) -> Sequence {
        let targets: Vec<Target> = at.iter().map(|at| Target { at: *at, turn: 0 }).collect();
        let stats = TokenStats::neutral(targets.len());
        Sequence::new(tokens, targets, stats).expect("targets")
    }

    /// Compares naive attention over each whole sequence with packed attention.
    #[test]
    fn packing_changes_no_attention() {
        for (window, cap) in [(None, None), (Some(3), None), (Some(11), Some(0.8))] {
            compare(Sight { window, cap });
        }
    }

    fn compare(sight: Sight) {
        tch::manual_seed(3);
        let begins = |first: u32, last: &[u32]| [&[first; 9][..], last].concat();
        let tokens = [
            begins(1, &[2, 3, 4, 5]),
            begins(1, &[2, 9]),
            begins(7, &[1, 2, 3]),
            begins(7, &[1, 4]),
            vec![8, 8, 8],
            begins(1, &[6, 6, 6, 6, 6, 6, 6, 6]),
            vec![5, 6, 7, 8, 9, 10],
        ];
        let sequences: Vec<Sequence> =
            tokens.iter().map(|tokens| sequence(tokens, &(1..tokens.len()).collect::<Vec<_>>())).collect();
        let parts = parts(&sequences, 10_000, true);
        let packed = Packed::new(&parts[0], Device::Cpu);
        let (H, K, D) = (4, 2, 6);
        let table = |heads: i64| Tensor::randn([16, 40, heads, D], (Kind::Float, Device::Cpu));
        let tables = [table(H), table(K), table(K)];
        // A head's numbers are a function of token and position, so that equal prefixes have equal numbers.
        let packed_heads = tables.each_ref().map(|table| {
            let flat = &packed.tokens_1M * 40 + &packed.positions_1M;
            table.view([16 * 40, -1, D]).index_select(0, &flat.view([-1])).unsqueeze(0)
        });
        let [query, key, value] = &packed_heads;
        let found = packed.attend([query, key, value], sight).squeeze_dim(0).index_select(0, &packed.places_N);
        for (row, (place, index)) in packed.origins.iter().enumerate() {
            let inputs: Vec<i64> = sequences[*place].inputs().iter().map(|token| i64::from(*token)).collect();
            let positions = Tensor::arange(inputs.len() as i64, (Kind::Int64, Device::Cpu));
            let flat = Tensor::from_slice(&inputs) * 40 + positions;
            let [query, key, value] = tables
                .each_ref()
                .map(|table| table.view([16 * 40, -1, D]).index_select(0, &flat).unsqueeze(0).transpose(1, 2));
            let [key, value] = [key, value].map(|heads| heads.repeat_interleave_self_int(H / K, 1, None));
            let scores = query.matmul(&key.transpose(2, 3)) / (D as f64).sqrt();
            let scores = sight.cap.map_or_else(|| scores.shallow_clone(), |cap| (&scores / cap).tanh() * cap);
            let shown = scores.ones_like().tril(0).triu(1 - sight.window.unwrap_or(100));
            let expected =
                scores.masked_fill(&shown.eq(0.0), f64::NEG_INFINITY).softmax(-1, Kind::Float).matmul(&value);
            let expected = expected.select(2, *index as i64).squeeze_dim(0);
            let difference = (found.get(row as i64) - expected).abs().max().double_value(&[]);
            assert!(difference < 1e-5, "sequence {place}, position {index}: {difference}");
        }
        assert_eq!(packed.origins.len(), sequences.iter().map(|sequence| sequence.targets.len()).sum::<usize>());
        // Each position is computed once, including those of the two shared prefixes.
        let alone: usize = sequences.iter().map(|sequence| sequence.inputs().len()).sum();
        assert_eq!(packed.tokens_1M.size()[1] as usize, alone - 2 * 9 - 9);
    }
}
