//! Blocks of a cache: which are free, and how many conversations refer to each.

/// Blocks of a conversation, in the order of its positions.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<u32>);

/// Counts of references. Block 0 is scratch space and is never given away.
#[derive(Debug)]
pub(super) struct Blocks {
    references: Vec<u32>,
    free: Vec<u32>,
    /// Number of blocks that were ever given away, which are the lowest.
    used: u32,
    /// Positions of a block.
    size: usize,
}

/// What has to be done with the contents of blocks that a conversation got.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PreparedBlocks {
    /// Blocks that are given away for the first time.
    pub fresh: Vec<usize>,
    /// A shared block and its copy, which the conversation has instead.
    pub copy: Option<(usize, usize)>,
}

impl Table {
    /// The blocks.
    pub fn blocks(&self) -> &[u32] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Blocks {
    pub fn new(count: usize, size: usize) -> Self {
        let mut references = vec![0; count];
        references.iter_mut().take(1).for_each(|scratch| *scratch = 1);
        // The lowest are given away first.
        Self { references, free: (1..count as u32).rev().collect(), used: 1, size }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Row of a position, or a row of scratch space if it has no block.
    pub fn row(&self, table: &Table, position: usize) -> usize {
        let block = table.0.get(position / self.size).map_or(0, |block| *block as usize);
        block * self.size + position % self.size
    }

    /// Number of free blocks that [`Blocks::prepare`] takes.
    pub fn needed(&self, table: &Table, first: usize, end: usize) -> usize {
        let more = end.div_ceil(self.size).saturating_sub(table.0.len());
        more + self.shared(table, first, end).count()
    }

    /// Places in the table of the blocks of these positions that other conversations have too.
    fn shared<'a>(&'a self, table: &'a Table, first: usize, end: usize) -> impl Iterator<Item = usize> + 'a {
        let places = first / self.size..end.div_ceil(self.size).min(table.0.len());
        places.filter(|place| self.references[table.0[*place] as usize] > 1)
    }

    /// Gives a conversation blocks of its own for the positions from `first` to `end - 1`. What stands before `first` in a
    /// shared block is the caller's to copy.
    pub fn prepare(&mut self, table: &mut Table, first: usize, end: usize) -> PreparedBlocks {
        let mut prepared = PreparedBlocks::default();
        if self.needed(table, first, end) > self.free() {
            return prepared;
        }
        for place in self.shared(table, first, end).collect::<Vec<_>>() {
            let Some(own) = self.take(&mut prepared) else { break };
            let shared = std::mem::replace(&mut table.0[place], own);
            self.references[shared as usize] -= 1;
            if place == first / self.size && !first.is_multiple_of(self.size) {
                prepared.copy = Some((shared as usize, own as usize));
            }
        }
        while table.0.len() < end.div_ceil(self.size) {
            let Some(block) = self.take(&mut prepared) else { break };
            table.0.push(block);
        }
        prepared
    }

    /// Gives back the blocks behind the first `length` positions.
    pub fn shorten(&mut self, table: &mut Table, length: usize) {
        let kept = length.div_ceil(self.size).min(table.0.len());
        for block in table.0.drain(kept..) {
            self.references[block as usize] -= 1;
            if self.references[block as usize] == 0 {
                self.free.push(block);
            }
        }
    }

    /// Lets a conversation refer to the whole blocks among the first `length` positions of another, instead of its own blocks.
    /// Returns their number of positions.
    pub fn share(&mut self, from: &Table, to: &mut Table, length: usize) -> usize {
        self.shorten(to, 0);
        let whole = (length / self.size).min(from.0.len());
        to.0.extend_from_slice(&from.0[..whole]);
        to.0.iter().for_each(|block| self.references[*block as usize] += 1);
        whole * self.size
    }

    fn take(&mut self, prepared: &mut PreparedBlocks) -> Option<u32> {
        let block = self.free.pop()?;
        self.references[block as usize] = 1;
        if block >= self.used {
            self.used = block + 1;
            prepared.fresh.push(block as usize);
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Action {
        Write { table: usize, count: usize },
        Shorten { table: usize, length: usize },
        Share { from: usize, to: usize, length: usize },
    }

    fn actions() -> impl Strategy<Value = Vec<Action>> {
        let write = (0..4_usize, 1..20_usize).prop_map(|(table, count)| Action::Write { table, count });
        let shorten = (0..4_usize, 0..40_usize).prop_map(|(table, length)| Action::Shorten { table, length });
        let share =
            (0..4_usize, 0..4_usize, 0..40_usize).prop_map(|(from, to, length)| Action::Share { from, to, length });
        prop::collection::vec(prop_oneof![3 => write, 1 => shorten, 1 => share], 1..60)
    }

    proptest! {
        /// Beside four lists of numbers: what a conversation has written stays, whatever others write, and no block is lost.
        #[test]
        fn conversations_keep_what_they_wrote(actions in actions()) {
            let (size, count) = (4, 12);
            let mut blocks = Blocks::new(count, size);
            let mut rows = vec![0_u32; count * size];
            let mut tables: Vec<(Table, Vec<u32>)> = (0..4).map(|_| (Table::default(), vec![])).collect();
            let mut next = 0;
            for action in actions {
                match action {
                    Action::Write { table, count } => {
                        let (own, written) = &mut tables[table];
                        let (first, end) = (written.len(), written.len() + count);
                        if blocks.needed(own, first, end) > blocks.free() {
                            continue;
                        }
                        if let Some((from, to)) = blocks.prepare(own, first, end).copy {
                            (0..first % size).for_each(|at| rows[to * size + at] = rows[from * size + at]);
                        }
                        for position in first..end {
                            next += 1;
                            rows[blocks.row(own, position)] = next;
                            written.push(next);
                        }
                    }
                    Action::Shorten { table, length } => {
                        let (own, written) = &mut tables[table];
                        written.truncate(length);
                        blocks.shorten(own, written.len());
                    }
                    Action::Share { from, to, length } if from != to => {
                        let lender = std::mem::take(&mut tables[from]);
                        let (own, written) = &mut tables[to];
                        let whole = blocks.share(&lender.0, own, length.min(lender.1.len()));
                        *written = lender.1[..whole].to_vec();
                        tables[from] = lender;
                    }
                    Action::Share { .. } => {}
                }
                for (table, written) in &tables {
                    let found: Vec<u32> = (0..written.len()).map(|at| rows[blocks.row(table, at)]).collect();
                    prop_assert_eq!(&found, written);
                }
            }
            for (table, _) in &mut tables {
                blocks.shorten(table, 0);
                prop_assert!(table.is_empty());
            }
            prop_assert_eq!(blocks.free(), count - 1);
        }
    }
}
