//! Room in the cache: which slots keep their blocks when there are not enough.

use tch::TchError;

use super::{Engine, Row};

impl Engine {
    /// Number of blocks that the row needs beyond the free ones.
    fn lacking(&self, row: &Row) -> usize {
        let table = &self.slots[row.slot].table;
        self.cache.needed(table, row.first, row.first + row.count).saturating_sub(self.cache.free())
    }

    /// Gives the row blocks for its tokens, if need be those of idle conversations, the least recently used first, and then
    /// those of requests that were started after its own, the last first. Returns false if older requests have the room.
    pub(super) fn make_room(&mut self, row: &Row) -> Result<bool, TchError> {
        while self.lacking(row) > 0 {
            let Some(other) = self.next_to_leave(row.slot) else { return Ok(false) };
            self.forget(other);
        }
        let table = &mut self.slots[row.slot].table;
        self.cache.prepare(table, row.first, row.first + row.count)?;
        Ok(true)
    }

    /// Slot whose blocks are taken next for a slot. A deterministic engine has room for all.
    fn next_to_leave(&self, wanting: usize) -> Option<usize> {
        let has_blocks = |index: &usize| *index != wanting && !self.slots[*index].table.is_empty();
        let all = || (0..self.slots.len()).filter(has_blocks);
        let idle = all().filter(|index| self.slots[*index].running.is_none());
        let younger = || all().filter(|index| self.slots[*index].order > self.slots[wanting].order);
        idle.min_by_key(|index| (self.slots[*index].owner.is_some(), self.slots[*index].used))
            .or_else(|| younger().max_by_key(|index| self.slots[*index].order))
    }

    /// Gives back all blocks of a slot. Its tokens are computed again when it runs.
    pub(super) fn forget(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        (slot.cached, slot.opening) = (0, 0);
        self.cache.shorten(&mut slot.table, 0);
    }

    /// Shares the first tokens of a slot with another.
    pub(super) fn share(&mut self, from: usize, to: usize, count: usize) -> Result<(), TchError> {
        let lender = std::mem::take(&mut self.slots[from].table);
        let shared = self.cache.share(&lender, &mut self.slots[to].table, count);
        self.slots[from].table = lender;
        let (shared, slot) = (shared?, &mut self.slots[to]);
        slot.cached = 0;
        slot.fill(shared);
        Ok(())
    }
}
