//! Bounds of what an episode's plugins add to its record: bytes, outbound calls and log lines.

pub(crate) mod log;
pub(crate) mod quota;

use gymkhana_record::{FailureKind, stored_bytes};
use gymkhana_sandbox::CallError;
use serde::{Deserialize, Serialize};

/// Bytes of an episode's record that plugins caused, counted as the record stores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteBudget {
    used: u64,
    limit: u64,
}

impl ByteBudget {
    /// A budget of this many bytes, of which none is used.
    pub(crate) fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    /// Bytes used so far. A value that was refused does not count.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Counts a value that the record is about to hold.
    ///
    /// # Errors
    /// If the record would exceed its budget. The value is not counted and must not be kept.
    pub(crate) fn charge<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CallError> {
        self.charge_bytes(stored_bytes(value))
    }

    /// Counts bytes that the record is about to hold.
    ///
    /// # Errors
    /// If the record would exceed its budget.
    pub(crate) fn charge_bytes(&mut self, bytes: u64) -> Result<(), CallError> {
        let wanted = self.used.saturating_add(bytes);
        if wanted > self.limit {
            let message = format!(
                "the episode's record would hold {wanted} bytes of its plugins, but `limits.episode_mib` allows {}",
                self.limit
            );
            return Err(CallError::new(FailureKind::EpisodeSize, message));
        }
        self.used = wanted;
        Ok(())
    }

    /// Counts a value that the record holds in any case, such as an outbound call that was made. Values after one that
    /// exceeds the budget are refused.
    pub(crate) fn add<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.used = self.used.saturating_add(stored_bytes(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_counted_and_more_is_refused() {
        let mut budget = ByteBudget::new(20);
        // Two quotation marks and a control character of six bytes.
        budget.charge("\u{1}aa").expect("10 bytes");
        assert_eq!(budget.used(), 10);
        let refused = budget.charge("123456789").expect_err("11 bytes");
        assert_eq!(refused.kind, FailureKind::EpisodeSize);
        assert!(refused.message.contains("would hold 21 bytes") && refused.message.ends_with("allows 20"), "{refused}");
        assert_eq!(budget.used(), 10);
        budget.charge("12345678").expect("10 bytes");
        budget.add("more");
        assert_eq!(budget.used(), 26);
        assert!(budget.charge("").is_err());
    }
}
