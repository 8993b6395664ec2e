//! Check of the memory for compiling plugins.

use gymkhana_orchestration::machine::MachineMemory;

use super::finding::DoctorFinding;
use crate::units::size;

const CHECK: &str = "memory";

/// Available memory below which the compilation of large plugins may fail, in bytes.
const NEEDED: u64 = 2 << 30;

/// Checks that plugins can be compiled.
pub fn check(facts: Option<&MachineMemory>) -> DoctorFinding {
    let Some(MachineMemory { available, total }) = facts else {
        return DoctorFinding::warn(CHECK, "the system does not report its memory\nhint: mount /proc");
    };
    let text = format!("{} of {} available", size(*available), size(*total));
    if *available >= NEEDED {
        return DoctorFinding::ok(CHECK, text);
    }
    DoctorFinding::warn(CHECK, format!("{text}\nhint: end other programs, or use a machine with more memory"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingGrade;
    use super::*;

    #[test]
    fn little_memory_is_a_warning() {
        let finding = check(Some(&MachineMemory { available: 2 << 30, total: 8 << 30 }));
        assert_eq!((finding.status, finding.text.as_str()), (FindingGrade::Ok, "2.0 GiB of 8.0 GiB available"));
        assert_eq!(check(Some(&MachineMemory { available: (2 << 30) - 1, total: 8 << 30 })).status, FindingGrade::Warn);
        assert_eq!(check(None).status, FindingGrade::Warn);
    }
}
