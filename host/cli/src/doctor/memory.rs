//! Check of the memory for compiling plugins.

use gymkhana_finding::Finding;
use gymkhana_orchestration::machine::MachineMemory;

use crate::units::size;

const CHECK: &str = "memory";

/// Available memory below which the compilation of large plugins may fail, in bytes.
const NEEDED: u64 = 2 << 30;

/// Checks that plugins can be compiled.
pub fn check(facts: Option<&MachineMemory>) -> Finding {
    let Some(MachineMemory { available, total }) = facts else {
        return Finding::warn(CHECK, "the system does not report its memory\nhint: mount /proc");
    };
    let text = format!("{} of {} available", size(*available), size(*total));
    if *available >= NEEDED {
        return Finding::ok(CHECK, text);
    }
    Finding::warn(CHECK, format!("{text}\nhint: end other programs, or use a machine with more memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn little_memory_is_a_warning() {
        let finding = check(Some(&MachineMemory { available: 2 << 30, total: 8 << 30 }));
        assert_eq!((finding.status, finding.text.as_str()), (FindingStatus::Ok, "2.0 GiB of 8.0 GiB available"));
        assert_eq!(
            check(Some(&MachineMemory { available: (2 << 30) - 1, total: 8 << 30 })).status,
            FindingStatus::Warn
        );
        assert_eq!(check(None).status, FindingStatus::Warn);
    }
}
