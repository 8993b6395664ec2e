//! Limits of all data that one OCI repository may send for one resolution.
//!
//! Each response is bounded by itself, but the registry chooses the number of pages, tags and manifests.

use std::sync::atomic::{AtomicU64, Ordering};

use super::OciError;

/// Number of pages of a tag list. Registries send 50 to 1000 tags per page.
const MAX_PAGES: u64 = 100;
/// Number of tags, versions and others.
const MAX_TAGS: u64 = 10_000;
/// Size of all pages of a tag list in bytes. A tag has at most 128 characters.
const MAX_TAG_BYTES: u64 = 4 << 20;
/// Number of manifests: of versions that match the requirement.
const MAX_MANIFESTS: u64 = 1000;
/// Size of all manifests in bytes. A manifest with a release file has a few KiB.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;
/// Size of all components in bytes that are downloaded because their manifests have no release file.
const MAX_COMPONENT_BYTES: u64 = 1 << 30;

/// An amount with a limit.
#[derive(Debug)]
pub(super) struct TransferBudget {
    what: &'static str,
    limit: u64,
    spent: AtomicU64,
}

impl TransferBudget {
    fn new(what: &'static str, limit: u64) -> Self {
        Self { what, limit, spent: AtomicU64::new(0) }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Adds to the amount.
    ///
    /// # Errors
    /// If the sum exceeds the limit.
    pub fn charge(&self, amount: u64) -> Result<(), OciError> {
        let before = self.spent.fetch_add(amount, Ordering::Relaxed);
        let found = before.saturating_add(amount);
        if found <= self.limit {
            return Ok(());
        }
        Err(OciError::TooMuch { what: self.what, found, limit: self.limit })
    }
}

/// Budgets of one repository.
#[derive(Debug)]
pub(super) struct RepositoryBudget {
    pub pages: TransferBudget,
    pub tags: TransferBudget,
    pub tag_bytes: TransferBudget,
    pub manifests: TransferBudget,
    pub manifest_bytes: TransferBudget,
    pub component_bytes: TransferBudget,
}

impl Default for RepositoryBudget {
    fn default() -> Self {
        Self {
            pages: TransferBudget::new("pages of tags", MAX_PAGES),
            tags: TransferBudget::new("tags", MAX_TAGS),
            tag_bytes: TransferBudget::new("bytes of tags", MAX_TAG_BYTES),
            manifests: TransferBudget::new("versions that match", MAX_MANIFESTS),
            manifest_bytes: TransferBudget::new("bytes of manifests", MAX_MANIFEST_BYTES),
            component_bytes: TransferBudget::new("bytes of components without a release file", MAX_COMPONENT_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_beyond_the_limit_is_an_error_with_both_numbers() {
        let budget = TransferBudget::new("tags", 10);
        budget.charge(4).expect("within");
        budget.charge(6).expect("the limit itself");
        let error = budget.charge(1).expect_err("beyond");
        assert!(matches!(error, OciError::TooMuch { what: "tags", found: 11, limit: 10 }), "{error}");
    }
}
