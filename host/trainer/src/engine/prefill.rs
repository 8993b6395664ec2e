//! The next prefill: which slots compute tokens together, and what they take over from others.

use tch::TchError;

use super::slot::{EngineSlot, shared_prefix};
use super::{Engine, Row};

/// Maximum positions per prefill, padding included; bounds the memory of mask and scores.
const PREFILL_TOKENS: usize = 8192;

/// A prefix of another slot is shared, or waited for, if it exceeds the own cached prefix by at least this many tokens.
const WORTHWHILE_PREFIX: usize = 16;

impl Engine {
    /// Rows of the next prefill: of similar length, without rows whose prefix another row of the batch is about to
    /// cache, and without rows that lack blocks.
    pub(super) fn next_prefill(&mut self) -> Result<Option<Vec<Row>>, TchError> {
        let mut lacking: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].pending() > 1).collect();
        for slot in &lacking {
            if self.deterministic { self.borrow_opening(*slot)? } else { self.borrow_prefix(*slot)? }
        }
        lacking.retain(|slot| self.slots[*slot].pending() > 1);
        if self.deterministic {
            let row = |slot: usize| Row { slot, first: self.slots[slot].cached, count: self.slots[slot].pending() - 1 };
            let Some(row) = lacking.first().map(|slot| row(*slot)) else { return Ok(None) };
            return Ok(self.make_room(&row)?.then(|| vec![row]));
        }
        let mut rows = self.alike(lacking);
        // The oldest first, so that room that is taken from a younger one is not given back to it.
        rows.sort_by_key(|row| self.slots[row.slot].order);
        let mut roomy = Vec::new();
        for row in rows {
            // An older one may have taken its blocks.
            if row.first == self.slots[row.slot].cached && self.make_room(&row)? {
                roomy.push(row);
            }
        }
        Ok(Some(roomy).filter(|rows| !rows.is_empty()))
    }

    /// The next tokens of a slot that are prefilled together.
    fn portion(&self, slot: usize) -> Row {
        Row { slot, first: self.slots[slot].cached, count: self.slots[slot].pending().min(self.portion) }
    }

    /// Slots of similar length that fit into a prefill, the longest first.
    fn alike(&self, mut slots: Vec<usize>) -> Vec<Row> {
        slots.sort_by_key(|slot| std::cmp::Reverse(self.portion(*slot).count));
        let longest = slots.first().map_or(0, |slot| self.portion(*slot).count);
        let mut chosen: Vec<usize> = Vec::new();
        for index in slots {
            let slot = &self.slots[index];
            if (chosen.len() + 1) * longest > PREFILL_TOKENS.max(longest) || self.portion(index).count * 2 < longest {
                break;
            }
            let wait_for_sibling = chosen.iter().any(|other| {
                shared_prefix(&self.slots[*other].tokens, &slot.tokens) >= slot.cached + WORTHWHILE_PREFIX
            });
            if !wait_for_sibling {
                chosen.push(index);
            }
        }
        chosen.into_iter().map(|slot| self.portion(slot)).collect()
    }

    /// Shares the longest prefix that another slot has cached, if it is long enough. Members of a group share the
    /// task's text, and all conversations share the system message.
    fn borrow_prefix(&mut self, index: usize) -> Result<(), TchError> {
        let slot = &self.slots[index];
        let useful = &slot.tokens[..slot.tokens.len() - 1];
        let candidates = (0..self.slots.len()).filter(|other| *other != index).map(|other| {
            let lender = &self.slots[other];
            (shared_prefix(&lender.tokens[..lender.cached], useful), other)
        });
        match candidates.max_by_key(|(shared, _)| *shared) {
            Some((shared, lender)) if shared >= slot.cached + WORTHWHILE_PREFIX => self.share(lender, index, shared),
            _ => Ok(()),
        }
    }

    /// Shares the prompt of a slot that computed the same tokens in one prefill, which gives bit-identical numbers.
    /// Members of a group thus compute their prompt once.
    fn borrow_opening(&mut self, index: usize) -> Result<(), TchError> {
        let slot = &self.slots[index];
        let wanted = &slot.tokens[..slot.tokens.len() - 1];
        let lends = |lender: &EngineSlot| lender.opening == wanted.len() && lender.tokens.starts_with(wanted);
        if slot.cached > 0 {
            return Ok(());
        }
        let Some(lender) = self.slots.iter().position(lends) else { return Ok(()) };
        let count = wanted.len();
        if lender == index {
            self.slots[index].fill(count);
            return Ok(());
        }
        self.share(lender, index, count)
    }
}
