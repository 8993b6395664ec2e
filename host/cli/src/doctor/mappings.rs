//! Memory mappings of a process, which limit the number of live plugins.

use gymkhana_finding::Finding;
use gymkhana_sandbox::places_for;

const CHECK: &str = "mappings";

/// Linux's default.
const DEFAULT: u64 = 65_530;

/// Checks `vm.max_map_count`.
pub fn check(max_map_count: u64) -> Finding {
    let text = format!("vm.max_map_count {max_map_count}: up to {} live plugins", places_for(max_map_count));
    if max_map_count >= DEFAULT {
        return Finding::ok(CHECK, text);
    }
    Finding::warn(CHECK, format!("{text}\nhint: run `sysctl -w vm.max_map_count={DEFAULT}` as root"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_finding::FindingStatus;

    #[test]
    fn fewer_mappings_than_the_default_are_a_warning() {
        let finding = check(65_530);
        assert_eq!(finding.status, FindingStatus::Ok);
        assert_eq!(finding.text, "vm.max_map_count 65530: up to 10000 live plugins");
        // Half of them are reserved, and each plugin takes four.
        let finding = check(8000);
        assert_eq!(finding.status, FindingStatus::Warn);
        assert_eq!(finding.text, "vm.max_map_count 8000: up to 1000 live plugins");
    }
}
